#include "storage/ftiff/layout.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "storage/base/status.h"
#include "storage/ftiff/records.h"

namespace cairn::ftiff {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kSlotBytesMin = kMiB;
constexpr std::uint64_t kSlotBytesMax = 64 * kMiB;
constexpr std::uint64_t kSlotsOfAFile = 32;
constexpr std::uint64_t kContainerAlignment = 4096;

// How a packing turns a variable into containers: all but the last hold exactly slot_bytes, the last one the rest,
// rounded up to `alignment`.
struct Slots {
  std::uint64_t slot_bytes;
  std::uint64_t alignment;
};

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

Slots SlotsOf(Packing packing, std::uint64_t total_bytes) {
  if (packing == Packing::kExact) return {.slot_bytes = std::numeric_limits<std::uint64_t>::max(), .alignment = 1};
  const std::uint64_t share = std::clamp(total_bytes / kSlotsOfAFile, kSlotBytesMin, kSlotBytesMax);
  return {.slot_bytes = RoundUp(share, kMiB), .alignment = kContainerAlignment};
}

std::uint64_t ContainersOf(std::uint64_t bytes, const Slots& slots) {
  return bytes == 0 ? 1 : (bytes - 1) / slots.slot_bytes + 1;
}

// Sum of the sizes. The limit leaves room for the padding and the metadata of kContainersMax containers, so that no
// later sum can overflow a signed 64-bit field of the file.
absl::StatusOr<std::uint64_t> TotalBytes(std::span<const VariableSize> variables) {
  constexpr std::uint64_t kTotalMax = std::numeric_limits<std::int64_t>::max() / 2;
  std::unordered_set<std::int32_t> ids;
  std::uint64_t total = 0;
  for (const VariableSize& variable : variables) {
    if (variable.id < 0) return InvalidArgument("variable id {} is negative", variable.id);
    if (!ids.insert(variable.id).second) return InvalidArgument("variable id {} is given twice", variable.id);
    if (variable.bytes > kTotalMax || total > kTotalMax - variable.bytes) {
      return InvalidArgument("variable id {}: {} bytes on top of {} are too many for a file", variable.id,
                             variable.bytes, total);
    }
    total += variable.bytes;
  }
  return total;
}

void Append(const VariableSize& variable, const Slots& slots, FileLayout* layout) {
  const std::uint64_t count = ContainersOf(variable.bytes, slots);
  std::uint64_t offset = 0;
  for (std::uint64_t index = 0; index < count; ++index) {
    const std::uint64_t chunk_bytes = std::min(variable.bytes - offset, slots.slot_bytes);
    const Container container{.id = variable.id,
                              .index = static_cast<std::int32_t>(index),
                              .variable_offset = offset,
                              .file_offset = layout->data_bytes,
                              .chunk_bytes = chunk_bytes,
                              .container_bytes = RoundUp(chunk_bytes, slots.alignment)};
    layout->containers.push_back(container);
    layout->data_bytes += container.container_bytes;
    offset += chunk_bytes;
  }
}

}  // namespace

std::uint64_t FileLayout::meta_bytes(Letter letter) const {
  const RecordTable& table = TableOf(letter);
  return table.file_record_bytes + table.block_record_bytes * block_containers.size() +
         table.chunk_record_bytes * containers.size();
}

FileLayout Placed(FileLayout layout, Letter letter) {
  const RecordTable& table = TableOf(letter);
  const std::uint64_t chunk_record_bytes = table.metadata_first ? table.chunk_record_bytes : 0;
  const std::uint64_t block_record_bytes = table.metadata_first ? table.block_record_bytes : 0;
  std::uint64_t at = table.metadata_first ? table.file_record_bytes : 0;
  std::size_t next = 0;
  for (const std::uint32_t chunks : layout.block_containers) {
    at += block_record_bytes + chunk_record_bytes * chunks;
    for (const std::size_t end = next + chunks; next < end; ++next) {
      layout.containers[next].file_offset = at;
      at += layout.containers[next].container_bytes;
    }
  }
  return layout;
}

absl::StatusOr<FileLayout> PlanFresh(std::span<const VariableSize> variables, Packing packing) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t total_bytes, TotalBytes(variables));
  const Slots slots = SlotsOf(packing, total_bytes);
  std::uint64_t containers = 0;
  for (const VariableSize& variable : variables) {
    containers += ContainersOf(variable.bytes, slots);
    if (containers > kContainersMax) {
      return InvalidArgument("{} bytes in {} variables need more than {} containers", total_bytes, variables.size(),
                             kContainersMax);
    }
  }
  FileLayout layout;
  if (containers == 0) return layout;
  layout.containers.reserve(containers);
  for (const VariableSize& variable : variables) Append(variable, slots, &layout);
  layout.block_containers = {static_cast<std::uint32_t>(containers)};
  return layout;
}

}  // namespace cairn::ftiff
