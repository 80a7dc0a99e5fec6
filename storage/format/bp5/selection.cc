#include "storage/format/bp5/selection.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/bp5/coverage.h"
#include "storage/format/bp5/stored_block.h"

namespace cairn::bp5 {
namespace {

// Rows this long are read one by one into their place; so are rows that lie farther apart than the second number:
// reading what is between them would cost more.
constexpr std::uint64_t kLongRowBytes = std::uint64_t{256} << 10;
constexpr std::uint64_t kGapBytesMax = std::uint64_t{64} << 10;
constexpr std::uint64_t kSliceBytes = std::uint64_t{4} << 20;  // read at once of rows that lie close together
constexpr std::uint64_t kPieceBytes = std::uint64_t{1}
                                      << 20;  // copied at once: what a source looked at is in the cache
static_assert(kLongRowBytes <= kSliceBytes);

// One array variable in one step.
struct Array {
  const Metadata& metadata;
  VariableNumber number;
  std::uint32_t step;
  const Variable& variable;

  std::uint64_t element_bytes() const { return variable.element_bytes; }
  std::string Text() const { return fmt::format("variable {}, step {}", variable.name, step); }
};

absl::StatusOr<Array> FindArray(const Metadata& metadata, VariableNumber number, std::uint32_t step) {
  if (number >= metadata.variables().size()) return InvalidArgument("there is no variable {}", number);
  const Variable& variable = metadata.variables()[number];
  if (!IsArray(variable.kind) || variable.element_bytes == 0) {
    return InvalidArgument("variable {}: not an array", variable.name);
  }
  return Array{metadata, number, step, variable};
}

// `bytes` is how many the caller expects the elements of `box` to be.
absl::Status CheckTarget(const Array& array, const Box& box, std::uint64_t bytes) {
  const std::optional<std::uint64_t> elements = Elements(box.count);
  std::uint64_t wanted = 0;
  if (!elements || __builtin_mul_overflow(*elements, array.element_bytes(), &wanted) || wanted != bytes) {
    return InvalidArgument("{}: the selection's elements are not the {} bytes that there are for them", array.Text(),
                           bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckInside(const Array& array, const Box& box, const Extents& shape) {
  if (Inside(box, Box{.start = Extents(shape.size(), 0), .count = shape})) return absl::OkStatus();
  return InvalidArgument("{}: start {{{}}}, count {{{}}} leaves the shape {{{}}}", array.Text(),
                         fmt::join(box.start, ", "), fmt::join(box.count, ", "), fmt::join(shape, ", "));
}

std::string TextOf(const Array& array, const Block& block) {
  return fmt::format("{}, writer {}, block {}", array.Text(), block.writer, block.index);
}

// A block as it is stored. It is not empty.
absl::StatusOr<StoredBlock> StoredBlockOf(const Array& array, const Block& block, std::uint64_t elements) {
  StoredBlock stored{.place = {}, .stored_bytes = 0, .bytes = 0, .type = array.variable.type};
  if (__builtin_mul_overflow(elements, array.element_bytes(), &stored.bytes)) {
    return DataLoss("{}: larger than 64 bits can say", TextOf(array, block));
  }
  if (block.location == kNotStored) return FailedPrecondition("{}: its data was not stored", TextOf(array, block));
  stored.stored_bytes = block.has_operator ? block.stored_bytes : stored.bytes;
  auto place = array.metadata.Place(array.step, block.writer, block.location, stored.stored_bytes);
  if (!place.ok()) return Annotate(place.status(), TextOf(array, block));
  stored.place = *place;
  return stored;
}

// Where the elements of a block are in its subfile; nullopt: they are compressed.
absl::StatusOr<std::optional<DataPlace>> PlaceOf(const Array& array, const Block& block, const StoredBlock& stored,
                                                 ByteSource& source) {
  if (!block.has_operator) return stored.place;
  auto place = RawPlaceOf(stored, source);
  if (!place.ok()) return Annotate(place.status(), TextOf(array, block));
  return place;
}

// Copies rows of blocks that lie in a source, compressed or not, to where they belong.
class RowReader {
 public:
  RowReader(ByteSource& source, std::uint64_t element_bytes, std::span<std::byte> target)
      : directory_(source), decoded_(source), element_bytes_(element_bytes), target_(target) {}

  // `pattern`: a is the block, b is the target. `place`: where its elements are; nullopt: `stored` has them compressed.
  absl::Status Copy(const StoredBlock& stored, const std::optional<DataPlace>& place, const RowPattern& pattern) {
    if (!place) CAIRN_RETURN_IF_ERROR(decoded_.Decode(stored));
    source_ = place ? &directory_ : &decoded_;
    place_ = place.value_or(DataPlace{});
    std::uint64_t end = 0;
    if (__builtin_add_overflow(place_.offset, (pattern.a_begin + pattern.a_extent()) * element_bytes_, &end)) {
      return DataLoss("a block in data.{} ends behind what 64 bits can say", place_.subfile);
    }
    return ReadGroups(pattern);
  }

 private:
  std::uint64_t RowBytes(const RowPattern& pattern) const { return pattern.row * element_bytes_; }

  // `bytes` begin with the group's first element, which is `b_begin` in the target.
  void CopyGroup(const RowPattern& group, const std::byte* bytes, std::uint64_t b_begin) {
    ForEachRow(group, [&](std::uint64_t a, std::uint64_t b) {
      std::memcpy(target_.data() + (b_begin + b) * element_bytes_, bytes + a * element_bytes_, RowBytes(group));
    });
  }

  absl::Status ReadRow(std::uint64_t a, std::uint64_t b, std::uint64_t bytes) {
    std::uint64_t offset = place_.offset + a * element_bytes_;
    std::span<std::byte> target = target_.subspan(b * element_bytes_, bytes);
    while (!target.empty()) {
      const std::span<std::byte> piece = target.first(std::min<std::uint64_t>(target.size(), kPieceBytes));
      const auto mapped = source_->InPlace(place_.subfile, offset, piece.size());
      if (mapped.empty()) return source_->Read(place_.subfile, offset, target);
      std::memcpy(piece.data(), mapped.data(), piece.size());
      target = target.subspan(piece.size());
      offset += piece.size();
    }
    return absl::OkStatus();
  }

  // The levels of `pattern` from the answer on are rows so close together that they are read as one range, a group.
  std::size_t FirstLevelOfGroups(const RowPattern& pattern) const {
    std::size_t first = pattern.levels.size();
    if (RowBytes(pattern) >= kLongRowBytes) return first;
    for (std::uint64_t extent = pattern.row; first > 0; --first) {
      const RowPattern::Level& level = pattern.levels[first - 1];
      if ((level.a_stride - extent) > kGapBytesMax / element_bytes_) break;
      extent += (level.count - 1) * level.a_stride;
    }
    return first;
  }

  absl::Status ReadGroups(const RowPattern& pattern) {
    const auto split = pattern.levels.begin() + static_cast<std::ptrdiff_t>(FirstLevelOfGroups(pattern));
    RowPattern groups = pattern, group;
    group.row = pattern.row;
    groups.levels.assign(pattern.levels.begin(), split);
    group.levels.assign(split, pattern.levels.end());
    absl::Status status;
    ForEachRow(groups, [&](std::uint64_t a, std::uint64_t b) {
      if (!status.ok()) return;
      if (group.levels.empty()) {
        status = ReadRow(a, b, RowBytes(pattern));
        return;
      }
      const std::uint64_t begin = place_.offset + a * element_bytes_;
      const auto mapped = source_->InPlace(place_.subfile, begin, group.a_extent() * element_bytes_);
      if (!mapped.empty()) {
        CopyGroup(group, mapped.data(), b);
      } else {
        status = ReadGroup(group, a, b);
      }
    });
    return status;
  }

  // A group whose first element is `a_begin` in the block and `b_begin` in the target: slice by slice.
  absl::Status ReadGroup(const RowPattern& group, std::uint64_t a_begin, std::uint64_t b_begin) {
    const std::uint64_t extent = group.a_extent() * element_bytes_;
    std::uint64_t begin = 0, end = 0;  // of what the buffer holds, in bytes of the group
    absl::Status status;
    ForEachRow(group, [&](std::uint64_t a, std::uint64_t b) {
      if (!status.ok()) return;
      const std::uint64_t at = a * element_bytes_, bytes = RowBytes(group);
      if (at + bytes > end) {
        begin = at;
        end = at + std::min(extent - at, kSliceBytes);
        status = Fill(place_.offset + a_begin * element_bytes_ + begin, end - begin);
        if (!status.ok()) return;
      }
      std::memcpy(target_.data() + (b_begin + b) * element_bytes_, buffer_.get() + (at - begin), bytes);
    });
    return status;
  }

  absl::Status Fill(std::uint64_t offset, std::uint64_t bytes) {
    if (buffer_bytes_ < bytes) {
      buffer_.reset(new std::byte[bytes]);  // at most a slice, and not cleared
      buffer_bytes_ = bytes;
    }
    return source_->Read(place_.subfile, offset, std::span(buffer_.get(), bytes));
  }

  ByteSource& directory_;
  DecodedBlock decoded_;
  ByteSource* source_ = nullptr;
  const std::uint64_t element_bytes_;
  const std::span<std::byte> target_;
  DataPlace place_;
  std::unique_ptr<std::byte[]> buffer_;
  std::uint64_t buffer_bytes_ = 0;
};

// The elements of `common`, which lie in `block` (a box of the size of its own) and in `box`, into the target.
absl::Status CopyCommon(const Array& array, const Block& block, const Box& block_box, const Box& common, const Box& box,
                        ByteSource& source, RowReader& reader) {
  const std::optional<std::uint64_t> elements = Elements(block_box.count);
  if (!elements) return DataLoss("{}: larger than 64 bits can say", TextOf(array, block));
  CAIRN_ASSIGN_OR_RETURN(const StoredBlock stored, StoredBlockOf(array, block, *elements));
  CAIRN_ASSIGN_OR_RETURN(const auto place, PlaceOf(array, block, stored, source));
  return Annotate(reader.Copy(stored, place, PatternOf(common, block_box, box)), TextOf(array, block));
}

// What a block has of `box`; nullopt: nothing.
absl::StatusOr<std::optional<Box>> CommonOf(const Array& array, const Block& block, const Box& block_box,
                                            const Box& box) {
  if (block_box.dimensions() != box.dimensions() || !Sound(block_box)) {
    return DataLoss("{}: its box does not fit the array's", TextOf(array, block));
  }
  return Intersect(block_box, box);
}

absl::StatusOr<Block> FindBlock(const Metadata& metadata, VariableNumber variable, std::uint32_t step,
                                std::uint64_t id) {
  CAIRN_ASSIGN_OR_RETURN(const Array array, FindArray(metadata, variable, step));
  BlockWalk walk = metadata.Blocks(variable, step);
  if (walk.Seek(id)) return walk.block();
  CAIRN_RETURN_IF_ERROR(walk.status());
  return NotFound("{}: there is no block {}", array.Text(), id);
}

// A block from its own begin on, and what is wanted of it.
struct Part {
  Box box, wanted;
};

absl::StatusOr<Part> PartOf(const Array& array, const Block& block, const std::optional<Box>& within) {
  Part part{.box = block.ToBox(), .wanted = {}};
  part.box.start.assign(part.box.dimensions(), 0);
  part.wanted = within.value_or(part.box);
  CAIRN_RETURN_IF_ERROR(CheckInside(array, part.wanted, part.box.count));
  return part;
}

// A block that has some of the selection.
struct BlockPart {
  Block block;
  Box common;
};

// Blocks that lie over each other are read one after the other, the later ones over the earlier, as long as that is not
// many times the selection. Ghost cells of small blocks are a few times.
constexpr std::uint64_t kTimesMax = 8;
// Else what later blocks do not cover is kept as boxes: so many at most, each is looked at for each block.
constexpr std::size_t kPiecesMax = 256;

// The blocks that have some of `box`, from the last one on that has all of it.
absl::StatusOr<std::vector<BlockPart>> PartsOf(const Array& array, const Box& box) {
  std::vector<BlockPart> parts;
  BlockWalk walk = array.metadata.Blocks(array.number, array.step);
  while (walk.Next()) {
    CAIRN_ASSIGN_OR_RETURN(std::optional<Box> common, CommonOf(array, walk.block(), walk.block().ToBox(), box));
    if (!common) continue;
    if (*common == box) parts.clear();
    parts.push_back({walk.block(), *std::move(common)});
  }
  CAIRN_RETURN_IF_ERROR(walk.status());
  return parts;
}

bool AreFew(std::span<const BlockPart> parts, const Box& box) {
  // What is in memory fits into 64 bits many times.
  const std::uint64_t elements = *Elements(box.count);
  std::uint64_t left = kTimesMax * elements;
  for (const BlockPart& part : parts) {
    const std::uint64_t some = *Elements(part.common.count);
    if (some > left) return false;
    left -= some;
  }
  return true;
}

absl::StatusOr<bool> ReadInOrder(const Array& array, std::span<const BlockPart> parts, const Box& box,
                                 ByteSource& source, RowReader& reader) {
  std::vector<Box> covered;
  covered.reserve(parts.size());
  for (const BlockPart& part : parts) {
    CAIRN_RETURN_IF_ERROR(CopyCommon(array, part.block, part.block.ToBox(), part.common, box, source, reader));
    covered.push_back(part.common);
  }
  return Covers(covered, box);
}

// From the last block to the first, each element once.
absl::StatusOr<bool> ReadOnce(const Array& array, std::span<const BlockPart> parts, const Box& box, ByteSource& source,
                              RowReader& reader) {
  std::vector<Box> left = {box}, next;
  for (std::size_t i = parts.size(); i-- > 0 && !left.empty();) {
    const Block& block = parts[i].block;
    next.clear();
    for (const Box& piece : left) {
      const std::optional<Box> common = Intersect(piece, parts[i].common);
      if (!common) {
        next.push_back(piece);
        continue;
      }
      CAIRN_RETURN_IF_ERROR(CopyCommon(array, block, block.ToBox(), *common, box, source, reader));
      for (Box& rest : Subtract(piece, *common)) next.push_back(std::move(rest));
    }
    if (next.size() > kPiecesMax) {
      return ResourceExhausted("{}: too many blocks lie over each other in too many pieces", array.Text());
    }
    left.swap(next);
  }
  return left.empty();
}

// `common` of a block, if it is one row there and in `box`, and the source has it in memory.
absl::StatusOr<std::optional<std::span<const std::byte>>> RowInPlace(const Array& array, const Block& block,
                                                                     const Box& block_box, const Box& wanted,
                                                                     ByteSource& source) {
  const std::optional<std::uint64_t> elements = Elements(block_box.count);
  if (!elements) return DataLoss("{}: larger than 64 bits can say", TextOf(array, block));
  const RowPattern pattern = PatternOf(wanted, block_box, wanted);
  if (!pattern.levels.empty()) return std::nullopt;
  CAIRN_ASSIGN_OR_RETURN(const StoredBlock stored, StoredBlockOf(array, block, *elements));
  CAIRN_ASSIGN_OR_RETURN(const auto place, PlaceOf(array, block, stored, source));
  if (!place) return std::nullopt;
  const std::uint64_t before = pattern.a_begin * array.element_bytes(), bytes = pattern.row * array.element_bytes();
  const std::span<const std::byte> found = source.InPlace(place->subfile, place->offset + before, bytes);
  if (found.empty()) return std::nullopt;
  return found;
}

}  // namespace

absl::StatusOr<bool> ReadSelection(const Metadata& metadata, VariableNumber variable, std::uint32_t step,
                                   const Box& box, ByteSource& source, std::span<std::byte> target) {
  CAIRN_ASSIGN_OR_RETURN(const Array array, FindArray(metadata, variable, step));
  if (array.variable.kind == Kind::kLocalArray) {
    return InvalidArgument("{}: a local array has no shape; its blocks are read one by one", array.Text());
  }
  CAIRN_ASSIGN_OR_RETURN(const Extents shape, metadata.Shape(variable, step));
  CAIRN_RETURN_IF_ERROR(CheckInside(array, box, shape));
  CAIRN_RETURN_IF_ERROR(CheckTarget(array, box, target.size()));
  if (target.empty()) return true;
  RowReader reader(source, array.element_bytes(), target);
  CAIRN_ASSIGN_OR_RETURN(const std::vector<BlockPart> parts, PartsOf(array, box));
  return AreFew(parts, box) ? ReadInOrder(array, parts, box, source, reader)
                            : ReadOnce(array, parts, box, source, reader);
}

absl::Status ReadBlock(const Metadata& metadata, VariableNumber variable, std::uint32_t step, std::uint64_t id,
                       const std::optional<Box>& within, ByteSource& source, std::span<std::byte> target) {
  CAIRN_ASSIGN_OR_RETURN(const Block block, FindBlock(metadata, variable, step, id));
  return ReadBlock(metadata, variable, step, block, within, source, target);
}

absl::Status ReadBlock(const Metadata& metadata, VariableNumber variable, std::uint32_t step, const Block& block,
                       const std::optional<Box>& within, ByteSource& source, std::span<std::byte> target) {
  CAIRN_ASSIGN_OR_RETURN(const Array array, FindArray(metadata, variable, step));
  CAIRN_ASSIGN_OR_RETURN(const Part part, PartOf(array, block, within));
  CAIRN_RETURN_IF_ERROR(CheckTarget(array, part.wanted, target.size()));
  if (target.empty()) return absl::OkStatus();
  RowReader reader(source, array.element_bytes(), target);
  return CopyCommon(array, block, part.box, part.wanted, part.wanted, source, reader);
}

absl::StatusOr<std::optional<std::span<const std::byte>>> SelectionInPlace(const Metadata& metadata,
                                                                           VariableNumber variable, std::uint32_t step,
                                                                           const Box& box, ByteSource& source) {
  CAIRN_ASSIGN_OR_RETURN(const Array array, FindArray(metadata, variable, step));
  if (array.variable.kind == Kind::kLocalArray) {
    return InvalidArgument("{}: a local array has no shape; its blocks are read one by one", array.Text());
  }
  CAIRN_ASSIGN_OR_RETURN(const Extents shape, metadata.Shape(variable, step));
  CAIRN_RETURN_IF_ERROR(CheckInside(array, box, shape));
  if (Empty(box)) return std::nullopt;
  std::optional<Block> last;  // that has a part of it: it wins over those before
  BlockWalk walk = metadata.Blocks(variable, step);
  while (walk.Next()) {
    const Box block_box = walk.block().ToBox();
    CAIRN_ASSIGN_OR_RETURN(const std::optional<Box> common, CommonOf(array, walk.block(), block_box, box));
    if (!common) continue;
    last = walk.block();
  }
  CAIRN_RETURN_IF_ERROR(walk.status());
  if (!last || !Inside(box, last->ToBox())) return std::nullopt;
  return RowInPlace(array, *last, last->ToBox(), box, source);
}

absl::StatusOr<std::optional<std::span<const std::byte>>> BlockInPlace(const Metadata& metadata,
                                                                       VariableNumber variable, std::uint32_t step,
                                                                       std::uint64_t id,
                                                                       const std::optional<Box>& within,
                                                                       ByteSource& source) {
  CAIRN_ASSIGN_OR_RETURN(const Block block, FindBlock(metadata, variable, step, id));
  return BlockInPlace(metadata, variable, step, block, within, source);
}

absl::StatusOr<std::optional<std::span<const std::byte>>> BlockInPlace(const Metadata& metadata,
                                                                       VariableNumber variable, std::uint32_t step,
                                                                       const Block& block,
                                                                       const std::optional<Box>& within,
                                                                       ByteSource& source) {
  CAIRN_ASSIGN_OR_RETURN(const Array array, FindArray(metadata, variable, step));
  CAIRN_ASSIGN_OR_RETURN(const Part part, PartOf(array, block, within));
  if (Empty(part.wanted)) return std::nullopt;
  return RowInPlace(array, block, part.box, part.wanted, source);
}

}  // namespace cairn::bp5
