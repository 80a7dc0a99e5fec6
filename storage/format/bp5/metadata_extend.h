// How new bytes of the three files are checked and noted: the first pass of checks. For metadata_*.cc.
#ifndef CAIRN_STORAGE_FORMAT_BP5_METADATA_EXTEND_H_
#define CAIRN_STORAGE_FORMAT_BP5_METADATA_EXTEND_H_

#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/bp5/metadata_impl.h"
#include "storage/format/bp5/walk.h"

namespace cairn::bp5 {

class Metadata::Impl::Extender {
 public:
  Extender(Impl& impl, const Tail& tail);
  // On an error all is as it was before.
  absl::Status Run();

 private:
  using Bytes = std::span<const std::byte>;

  absl::Status TakeAll();
  void GoBack();
  void ShrinkIfMany();

  // metadata_index.cc: md.idx, mmd.0
  absl::Status TakeFormats();
  absl::Status TakeFormat(const bp5::FormatEntry& stored);
  absl::Status TakeHeader();
  absl::Status TakeIndex();
  absl::Status TakeWriterMap(Bytes body);
  absl::Status TakeStep(Bytes body);

  // metadata_steps.cc: md.0
  absl::Status TakeStepMetadata(Bytes bytes);
  absl::Status TakeRecord(std::uint32_t writer, Bytes slot);
  absl::Status TakeAttributeRecord(Bytes slot);
  absl::Status UseFormat(FormatEntry& entry);
  absl::StatusOr<VariableNumber> NumberOf(const FormatEntry& entry, const TemplateEntry& variable);
  std::uint32_t NoteBits(Used& used, std::uint32_t writer, const std::byte* bits, std::uint64_t count);
  void Merge(Used& used, const Record& record);
  void NoteWritten(VariableNumber number, const std::byte* at);
  void KeepForGoingBack(VariableNumber number);

  template <typename... Args>
  absl::Status BadStep(fmt::format_string<Args...> format, Args&&... args) const {
    return DataLoss("md.0: step {} at {}: {}", impl_.steps.size(), step_.metadata_begin,
                    fmt::format(format, std::forward<Args>(args)...));
  }
  std::uint64_t OffsetOf(const std::byte* at) const {  // in md.0
    return tail_.metadata_begin + static_cast<std::uint64_t>(at - tail_.metadata.data());
  }

  Impl& impl_;
  const Tail& tail_;
  std::uint64_t record_offset_ = 0;  // in md.idx, of the record looked at
  Step step_;                        // the one being taken
  RecordView record_view_;           // the metadata record looked at; the one before it until then

  // What there was before.
  struct Before {
    Header header;
    std::uint64_t index_bytes, formats_bytes, metadata_bytes, steps_bytes;
    std::size_t formats, templates, variables, subfiles, maps, steps, records, positions, words;
  };
  const Before before_;
  struct Kept {
    VariableNumber variable;
    bool has_operator;
    std::uint32_t dimensions;
  };
  std::vector<Kept> kept_;
};

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_METADATA_EXTEND_H_
