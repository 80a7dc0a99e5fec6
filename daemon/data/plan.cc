#include "daemon/data/plan.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/md5_lanes.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using ftiff::Container;

// The bytes of a container that are still to be planned.
struct Source {
  std::uint32_t variable = 0;
  std::uint64_t variable_offset = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
};

// The containers with bytes, in file order.
absl::StatusOr<std::vector<Source>> SourcesOf(const ftiff::FileLayout& layout,
                                              std::span<const ftiff::VariableSize> variables) {
  std::unordered_map<std::int32_t, std::uint32_t> index_of_id;
  for (std::uint32_t i = 0; i < variables.size(); ++i) index_of_id.emplace(variables[i].id, i);
  std::vector<Source> sources;
  sources.reserve(layout.containers.size());
  for (const Container& container : layout.containers) {
    if (!container.has_content || container.chunk_bytes == 0) continue;
    const auto found = index_of_id.find(container.id);
    if (found == index_of_id.end()) {
      return InvalidArgument("plan: container {} of variable {}: no such variable", container.index, container.id);
    }
    if (container.file_offset > layout.data_bytes ||
        container.chunk_bytes > layout.data_bytes - container.file_offset) {
      return InvalidArgument("plan: container {} of variable {}: {} bytes at {} lie beyond the data's {}",
                             container.index, container.id, container.chunk_bytes, container.file_offset,
                             layout.data_bytes);
    }
    sources.push_back({found->second, container.variable_offset, container.file_offset, container.chunk_bytes});
  }
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.file_offset < b.file_offset; });
  for (std::size_t i = 1; i < sources.size(); ++i) {
    if (sources[i - 1].bytes > sources[i].file_offset - sources[i - 1].file_offset) {
      return InvalidArgument("plan: containers overlap at file offset {}", sources[i].file_offset);
    }
  }
  return sources;
}

// Calls `take(source)` for each turn of a container: round-robin over `lanes` containers, the next one in file order
// taking its first turn the moment that a place is free. So each open container has had a turn, and the windows that
// were begun and are incomplete are at most one for each open container and one where the next container begins.
template <typename Take>
void RoundRobin(std::vector<Source>& sources, std::size_t lanes, const Take& take) {
  std::vector<Source*> open(std::min(lanes, sources.size()), nullptr);
  std::size_t next = 0;
  std::size_t left = sources.size();
  while (left > 0) {
    for (Source*& lane : open) {
      if (lane == nullptr) {
        if (next == sources.size()) continue;
        lane = &sources[next++];
      }
      take(*lane);
      if (lane->bytes > 0) continue;
      lane = nullptr;
      --left;
    }
  }
}

// The first piece of what is left of `source`, cut at the end of its window; its place is not yet said.
PlanPiece TakePiece(Source& source) {
  const std::uint64_t bytes = std::min(source.bytes, kWindowBytes - source.file_offset % kWindowBytes);
  PlanPiece piece{.variable = source.variable,
                  .variable_offset = source.variable_offset,
                  .file_offset = source.file_offset,
                  .bytes = bytes};
  source.variable_offset += bytes;
  source.file_offset += bytes;
  source.bytes -= bytes;
  return piece;
}

// Which window lies in which slot of a ring.
class Ring {
 public:
  Ring(std::uint64_t slots, const std::vector<Source>& sources) {
    for (std::uint64_t slot = 0; slot < slots; ++slot) free_.push_back({slot, 0});
    for (const Source& source : sources) AddToWindows(source);
  }

  void Place(PlanPiece& piece) {
    const std::uint64_t number = piece.file_offset / kWindowBytes;
    const auto window = std::lower_bound(windows_.begin(), windows_.end(), number,
                                         [](const Window& w, std::uint64_t n) { return w.number < n; });
    CAIRN_CHECK(window != windows_.end() && window->number == number && window->bytes_left >= piece.bytes);
    if (!window->begun) {
      CAIRN_CHECK(!free_.empty());
      window->begun = true;
      window->place = free_.front();
      free_.pop_front();
    }
    piece.image_offset = window->place.slot * kWindowBytes + piece.file_offset % kWindowBytes;
    piece.after_released = window->place.after_released;
    window->bytes_left -= piece.bytes;
    if (window->bytes_left == 0) free_.push_back({window->place.slot, ++complete_});
  }

 private:
  struct FreeSlot {
    std::uint64_t slot = 0;
    std::uint64_t after_released = 0;
  };
  struct Window {
    std::uint64_t number = 0;
    std::uint64_t bytes_left = 0;
    bool begun = false;
    FreeSlot place{};
  };

  void AddToWindows(const Source& source) {
    const std::uint64_t end = source.file_offset + source.bytes;
    for (std::uint64_t at = source.file_offset; at < end;) {
      const std::uint64_t number = at / kWindowBytes;
      const std::uint64_t next = std::min(end, (number + 1) * kWindowBytes);
      if (windows_.empty() || windows_.back().number != number) windows_.push_back({.number = number});
      windows_.back().bytes_left += next - at;
      at = next;
    }
  }

  std::vector<Window> windows_;  // those with bytes, by number
  std::deque<FreeSlot> free_;    // the one that is free first comes first
  std::uint64_t complete_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<PlanPiece>> MakePlan(const ftiff::FileLayout& layout,
                                                std::span<const ftiff::VariableSize> variables,
                                                std::uint64_t image_bytes) {
  CAIRN_ASSIGN_OR_RETURN(std::vector<Source> sources, SourcesOf(layout, variables));
  std::vector<PlanPiece> plan;
  const std::uint64_t windows = layout.data_bytes / kWindowBytes + (layout.data_bytes % kWindowBytes != 0 ? 1 : 0);
  const std::uint64_t slots = image_bytes / kWindowBytes;
  if (slots >= windows || sources.empty()) {
    RoundRobin(sources, kMd5LanesMax, [&plan](Source& source) {
      plan.push_back(TakePiece(source));
      plan.back().image_offset = plan.back().file_offset;
    });
    return plan;
  }
  if (image_bytes < kRingBytesMin) {
    return ResourceExhausted("plan: {} bytes of image for {} bytes of data, a ring has at least {}", image_bytes,
                             layout.data_bytes, kRingBytesMin);
  }
  Ring ring(slots, sources);
  const std::size_t lanes = std::clamp<std::uint64_t>(slots / 2, 1, kMd5LanesMax);
  RoundRobin(sources, lanes, [&plan, &ring](Source& source) {
    plan.push_back(TakePiece(source));
    ring.Place(plan.back());
  });
  return plan;
}

}  // namespace cairn
