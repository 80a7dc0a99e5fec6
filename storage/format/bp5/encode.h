// Writes BP5 metadata that ADIOS2's own tools read. Source: BP5 specification, section 13. Pure.
#ifndef CAIRN_STORAGE_FORMAT_BP5_ENCODE_H_
#define CAIRN_STORAGE_FORMAT_BP5_ENCODE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/box.h"
#include "storage/format/bp5/format.h"
#include "storage/format/bp5/metadata.h"
#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

struct PutBlock {
  Box box;  // L and J: start is not used
  // In this writer's data of the step. Not always a multiple of the element size: checkpoint files of layout A, and all
  // of exact packing, have elements anywhere, and a view points into them.
  std::uint64_t location = 0;
  std::string min_max;  // min, then max; empty: not known, and then of none of the put's blocks
};

// What one writer puts of one variable in one step.
struct Put {
  std::string name;
  Kind kind = Kind::kGlobalValue;
  Type type = Type::kInt8;
  std::string value;             // g and l: the raw element; strings: the text
  Extents shape;                 // G; J: kJoinedMark in one dimension
  std::vector<PutBlock> blocks;  // arrays, all of equally many dimensions (1 to 64)
};

// One writer's step, encoded. The format block is the same object for all writers and steps with the same variables in
// the same order, whoever made it.
struct EncodedStep {
  std::shared_ptr<const FormatBlock> format;
  std::string record;                                    // identifier and all; its slot, padded
  std::shared_ptr<const FormatBlock> attributes_format;  // null: no attributes
  std::string attributes;                                // its slot
};

// One writer over the steps of a directory: remembers its format, which gains fields as variables come, and starts
// afresh in the second step on end in which less than half of the fields are written. All of ADIOS2's tools that open a
// directory as a whole read that; its streaming mode, as with directories that other ranks have appended to, takes a
// variable that a writer's format no longer has for one that is where it was. Not thread-safe.
class WriterEncoder {
 public:
  WriterEncoder();
  ~WriterEncoder();
  WriterEncoder(WriterEncoder&&) noexcept;
  WriterEncoder& operator=(WriterEncoder&&) noexcept;

  // `data_block_bytes`: of this writer's data in the step (DataBlockSize, a multiple of 16). `attributes`: defined or
  // changed since the step before. An error leaves the writer as it was.
  //   kInvalidArgument  naming the variable: twice; no name, or a NUL in it; type, kind, value and blocks do not fit
  //                     each other, or what was put before under this name; a location that does not fit
  absl::StatusOr<EncodedStep> Encode(std::span<const Put> puts, std::uint64_t data_block_bytes,
                                     std::span<const Attribute> attributes = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// --- the three files ---

struct IndexOptions {
  bool active = false;
  bool column_major = false;
  std::uint32_t id = 0;
};
std::string EncodeIndexHeader(const IndexOptions& options);  // 64 bytes
inline constexpr std::uint64_t kActiveOffset = 39;           // of the active flag in md.idx
// `subfiles`: of each writer.
std::string EncodeWriterMap(std::span<const std::uint32_t> subfiles, std::uint32_t aggregators);

// A step's part of md.0: every writer's metadata record, then the distinct attribute records.
std::string EncodeStepMetadata(std::span<const EncodedStep> writers);
// Where each writer's data of the step lies: F pairs and the final position.
struct WriterData {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> flushed;  // position, bytes; as many for each writer
  std::uint64_t position = 0;
};
std::string EncodeStepRecord(std::uint64_t metadata_offset, std::uint64_t metadata_bytes,
                             std::span<const WriterData> writers);
// An entry of mmd.0.
std::string EncodeFormatEntry(const FormatBlock& block);

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_ENCODE_H_
