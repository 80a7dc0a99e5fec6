#include <algorithm>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/bp5/metadata_impl.h"

namespace cairn::bp5 {
namespace {

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
  while (cursor_.left == 0) {
    if (!NextRecord()) return false;
  }
  return TakeBlock();
}

bool BlockWalk::Seek(std::uint64_t id) {
  if (traits_.kind == Kind::kJoinedArray) {  // where a block begins is known of those before it
    while (Next()) {
      if (block_.id == id) return true;
    }
    return false;
  }
  while (true) {
    const std::uint64_t ahead = id - (block_.id + 1);
    if (ahead < cursor_.left) {
      cursor_.Skip(traits_, ahead);
      block_.index += ahead;
      block_.id += ahead;
      return Next();
    }
    block_.id += cursor_.left;
    cursor_.left = 0;
    if (!NextRecord()) return false;
  }
}

[[gnu::cold, gnu::noinline]] bool BlockWalk::Fail(const char* what) {
  const std::string name = variable_ < metadata_->variables().size() ? metadata_->variables()[variable_].name : "";
  status_ = DataLoss("md.0: variable {}, step {}, writer {}: {}", Quoted(name), step_, writer_ - 1, what);
  cursor_.left = 0;
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
    if (record.used != format_) UseFormat(record.used);
    if (place_.offset == 0 || (impl.words[record.first_word + place_.word] & place_.mask) == 0) continue;
    FetchAhead(impl.records, index, place_.offset);
    block_.writer = writer_++;
    block_.index = ~std::uint64_t{0};  // the first one is to be 0
    return TakeRecord(record.base, record.length);
  }
  return false;
}

// Where the variable is in the records of a format.
[[gnu::noinline]] void BlockWalk::UseFormat(std::uint32_t used) {
  const Metadata::Impl::Used& format = metadata_->impl_->templates[used];
  format_ = used;
  place_ = PlaceOf(format.places.Find(variable_), format.fixed_bytes);
}

bool BlockWalk::TakeRecord(const std::byte* base, std::uint64_t length) {
  const std::uint64_t dimensions = LoadU64(base + place_.offset);
  // A variable whose first record has none knows none: two that are 0 are no agreement.
  if ((dimensions != traits_.dimensions || dimensions == 0) && !TakeDimensions(dimensions)) return false;
  if (const char* const what = OpenArrayRecord(base, length, place_, traits_, cursor_)) return Fail(what);
  if (cursor_.left == 0 || shape_ != nullptr || cursor_.shape == nullptr) return true;
  shape_ = cursor_.shape;
  return traits_.kind != Kind::kJoinedArray || TakeJoinedShape();
}

[[gnu::noinline]] bool BlockWalk::TakeDimensions(std::uint64_t dimensions) {
  if (dimensions < 1 || dimensions > kDimensionsMax) return Fail("Dims is not 1 to 64");
  if (traits_.dimensions != 0) return Fail("Dims is not as in other records");
  traits_.dimensions = dimensions;
  return true;
}

[[gnu::noinline]] bool BlockWalk::TakeJoinedShape() {
  const Numbers shape(shape_, traits_.dimensions, reversed_);
  for (std::size_t d = 0; d < traits_.dimensions; ++d) {
    if (shape[d] != kJoinedMark) continue;
    if (block_.joined != ~std::size_t{0}) return Fail("Shape has two joined dimensions");
    block_.joined = d;
  }
  return block_.joined != ~std::size_t{0} || Fail("Shape has no joined dimension");
}

// Shows the next block of the record.
bool BlockWalk::TakeBlock() {
  BlockExtent extent;
  if (const char* const what = CheckBlock(cursor_, shape_, traits_, extent)) return Fail(what);
  block_.count = Numbers(cursor_.count, traits_.dimensions, reversed_);
  if (cursor_.offset != nullptr) block_.offset = Numbers(cursor_.offset, traits_.dimensions, reversed_);
  if (traits_.kind == Kind::kJoinedArray && !Join()) return false;
  ++block_.index;
  ++block_.id;
  block_.location = LoadU64(cursor_.location);
  block_.has_operator = place_.has_operator;
  block_.stored_bytes = place_.has_operator ? LoadU64(cursor_.bytes) : extent.empty ? 0 : extent.bytes;
  block_.min = MinMaxAt(cursor_, traits_, extent);
  block_.max = block_.min == nullptr ? nullptr : block_.min + traits_.element_bytes;
  cursor_.Skip(traits_, 1);
  return true;
}

// Puts the block behind those before it.
[[gnu::noinline]] bool BlockWalk::Join() {
  const Numbers shape(shape_, traits_.dimensions, reversed_);
  for (std::size_t d = 0; d < traits_.dimensions; ++d) {
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
  walk.traits_ = TraitsOf(v);
  walk.reversed_ = impl_->header.column_major && v.dimensions > 1;
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
  while (walk.shape_ == nullptr && walk.NextRecord()) {
  }
  CAIRN_RETURN_IF_ERROR(walk.status());
  if (walk.shape_ == nullptr) {
    return NotFound("variable {} has no block in step {}", Quoted(v.name), step);
  }
  const Numbers stored(walk.shape_, walk.traits_.dimensions, walk.reversed_);
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
  return static_cast<std::uint32_t>(walk.traits_.dimensions);
}

}  // namespace cairn::bp5
