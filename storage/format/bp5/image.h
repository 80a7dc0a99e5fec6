// The metadata files of a BP5 directory in memory, as they grow step by step. Pure.
// Source: BP5 specification, sections 3, 4 and 13.
#ifndef CAIRN_STORAGE_FORMAT_BP5_IMAGE_H_
#define CAIRN_STORAGE_FORMAT_BP5_IMAGE_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/format/bp5/encode.h"

namespace cairn::bpdir {

// What a step adds to each file.
struct StepBytes {
  std::string index, metadata, formats;
};

// Knows of the files what the next step depends on.
class StepAssembler {
 public:
  StepAssembler() = default;
  // Of a directory that is there: the bytes of its md.0, its formats, the last step's subfiles (none: no step).
  StepAssembler(std::uint64_t metadata_bytes, std::set<bp5::FormatId> known, std::vector<std::uint32_t> subfiles)
      : metadata_bytes_(metadata_bytes), known_(std::move(known)), subfiles_(std::move(subfiles)) {}

  // One step of `writers.size()` writers, `data[w]` in subfile `subfiles[w]`. A writer map goes before it if there was
  // none, or subfiles differ from the step before, or `new_map`. REQUIRES: sizes are equal and not 0, all data has
  // equally many flushes.
  StepBytes Append(std::span<const bp5::EncodedStep> writers, std::span<const bp5::WriterData> data,
                   std::span<const std::uint32_t> subfiles, bool new_map = false);

 private:
  void AddFormat(const bp5::FormatBlock& format, std::string& formats);

  std::uint64_t metadata_bytes_ = 0;
  std::set<bp5::FormatId> known_;
  std::vector<std::uint32_t> subfiles_;  // of the step before
};

// The files as a whole: what a view is made of, and tests read.
class Image {
 public:
  explicit Image(const bp5::IndexOptions& options) : index_(bp5::EncodeIndexHeader(options)) {}
  // As StepAssembler::Append.
  void Append(std::span<const bp5::EncodedStep> writers, std::span<const bp5::WriterData> data,
              std::span<const std::uint32_t> subfiles, bool new_map = false);
  const std::string& index() const { return index_; }
  const std::string& metadata() const { return metadata_; }
  const std::string& formats() const { return formats_; }

 private:
  StepAssembler assembler_;
  std::string index_, metadata_, formats_;
};

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FORMAT_BP5_IMAGE_H_
