#include "storage/format/bp5/image.h"

#include <algorithm>

#include "storage/base/check.h"

namespace cairn::bpdir {

void StepAssembler::AddFormat(const bp5::FormatBlock& format, std::string& formats) {
  if (known_.insert(format.id).second) formats += bp5::EncodeFormatEntry(format);
}

StepBytes StepAssembler::Append(std::span<const bp5::EncodedStep> writers, std::span<const bp5::WriterData> data,
                                std::span<const std::uint32_t> subfiles, bool new_map) {
  CAIRN_CHECK(!writers.empty());
  CAIRN_CHECK(data.size() == writers.size() && subfiles.size() == writers.size());
  StepBytes step;
  const bp5::FormatBlock* last = nullptr;  // most often all writers have the same
  for (const bp5::EncodedStep& writer : writers) {
    if (writer.format.get() != last) AddFormat(*writer.format, step.formats);
    last = writer.format.get();
    if (writer.attributes_format != nullptr) AddFormat(*writer.attributes_format, step.formats);
  }
  if (new_map || !std::ranges::equal(subfiles, subfiles_)) {
    const std::set<std::uint32_t> distinct(subfiles.begin(), subfiles.end());
    step.index = bp5::EncodeWriterMap(subfiles, static_cast<std::uint32_t>(distinct.size()));
    subfiles_.assign(subfiles.begin(), subfiles.end());
  }
  step.metadata = bp5::EncodeStepMetadata(writers);
  step.index += bp5::EncodeStepRecord(metadata_bytes_, step.metadata.size(), data);
  metadata_bytes_ += step.metadata.size();
  return step;
}

void Image::Append(std::span<const bp5::EncodedStep> writers, std::span<const bp5::WriterData> data,
                   std::span<const std::uint32_t> subfiles, bool new_map) {
  const StepBytes step = assembler_.Append(writers, data, subfiles, new_map);
  index_ += step.index;
  metadata_ += step.metadata;
  formats_ += step.formats;
}

}  // namespace cairn::bpdir
