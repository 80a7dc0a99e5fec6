#include "storage/format/ftiff/layout.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/ftiff/id_hash.h"
#include "storage/format/ftiff/records.h"

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

// Leaves room for the padding and the metadata of kContainersMax containers, so that no later sum can overflow a signed
// 64-bit field of the file.
constexpr std::uint64_t kTotalMax = std::numeric_limits<std::int64_t>::max() / 2;

absl::StatusOr<std::uint64_t> TotalBytes(std::span<const VariableSize> variables) {
  IdSet ids;
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

// How much of a variable has a place, in the containers that it has so far.
struct Progress {
  std::uint64_t rest = 0;      // bytes without a place
  std::uint64_t reserved = 0;  // by its containers: where the next one begins in the variable
  std::uint64_t containers = 0;
  bool closed = false;  // a container took all that was left: later ones have no content
};

// Gives what has no place yet containers at the end of the list.
void Append(std::int32_t id, const Progress& from, const Slots& slots, FileLayout* layout) {
  const std::uint64_t count = ContainersOf(from.rest, slots);
  std::uint64_t placed = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t chunk_bytes = std::min(from.rest - placed, slots.slot_bytes);
    const Container container{.id = id,
                              .index = static_cast<std::int32_t>(from.containers + i),
                              .variable_offset = from.reserved + placed,
                              .file_offset = layout->data_bytes,
                              .chunk_bytes = chunk_bytes,
                              .container_bytes = RoundUp(chunk_bytes, slots.alignment)};
    layout->containers.push_back(container);
    layout->data_bytes += container.container_bytes;
    placed += chunk_bytes;
  }
}

using ProgressOf = IdMap<Progress>;

// Could `container` be where kAligned puts it? `before` is the one before it in the file.
bool IsAligned(const Container& container, const Container* before) {
  if (container.container_bytes % kContainerAlignment != 0 || container.container_bytes > kSlotBytesMax) return false;
  if (container.index == 0) return true;
  return before->id == container.id && before->container_bytes > 0 && before->container_bytes % kSlotBytesMin == 0;
}

// In number: each block has containers, and all have as many as there are and as a file may have.
bool BlocksAreSound(const FileLayout& layout) {
  std::uint64_t containers = 0;
  for (const std::uint32_t count : layout.block_containers) {
    if (count == 0) return false;
    containers += count;
  }
  return containers == layout.containers.size() && containers <= kContainersMax;
}

// Rule 1 of section 5: lays the variables out over the containers that are there. nullopt: the list cannot go on, since
// a variable of it is not among `variables`, it is not as the packing has it, or it is not sound.
std::optional<FileLayout> Refilled(FileLayout layout, bool is_restored, Packing packing, ProgressOf* variables) {
  if (!BlocksAreSound(layout)) return std::nullopt;
  std::uint64_t end = 0;
  const Container* before = nullptr;
  for (Container& container : layout.containers) {
    const auto found = variables->find(container.id);
    if (found == variables->end()) return std::nullopt;
    Progress& variable = found->second;
    const bool sound = std::cmp_equal(container.index, variable.containers) && container.file_offset == end &&
                       container.variable_offset == variable.reserved && container.container_bytes <= kTotalMax - end;
    if (!sound || (packing == Packing::kAligned && !IsAligned(container, before))) return std::nullopt;
    container.in_file_before |= is_restored;
    container.has_content = !variable.closed;
    container.chunk_bytes = std::min(variable.rest, container.container_bytes);
    variable.closed |= variable.rest <= container.container_bytes;
    variable.rest -= container.chunk_bytes;
    variable.reserved += container.container_bytes;
    variable.containers += 1;
    end += container.container_bytes;
    before = &container;
  }
  if (layout.data_bytes != end) return std::nullopt;
  return layout;
}

// Rules 2 to 4: one block with all that has no place yet. false: the packing does not let a variable grow, or the file
// would have too many containers or bytes.
bool Grow(std::span<const VariableSize> variables, const ProgressOf& progress, Packing packing, const Slots& slots,
          FileLayout* layout) {
  const auto grows = [](const Progress& variable) { return variable.containers == 0 || variable.rest > 0; };
  std::uint64_t containers = layout->containers.size();
  std::uint64_t bytes = layout->data_bytes;
  for (const VariableSize& given : variables) {
    const Progress& variable = progress.at(given.id);
    if (!grows(variable)) continue;
    if (variable.containers > 0 && packing == Packing::kAligned) return false;
    containers += ContainersOf(variable.rest, slots);
    bytes += variable.rest;
    if (containers > kContainersMax || bytes > kTotalMax) return false;
  }
  const auto added = static_cast<std::uint32_t>(containers - layout->containers.size());
  if (added == 0) return true;
  layout->containers.reserve(containers);
  for (const VariableSize& given : variables) {
    const Progress& variable = progress.at(given.id);
    if (grows(variable)) Append(given.id, variable, slots, layout);
  }
  layout->block_containers.push_back(added);
  return true;
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
  for (const VariableSize& variable : variables) Append(variable.id, {.rest = variable.bytes}, slots, &layout);
  layout.block_containers = {static_cast<std::uint32_t>(containers)};
  return layout;
}

absl::StatusOr<FileLayout> PlanNext(const FileLayout& last, bool last_is_restored,
                                    std::span<const VariableSize> variables, Packing packing) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t total_bytes, TotalBytes(variables));
  ProgressOf progress;
  progress.reserve(variables.size());
  for (const VariableSize& variable : variables) progress[variable.id].rest = variable.bytes;
  std::optional<FileLayout> next = Refilled(last, last_is_restored, packing, &progress);
  if (!next.has_value() || !Grow(variables, progress, packing, SlotsOf(packing, total_bytes), &*next)) {
    return PlanFresh(variables, packing);
  }
  return *std::move(next);
}

bool AppearAsRegistered(const FileLayout& layout, std::span<const VariableSize> registered) {
  IdMap<std::uint64_t> bytes;
  bytes.reserve(registered.size());
  for (const VariableSize& variable : registered) bytes.emplace(variable.id, variable.bytes);
  std::size_t appeared = 0;
  for (const Container& container : layout.containers) {
    const auto size = bytes.find(container.id);
    if (size == bytes.end()) continue;  // it has appeared before
    if (size->second != registered[appeared++].bytes) return false;
    bytes.erase(size);
  }
  return true;
}

std::vector<VariableSize> ProcessingOrder(const FileLayout& last, std::span<const VariableSize> variables) {
  IdMap<std::size_t> places;  // in `variables`
  places.reserve(variables.size());
  for (std::size_t i = 0; i < variables.size(); ++i) places.emplace(variables[i].id, i);
  std::vector<bool> taken(variables.size(), false);
  std::vector<VariableSize> ordered;
  ordered.reserve(variables.size());
  for (const Container& container : last.containers) {
    const auto place = places.find(container.id);
    if (place == places.end() || taken[place->second]) continue;
    taken[place->second] = true;
    ordered.push_back(variables[place->second]);
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!taken[i]) ordered.push_back(variables[i]);
  }
  return ordered;
}

}  // namespace cairn::ftiff
