#include "storage/format/bp5/put_check.h"

#include <algorithm>
#include <optional>

#include "storage/base/status.h"
#include "storage/format/bp5/nul.h"

namespace cairn::bp5 {
namespace {

constexpr std::size_t kDimensionsMax = 64;

absl::Status CheckValue(const Put& put) {
  if (!put.blocks.empty() || !put.shape.empty()) return InvalidArgument("{}: a value has no shape or blocks", put.name);
  if (put.type == Type::kString) {
    if (HasNul(put.value)) return InvalidArgument("{}: a string with a NUL in it", put.name);
    return absl::OkStatus();
  }
  if (put.value.size() != ElementBytes(put.type)) {
    return InvalidArgument("{}: a value of {} bytes for type {}", put.name, put.value.size(), NameOf(put.type));
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const Put& put) {
  const std::size_t marks = std::ranges::count(put.shape, kJoinedMark);
  const std::size_t wanted = put.kind == Kind::kLocalArray ? 0 : put.blocks.front().box.count.size();
  if (put.shape.size() != wanted) {
    return InvalidArgument("{}: a shape of {} dimensions, not {}", put.name, put.shape.size(), wanted);
  }
  if (marks != (put.kind == Kind::kJoinedArray ? 1 : 0)) {
    return InvalidArgument("{}: {} dimensions of the shape are marked as joined", put.name, marks);
  }
  return absl::OkStatus();
}

absl::Status CheckPlace(const Put& put, std::size_t index) {
  const PutBlock& block = put.blocks[index];
  for (std::size_t d = 0; d < put.shape.size(); ++d) {
    const std::uint64_t shape = put.shape[d], count = block.box.count[d];
    if (put.kind == Kind::kJoinedArray) {
      if (shape == kJoinedMark || shape == count) continue;
      return InvalidArgument("{}: block {}: {} elements of {} in dimension {}, which is not joined", put.name, index,
                             count, shape, d);
    }
    const std::uint64_t start = block.box.start[d];
    if (start <= shape && count <= shape - start) continue;
    return InvalidArgument("{}: block {}: {} elements from {} leave the shape {} in dimension {}", put.name, index,
                           count, start, shape, d);
  }
  return absl::OkStatus();
}

absl::Status CheckBlock(const Put& put, std::size_t index, std::uint64_t data_block_bytes) {
  const PutBlock& block = put.blocks[index];
  const std::size_t dimensions = put.blocks.front().box.count.size();
  if (block.box.count.size() != dimensions ||
      (put.kind == Kind::kGlobalArray && block.box.start.size() != dimensions)) {
    return InvalidArgument("{}: block {} has not {} dimensions", put.name, index, dimensions);
  }
  CAIRN_RETURN_IF_ERROR(CheckPlace(put, index));
  const std::uint32_t element_bytes = ElementBytes(put.type);
  const std::optional<std::uint64_t> elements = Elements(block.box.count);
  if (!elements || *elements > UINT64_MAX / element_bytes) {
    return InvalidArgument("{}: block {} is larger than 64 bits", put.name, index);
  }
  if (block.location != kNotStored &&
      (block.location > data_block_bytes || *elements > (data_block_bytes - block.location) / element_bytes)) {
    return InvalidArgument("{}: block {}: {} elements of {} bytes at {} do not fit into {} bytes", put.name, index,
                           *elements, element_bytes, block.location, data_block_bytes);
  }
  if (!block.min_max.empty() && (!IsOrdered(put.type) || block.min_max.size() != 2 * element_bytes)) {
    return InvalidArgument("{}: block {}: {} bytes of min and max for type {}", put.name, index, block.min_max.size(),
                           NameOf(put.type));
  }
  return absl::OkStatus();
}

absl::Status CheckArray(const Put& put, std::uint64_t data_block_bytes) {
  if (!put.value.empty()) return InvalidArgument("{}: an array has no value", put.name);
  if (put.blocks.empty()) return InvalidArgument("{}: an array without blocks", put.name);
  const std::size_t dimensions = put.blocks.front().box.count.size();
  if (dimensions == 0 || dimensions > kDimensionsMax) {
    return InvalidArgument("{}: {} dimensions, not 1 to {}", put.name, dimensions, kDimensionsMax);
  }
  CAIRN_RETURN_IF_ERROR(CheckShape(put));
  for (std::size_t i = 0; i < put.blocks.size(); ++i) CAIRN_RETURN_IF_ERROR(CheckBlock(put, i, data_block_bytes));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPut(const Put& put, std::uint64_t data_block_bytes) {
  if (put.name.empty() || HasNul(put.name)) {
    return InvalidArgument("variable \"{}\": no name, or a NUL in it", put.name);
  }
  const bool is_array = IsArray(put.kind);
  if (!is_array && put.kind != Kind::kGlobalValue && put.kind != Kind::kLocalValue) {
    return InvalidArgument("{}: kind {} is none", put.name, static_cast<int>(put.kind));
  }
  // Structs have a format of their own, which no put names; strings are scalars only.
  if (ElementBytes(put.type) == 0 && (is_array || put.type != Type::kString)) {
    return InvalidArgument("{}: {} of type {} are not written", put.name, is_array ? "arrays" : "values",
                           NameOf(put.type));
  }
  return is_array ? CheckArray(put, data_block_bytes) : CheckValue(put);
}

}  // namespace cairn::bp5
