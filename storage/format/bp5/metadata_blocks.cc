#include <algorithm>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/bp5/metadata_impl.h"

namespace cairn::bp5 {
namespace {

// Places in an array record: section 7.
constexpr std::uint32_t kBlockCount = 8, kDimensionCount = 16, kShape = 24, kCount = 32, kOffset = 40, kLocation = 48;

// Walks are bound by the time that memory takes. So the records that come next are asked for early, and a little later
// what they point to: the next writers' and, since most walks go over all steps of a variable, the next step's.
// Inline, since g++ takes a function that only fetches for one that does nothing.
template <typename Records>
[[gnu::always_inline]] inline void FetchAhead(const Records& records, std::size_t index, std::uint32_t offset) {
  constexpr std::size_t kAhead = 8;
  if (index + 2 * kAhead >= records.size()) return;
  const auto &now = records[index], &near = records[index + kAhead], &far = records[index + 2 * kAhead];
  if (far.used == now.used) {
    __builtin_prefetch(far.base + offset);
    __builtin_prefetch(far.base + offset + kArrayRecordBytes);
  }
  if (near.used == now.used) {
    const std::uint64_t pointer = LoadU64(near.base + offset + kCount);
    if (pointer >= near.length) return;
    __builtin_prefetch(near.base + pointer);
    __builtin_prefetch(near.base + pointer + 63);
  }
}

// Writers that have to store some pair say so that they know none. Its minimum is rare: most pairs differ in one byte.
bool IsUnknown(const std::byte* min_max, std::string_view unknown) {
  if (unknown.empty()) return false;
  const std::size_t last = unknown.size() / 2 - 1;
  return min_max[last] == static_cast<std::byte>(unknown[last]) &&
         std::memcmp(min_max, unknown.data(), unknown.size()) == 0;
}

}  // namespace

Box Block::ToBox() const {
  Box box;
  for (std::size_t d = 0; d < dimensions(); ++d) {
    box.start.push_back(StartOf(d));
    box.count.push_back(count[d]);
  }
  return box;
}

// One function of all that each block needs: a tenth faster. What few need stays out of it.
[[gnu::flatten]] bool BlockWalk::Next() {
  while (left_ == 0) {
    if (!NextRecord()) return false;
  }
  --left_;
  return TakeBlock();
}

bool BlockWalk::Seek(std::uint64_t id) {
  if (record_.kind == Kind::kJoinedArray) {  // where a block begins is known of those before it
    while (Next()) {
      if (block_.id == id) return true;
    }
    return false;
  }
  while (true) {
    const std::uint64_t ahead = id - (block_.id + 1);
    if (ahead < left_) {
      Skip(ahead);
      return Next();
    }
    block_.id += left_;
    left_ = 0;
    if (!NextRecord()) return false;
  }
}

// REQUIRES: blocks < left_.
void BlockWalk::Skip(std::uint64_t blocks) {
  const std::uint64_t numbers_bytes = 8 * record_.dimensions * blocks;  // no more than the record has
  left_ -= blocks;
  block_.index += blocks;
  block_.id += blocks;
  record_.count += numbers_bytes;
  record_.location += 8 * blocks;
  if (record_.kind == Kind::kGlobalArray) record_.offset += numbers_bytes;
  if (format_.has_operator) record_.bytes += 8 * blocks;
  if (record_.min_max != nullptr) record_.min_max += 2 * record_.element_bytes * blocks;
}

[[gnu::cold, gnu::noinline]] bool BlockWalk::Fail(const char* what) {
  const std::string name = variable_ < metadata_->variables().size() ? metadata_->variables()[variable_].name : "";
  status_ = DataLoss("md.0: variable {}, step {}, writer {}: {}", Quoted(name), step_, writer_ - 1, what);
  left_ = 0;
  writer_ = kNone;
  return false;
}

// Goes to the next writer's record, which may have no blocks.
bool BlockWalk::NextRecord() {
  if (metadata_ == nullptr) return false;
  const Metadata::Impl& impl = *metadata_->impl_;
  const Metadata::Impl::Step& step = impl.steps[step_];
  for (; writer_ < step.writers; ++writer_) {
    const std::size_t index = step.first_record + writer_;
    const Metadata::Impl::Record& record = impl.records[index];
    if (record.used != format_.used) UseFormat(record.used);
    if (format_.offset == 0 || (impl.words[record.first_word + format_.word] & format_.mask) == 0) continue;
    FetchAhead(impl.records, index, format_.offset);
    block_.writer = writer_++;
    block_.index = ~std::uint64_t{0};  // the first one is to be 0
    return TakeRecord(record.base, record.length);
  }
  return false;
}

// Where the variable is in the records of a format.
[[gnu::noinline]] void BlockWalk::UseFormat(std::uint32_t used) {
  const Metadata::Impl::Used& format = metadata_->impl_->templates[used];
  const Template::Slot slot = format.places.Find(variable_);
  format_ = {used,
             slot.offset,
             format.fixed_bytes,
             slot.bit() / 64,
             std::uint64_t{1} << (slot.bit() % 64),
             slot.has_operator(),
             slot.has_min_max()};
}

// The checks of section 14 for an array record.
bool BlockWalk::TakeRecord(const std::byte* base, std::uint64_t length) {
  Record& r = record_;
  const std::byte* const at = base + format_.offset;
  const std::uint64_t dimensions = LoadU64(at), blocks = LoadU64(at + kBlockCount), numbers = dimensions * blocks;
  // A variable whose first record has none knows none: two that are 0 are no agreement.
  if ((dimensions != r.dimensions || dimensions == 0) && !TakeDimensions(dimensions)) return false;
  if (blocks > length / 8) return Fail("BlockCount is more than the record can hold");
  if (LoadU64(at + kDimensionCount) != numbers) return Fail("DBCount is not Dims * BlockCount");
  left_ = blocks;
  if (blocks == 0) return true;

  // Arrays lie behind the fixed part. No overflow: each size is at most some 64 times the record's length.
  const std::uint64_t fixed_bytes = format_.fixed_bytes, room = length - fixed_bytes;
  if (8 * numbers > room) return Fail("Count leaves the record");
  std::uint64_t all = 0;  // pointers: their low bits
  bool outside = false;
  const auto pointer = [&](std::uint32_t place, std::uint64_t bytes) {
    const std::uint64_t pointer = LoadU64(at + place);
    all |= pointer;
    outside |= bytes > room || pointer - fixed_bytes > room - bytes;
    return pointer;
  };
  const std::uint64_t count = pointer(kCount, 8 * numbers), location = pointer(kLocation, 8 * blocks);
  const std::uint64_t shape = r.kind != Kind::kLocalArray ? pointer(kShape, 8 * dimensions) : 0;
  const std::uint64_t offset = r.kind == Kind::kGlobalArray ? pointer(kOffset, 8 * numbers) : 0;
  const std::uint64_t bytes = format_.has_operator ? pointer(kArrayRecordBytes, 8 * blocks) : 0;
  std::uint64_t min_max = 0;
  const std::uint32_t place = kArrayRecordBytes + (format_.has_operator ? 8 : 0);
  if (format_.has_min_max && LoadU64(at + place) != 0) {
    std::uint64_t pairs_bytes = 0;
    if (__builtin_mul_overflow(2 * blocks, r.element_bytes, &pairs_bytes) || pairs_bytes > room)
      return Fail("MinMax leaves the record");
    min_max = pointer(place, pairs_bytes);
  }
  if (outside || all % 8 != 0) {
    return Fail("Shape, Count, Offset, DataBlockLocation, DataBlockSize or MinMax is null, odd or leaves the record");
  }
  r.count = base + count;
  r.location = base + location;
  r.offset = base + offset;
  r.bytes = base + bytes;
  r.min_max = min_max == 0 ? nullptr : base + min_max;
  if (r.shape != nullptr || shape == 0) return true;
  r.shape = base + shape;
  return r.kind != Kind::kJoinedArray || TakeJoinedShape();
}

[[gnu::noinline]] bool BlockWalk::TakeDimensions(std::uint64_t dimensions) {
  if (dimensions < 1 || dimensions > kDimensionsMax) return Fail("Dims is not 1 to 64");
  if (record_.dimensions != 0) return Fail("Dims is not as in other records");
  record_.dimensions = dimensions;
  return true;
}

[[gnu::noinline]] bool BlockWalk::TakeJoinedShape() {
  const Numbers shape(record_.shape, record_.dimensions, record_.reversed);
  for (std::size_t d = 0; d < record_.dimensions; ++d) {
    if (shape[d] != kJoinedMark) continue;
    if (block_.joined != ~std::size_t{0}) return Fail("Shape has two joined dimensions");
    block_.joined = d;
  }
  return block_.joined != ~std::size_t{0} || Fail("Shape has no joined dimension");
}

// Shows the next block of the record.
bool BlockWalk::TakeBlock() {
  Record& r = record_;
  const std::uint64_t dimensions = r.dimensions;
  const bool global = r.kind == Kind::kGlobalArray;
  // An extent of 0 makes the product 0 whatever the others are.
  std::uint64_t bytes = r.element_bytes;
  bool fits = true, empty = false, inside = true;
  for (std::uint64_t d = 0; d < 8 * dimensions; d += 8) {
    const std::uint64_t count = LoadU64(r.count + d);
    empty |= count == 0;
    fits &= !__builtin_mul_overflow(bytes, count, &bytes);
    if (!global) continue;
    const std::uint64_t shape = LoadU64(r.shape + d), start = LoadU64(r.offset + d);
    inside &= start <= shape && count <= shape - start;
  }
  if (!inside) return Fail("a block leaves the shape");
  if (!fits && !empty) return Fail("a block has more bytes than can be counted");
  block_.count = Numbers(r.count, dimensions, r.reversed);
  if (global) block_.offset = Numbers(r.offset, dimensions, r.reversed);
  if (r.kind == Kind::kJoinedArray && !Join()) return false;
  ++block_.index;
  ++block_.id;
  block_.location = LoadU64(r.location);
  block_.has_operator = format_.has_operator;
  block_.stored_bytes = format_.has_operator ? LoadU64(r.bytes) : empty ? 0 : bytes;
  const bool shown = r.min_max != nullptr && !empty && r.ordered && !IsUnknown(r.min_max, r.unknown);
  block_.min = shown ? r.min_max : nullptr;
  block_.max = shown ? r.min_max + r.element_bytes : nullptr;
  if (left_ == 0) return true;
  r.count += 8 * dimensions;
  r.location += 8;
  if (global) r.offset += 8 * dimensions;
  if (format_.has_operator) r.bytes += 8;
  if (r.min_max != nullptr) r.min_max += 2 * r.element_bytes;
  return true;
}

// Puts the block behind those before it.
[[gnu::noinline]] bool BlockWalk::Join() {
  const Numbers shape(record_.shape, record_.dimensions, record_.reversed);
  for (std::size_t d = 0; d < record_.dimensions; ++d) {
    if (d != block_.joined && block_.count[d] > shape[d]) return Fail("a block leaves the shape");
  }
  block_.joined_start = joined_end_;
  if (__builtin_add_overflow(joined_end_, block_.count[block_.joined], &joined_end_)) {
    return Fail("joined blocks have a longer extent than can be counted");
  }
  return true;
}

BlockWalk Metadata::Blocks(VariableNumber variable, std::uint32_t step) const {
  BlockWalk walk;
  if (variable >= impl_->variables.size() || step >= impl_->steps.size()) return walk;
  const Variable& v = impl_->variables[variable];
  if (!IsArray(v.kind)) {
    walk.status_ = InvalidArgument("variable {} is no array", Quoted(v.name));
    return walk;
  }
  walk.metadata_ = this;
  walk.variable_ = variable;
  walk.step_ = step;
  walk.block_.id = ~std::uint64_t{0};  // the first one is to be 0
  walk.record_.dimensions = v.dimensions;
  walk.record_.element_bytes = v.element_bytes;
  walk.record_.kind = v.kind;
  walk.record_.ordered = IsOrdered(v.type) || v.type == Type::kChar;  // ADIOS2 2.8 stores them of char, too
  walk.record_.unknown = NoMinMaxOf(v.type);
  walk.record_.reversed = impl_->header.column_major && v.dimensions > 1;
  return walk;
}

absl::StatusOr<Extents> Metadata::Shape(VariableNumber variable, std::uint32_t step) const {
  CAIRN_ASSIGN_OR_RETURN(const std::uint32_t first, FirstWriter(variable, step));
  const Variable& v = impl_->variables[variable];
  Extents shape;
  if (v.kind == Kind::kLocalValue) shape.push_back(impl_->steps[step].writers);
  if (v.kind != Kind::kGlobalArray && v.kind != Kind::kJoinedArray) return shape;
  BlockWalk walk = Blocks(variable, step);
  walk.writer_ = first;
  while (walk.record_.shape == nullptr && walk.NextRecord()) {
  }
  CAIRN_RETURN_IF_ERROR(walk.status());
  if (walk.record_.shape == nullptr) {
    return NotFound("variable {} has no block in step {}", Quoted(v.name), step);
  }
  const Numbers stored(walk.record_.shape, walk.record_.dimensions, walk.record_.reversed);
  for (std::size_t d = 0; d < stored.size(); ++d) shape.push_back(stored[d]);
  if (v.kind != Kind::kJoinedArray) return shape;
  while (walk.Next()) {
  }
  CAIRN_RETURN_IF_ERROR(walk.status());
  shape[walk.block_.joined] = walk.joined_end_;
  return shape;
}

absl::StatusOr<std::uint32_t> Metadata::Dimensions(VariableNumber variable, std::uint32_t step) const {
  CAIRN_ASSIGN_OR_RETURN(const std::uint32_t first, FirstWriter(variable, step));
  BlockWalk walk = Blocks(variable, step);
  CAIRN_RETURN_IF_ERROR(walk.status());
  walk.writer_ = first;
  walk.NextRecord();
  CAIRN_RETURN_IF_ERROR(walk.status());
  return static_cast<std::uint32_t>(walk.record_.dimensions);
}

}  // namespace cairn::bp5
