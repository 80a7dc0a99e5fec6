// The metadata of a BP5 directory (md.idx, md.0, mmd.0), read in place: records are never copied, sorted or rewritten.
// What is built is a template per format, a small record per variable, and per step the writers' base addresses.
// Source: BP5 specification, sections 3 to 9, 11, 14.
//
// Two passes of checks: index, formats, record headers and bit fields when bytes are added; a variable's own record
// when it is used. Everything is bounded by the bytes that are there.
//
// Steps here are absolute steps (places in md.idx) unless a name says relative. Column-major directories are shown
// row-major: the dimensions of arrays with more than one are reversed.
//
// Pure: no I/O. Extend changes the object; all else is const and thread-safe.
#ifndef CAIRN_STORAGE_FORMAT_BP5_METADATA_H_
#define CAIRN_STORAGE_FORMAT_BP5_METADATA_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/box.h"
#include "storage/format/bp5/array_record.h"
#include "storage/format/bp5/format.h"
#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

// u64 numbers where they are, aligned or not, perhaps seen from the end.
class Numbers {
 public:
  Numbers() = default;
  Numbers(const std::byte* at, std::size_t size, bool reversed) : at_(at), size_(size), reversed_(reversed) {}
  std::size_t size() const { return size_; }
  bool empty() const { return at_ == nullptr; }
  std::uint64_t operator[](std::size_t i) const {
    std::uint64_t number;
    std::memcpy(&number, at_ + 8 * (reversed_ ? size_ - 1 - i : i), 8);
    return number;
  }

 private:
  const std::byte* at_ = nullptr;
  std::size_t size_ = 0;
  bool reversed_ = false;
};

struct Variable {
  std::string name;
  Kind kind = Kind::kGlobalValue;
  Type type = Type::kInt8;
  std::uint32_t element_bytes = 0;   // strings: 0
  std::uint32_t dimensions = 0;      // of arrays: as the first record says; 0: none that can be used does
  bool has_operator = false;         // in some format: perhaps compressed, see operator.h
  std::string expression;            // derived variables: as stored (base64); its data may be absent
  FormatId element_format;           // of structs
  std::vector<std::uint32_t> steps;  // in which some writer wrote it, rising: the relative steps are their places here
};
using VariableNumber = std::uint32_t;  // in order of first appearance

// A block where it is, as long as the bytes are.
struct Block {
  std::uint32_t writer = 0;
  std::uint64_t index = 0;  // among the writer's of this variable and step
  std::uint64_t id = 0;     // counted over all writers of the step: what applications use for local arrays
  Numbers count;
  std::uint64_t location = 0;      // in the writer's data of the step; kNotStored
  std::uint64_t stored_bytes = 0;  // with an operator: as stored; else elements * element bytes
  bool has_operator = false;
  const std::byte* min = nullptr;  // of the array's type; null: not known, or an empty block
  const std::byte* max = nullptr;
  std::size_t dimensions() const { return count.size(); }
  std::uint64_t StartOf(std::size_t d) const { return d == joined ? joined_start : offset.empty() ? 0 : offset[d]; }
  Box ToBox() const;

  Numbers offset;                        // empty: L and J
  std::size_t joined = ~std::size_t{0};  // J: the dimension along which blocks are stacked
  std::uint64_t joined_start = 0;
};

class Metadata;

// Goes over the blocks of a variable in a step, writers in order. No allocation per block. Each writer's record is
// checked when the walk comes to it, each block before it is shown: geometry, pointers, that a block lies in the shape
// (that of the lowest writer). Whether its data lies where it should is for Place and for who reads.
//   BlockWalk walk = metadata.Blocks(v, step);
//   while (walk.Next()) use(walk.block());
//   return walk.status();   // kDataLoss: damaged; kInvalidArgument: not an array
class BlockWalk {
 public:
  bool Next();
  // Next, but straight to the block with this id, which lies ahead; false: there is none. Blocks in between are not
  // checked. Takes the time of the records in between, whatever blocks they have (J: of the blocks).
  bool Seek(std::uint64_t id);
  const Block& block() const { return block_; }
  const absl::Status& status() const { return status_; }

 private:
  friend class Metadata;
  bool NextRecord();
  void UseFormat(std::uint32_t used);
  bool TakeRecord(const std::byte* base, std::uint64_t length);
  bool TakeDimensions(std::uint64_t dimensions);
  bool TakeJoinedShape();
  bool TakeBlock();
  bool Join();
  bool Fail(const char* what);

  const Metadata* metadata_ = nullptr;
  VariableNumber variable_ = 0;
  std::uint32_t step_ = 0, writer_ = 0;  // writer_: the next one to look at
  Block block_;
  absl::Status status_;
  std::uint32_t format_ = ~std::uint32_t{0};  // of the writer's record; its place there
  ArrayPlace place_;
  ArrayTraits traits_;
  ArrayCursor cursor_;                // in this writer's record
  const std::byte* shape_ = nullptr;  // that of the lowest writer
  bool reversed_ = false;
  std::uint64_t joined_end_ = 0;
};

struct MinMax {
  std::array<std::byte, 16> min{}, max{};  // of the variable's type, from the first byte
  // Blocks with elements of which these are not known: elements may lie outside. Steps in which that is so of all.
  std::uint64_t blocks_without = 0;
  std::uint32_t steps_without = 0;
};

struct Attribute {
  std::string name;
  Type type = Type::kInt8;
  bool single = true;
  std::string values;                // raw elements; strings: empty
  std::vector<std::string> strings;  // type kString
};
// Added to the type in front of the name that is stored, of one that is not single: BP5 specification, section 8.
inline constexpr int kArrayMark = 18;

// A place in a subfile.
struct DataPlace {
  std::uint32_t subfile = 0;
  std::uint64_t offset = 0;
};

class Metadata {
 public:
  struct Header {
    std::string text;  // "ADIOS-BP v2.<.0 Index Table"
    bool active = false, column_major = false, flatten = false;
    std::uint32_t id = 0;  // random identifier of the dataset, 0: none
  };

  // What came to the three files since the last call.
  struct Tail {
    std::span<const std::byte> index;    // md.idx from index_bytes() on
    std::span<const std::byte> formats;  // mmd.0 from formats_bytes() on: stays in place as long as this object
    std::uint64_t metadata_begin = 0;    // where `metadata` begins in md.0
    // md.0 from there on: every new step lies wholly in it. Stays in place as long as this object.
    std::span<const std::byte> metadata;
  };

  Metadata();
  ~Metadata();
  Metadata(Metadata&&) noexcept;
  Metadata& operator=(Metadata&&) noexcept;

  // Takes what is complete; an unfinished record at the end of md.idx is left for the next time. An error takes
  // nothing: all is as before, and the message names file, field and offset.
  //   kDataLoss            damaged (section 14)
  //   kFailedPrecondition  another byte order or version
  // Fewer than 64 bytes of md.idx: OK, no steps, and nothing is taken.
  absl::Status Extend(const Tail& tail);
  std::uint64_t index_bytes() const;     // of md.idx, taken so far
  std::uint64_t formats_bytes() const;   // of mmd.0
  std::uint64_t metadata_bytes() const;  // of md.0 up to the end of the last step
  std::uint64_t steps_bytes() const;     // of md.0 that steps have: less than that, if there are gaps between them
  std::uint64_t own_bytes() const;       // memory of this object's own, about

  const Header& header() const;
  std::uint32_t steps() const;
  std::uint32_t writers(std::uint32_t step) const;
  std::uint32_t flushes(std::uint32_t step) const;
  std::uint64_t index_end(std::uint32_t step) const;     // of md.idx behind this step's record
  std::uint64_t metadata_end(std::uint32_t step) const;  // of md.0 behind this step
  std::uint64_t formats_end(
      std::uint32_t step) const;  // of mmd.0: behind the last entry that this step or one before uses
  std::uint32_t subfile(std::uint32_t step, std::uint32_t writer) const;

  std::span<const Variable> variables() const;
  std::optional<VariableNumber> FindVariable(std::string_view name) const;

  // --- the lookup: constant time ---
  // The variable's scalar or array record in this step and writer, unchecked beyond the fixed part; null: no such step
  // or writer, the variable is not in the writer's format, or it was not written.
  const std::byte* Find(VariableNumber variable, std::uint32_t step, std::uint32_t writer) const;

  // Raw value of a scalar (g, l), not of a string. kNotFound: not written there.
  absl::StatusOr<std::span<const std::byte>> Scalar(VariableNumber variable, std::uint32_t step,
                                                    std::uint32_t writer) const;
  absl::StatusOr<std::string_view> String(VariableNumber variable, std::uint32_t step, std::uint32_t writer) const;
  // Global values: of the lowest writer that has it.
  absl::StatusOr<std::uint32_t> FirstWriter(VariableNumber variable, std::uint32_t step) const;  // kNotFound

  BlockWalk Blocks(VariableNumber variable, std::uint32_t step) const;
  // G: as stored by the lowest writer that has it. J: with the total. l: {writers}. g, L: empty. kNotFound: not
  // written.
  absl::StatusOr<Extents> Shape(VariableNumber variable, std::uint32_t step) const;
  absl::StatusOr<std::uint32_t> Dimensions(VariableNumber variable, std::uint32_t step) const;  // of arrays

  // Over all blocks (scalars: values of all writers) of the step; of all steps. nullopt: no statistics at all; where
  // only some blocks have none the answer says so. A NaN counts only where there is nothing else.
  absl::StatusOr<std::optional<MinMax>> MinMaxOf(VariableNumber variable, std::uint32_t step) const;
  absl::StatusOr<std::optional<MinMax>> MinMaxOf(VariableNumber variable) const;

  // All attributes as they are at `step` (those of the steps before applied in order), by name.
  absl::StatusOr<std::map<std::string, Attribute>> Attributes(std::uint32_t step) const;

  // --- data ---
  // Where `bytes` at `location` of a writer's data of the step lie (section 9). kDataLoss: outside of what the step
  // has, across parts, or a sum overflows.
  absl::StatusOr<DataPlace> Place(std::uint32_t step, std::uint32_t writer, std::uint64_t location,
                                  std::uint64_t bytes) const;
  std::uint64_t data_block_bytes(std::uint32_t step, std::uint32_t writer) const;  // DataBlockSize
  // Bytes that each subfile must have for the steps up to and with this one (section 15), by subfile.
  absl::StatusOr<std::map<std::uint32_t, std::uint64_t>> SubfileBytes(std::uint32_t step) const;

  // --- for those who show records as they are ---
  struct RecordPlace {
    const Format* format = nullptr;
    std::uint64_t offset = 0;         // of the record in md.0
    std::span<const std::byte> body;  // from the base on, `length` bytes
  };
  RecordPlace Record(std::uint32_t step, std::uint32_t writer) const;
  std::vector<RecordPlace> AttributeRecords(std::uint32_t step) const;
  std::vector<const Format*> formats() const;

 private:
  friend class BlockWalk;
  struct Impl;

  absl::StatusOr<std::optional<MinMax>> MinMaxOver(VariableNumber variable, std::span<const std::uint32_t> steps) const;

  std::unique_ptr<Impl> impl_;
};

// Steps one after the other, as a growing directory shows them: the second mode of reading.
class StepCursor {
 public:
  explicit StepCursor(const Metadata& metadata) : metadata_(&metadata) {}
  // Goes to the next step; false: it is not there yet (Extend, and ask again).
  bool Next() {
    if (begun_ == metadata_->steps()) return false;
    ++begun_;
    return true;
  }
  std::uint32_t step() const { return begun_ - 1; }  // REQUIRES: Next was true once
  bool Has(VariableNumber variable) const;

 private:
  const Metadata* metadata_;
  std::uint32_t begun_ = 0;
};

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_METADATA_H_
