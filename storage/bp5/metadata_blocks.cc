#include <algorithm>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/bp5/metadata_impl.h"

namespace cairn::bp5 {
namespace {

// Places in an array record: section 7.
constexpr std::uint32_t kBlockCount = 8, kDimensionCount = 16, kShape = 24, kCount = 32, kOffset = 40, kLocation = 48;

const std::byte* Ahead(const std::byte* at, std::uint64_t bytes) {
  return at == nullptr ? nullptr : at + bytes;
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

bool BlockWalk::Next() {
  while (left_ == 0) {
    if (!NextRecord()) return false;
  }
  --left_;
  return TakeBlock();
}

bool BlockWalk::Fail(const char* what) {
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
  const Metadata::Impl::Record* const records = &impl.records[step.first_record];
  while (writer_ < step.writers) {
    const Metadata::Impl::Record& record = records[writer_++];
    const std::optional<Template::Slot> slot = impl.SlotOf(record, variable_);
    if (!slot.has_value()) continue;
    block_.writer = writer_ - 1;
    block_.index = ~std::uint64_t{0};  // the first one is to be 0
    record_.has_operator = slot->has_operator();
    record_.has_min_max = slot->has_min_max();
    return TakeRecord(record.base, record.length, impl.templates[record.used].fixed_bytes, slot->offset);
  }
  return false;
}

// The checks of section 14 for an array record.
bool BlockWalk::TakeRecord(const std::byte* base, std::uint64_t length, std::uint32_t fixed_bytes,
                           std::uint32_t offset) {
  const std::byte* const at = base + offset;
  const std::uint64_t dimensions = LoadU64(at), blocks = LoadU64(at + kBlockCount);
  if (dimensions < 1 || dimensions > kDimensionsMax) return Fail("Dims is not 1 to 64");
  if (record_.dimensions != dimensions) {
    if (record_.dimensions != 0) return Fail("Dims is not as in other records");
    record_.dimensions = dimensions;
  }
  if (blocks > length / 8) return Fail("BlockCount is more than the record can hold");
  if (LoadU64(at + kDimensionCount) != dimensions * blocks) return Fail("DBCount is not Dims * BlockCount");
  left_ = blocks;
  if (blocks == 0) return true;
  const char* bad = nullptr;  // what leaves the record
  const auto array = [&](std::uint32_t place, std::uint64_t bytes, const char* what) -> const std::byte* {
    const std::uint64_t pointer = LoadU64(at + place);
    if (pointer >= fixed_bytes && pointer % 8 == 0 && pointer <= length && bytes <= length - pointer) {
      return base + pointer;
    }
    bad = what;
    return nullptr;
  };
  // No overflow: each number is at most some 64 times the record's length.
  if (record_.kind != Kind::kLocalArray) {
    const std::byte* const shape = array(kShape, 8 * dimensions, "Shape is null or leaves the record");
    if (bad != nullptr) return Fail(bad);
    const bool first = record_.shape == nullptr;
    if (first) record_.shape = shape;
    if (first && record_.kind == Kind::kJoinedArray && !TakeJoinedShape()) return false;
  }
  record_.count = array(kCount, 8 * dimensions * blocks, "Count is null or leaves the record");
  if (record_.kind == Kind::kGlobalArray) {
    record_.offset = array(kOffset, 8 * dimensions * blocks, "Offset is null or leaves the record");
  }
  record_.location = array(kLocation, 8 * blocks, "DataBlockLocation is null or leaves the record");
  std::uint32_t place = kArrayRecordBytes;
  if (record_.has_operator) {
    record_.bytes = array(place, 8 * blocks, "DataBlockSize is null or leaves the record");
    place += 8;
  }
  record_.min_max = nullptr;
  if (record_.has_min_max && LoadU64(at + place) != 0) {
    record_.min_max = array(place, 2 * blocks * record_.element_bytes, "MinMax leaves the record");
  }
  return bad == nullptr || Fail(bad);
}

bool BlockWalk::TakeJoinedShape() {
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
  // An extent of 0 makes the product 0 whatever the others are.
  std::uint64_t bytes = r.element_bytes;
  bool fits = true, empty = false;
  for (std::uint64_t d = 0; d < dimensions; ++d) {
    const std::uint64_t count = LoadU64(r.count + 8 * d);
    empty |= count == 0;
    fits &= !__builtin_mul_overflow(bytes, count, &bytes);
    if (r.kind != Kind::kGlobalArray) continue;
    const std::uint64_t shape = LoadU64(r.shape + 8 * d), start = LoadU64(r.offset + 8 * d);
    if (start > shape || count > shape - start) return Fail("a block leaves the shape");
  }
  if (!fits && !empty) return Fail("a block has more bytes than can be counted");
  block_.count = Numbers(r.count, dimensions, r.reversed);
  if (r.kind == Kind::kGlobalArray) block_.offset = Numbers(r.offset, dimensions, r.reversed);
  if (r.kind == Kind::kJoinedArray) {
    const Numbers shape(r.shape, dimensions, r.reversed);
    for (std::size_t d = 0; d < dimensions; ++d) {
      if (d != block_.joined && block_.count[d] > shape[d]) return Fail("a block leaves the shape");
    }
    block_.joined_start = joined_end_;
    if (__builtin_add_overflow(joined_end_, block_.count[block_.joined], &joined_end_)) {
      return Fail("joined blocks have a longer extent than can be counted");
    }
  }
  ++block_.index;
  ++block_.id;
  block_.location = LoadU64(r.location);
  block_.has_operator = r.has_operator;
  block_.stored_bytes = r.bytes != nullptr && r.has_operator ? LoadU64(r.bytes) : empty ? 0 : bytes;
  const bool shown = r.min_max != nullptr && !empty && r.ordered;
  block_.min = shown ? r.min_max : nullptr;
  block_.max = shown ? r.min_max + r.element_bytes : nullptr;
  r.count += 8 * dimensions;
  r.offset = Ahead(r.offset, 8 * dimensions);
  r.location += 8;
  r.bytes = Ahead(r.bytes, 8);
  r.min_max = Ahead(r.min_max, 2 * r.element_bytes);
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
  walk.record_.ordered = IsOrdered(v.type);
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
