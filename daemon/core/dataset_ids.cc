#include "daemon/core/dataset_ids.h"

#include <algorithm>
#include <utility>

#include "storage/base/status.h"

namespace cairn {

void DatasetIds::Seen(DatasetId id) {
  highest_ = std::max(highest_, id);
}

void DatasetIds::NewestSeen(DatasetId id) {
  Seen(id);
  if (block_.first <= id) block_ = std::exchange(next_block_, {});
  if (block_.first <= id) block_ = {};
}

void DatasetIds::Begin(const IdBlock& block) {
  ++launch_;
  block_ = block;
  next_block_ = {};
}

DatasetId DatasetIds::last() const {
  return block_.count > 0 ? block_.first + block_.count - 1 : 0;
}

void DatasetIds::Ensure(std::function<void(absl::Status)> then) {
  if (block_.count > 0) return then(absl::OkStatus());
  if (!gate_.prefix()) return then(gate_.OutOfReach());
  Reserve(std::move(then));
}

// A block below an id that has become known meanwhile is of no use.
void DatasetIds::Reserve(std::function<void(absl::Status)> then) {
  context_.OnPrefix(
      gate_.path(), [prefix = gate_.prefix(), above = highest_] { return prefix->ReserveIds(above); },
      [this, launch = launch_, then = std::move(then)](const absl::StatusOr<IdBlock>& block) {
        if (!block.ok()) return then(block.status());
        if (launch != launch_) return then(absl::OkStatus());  // for one that is over: it is lost
        if (block->first <= highest_) return Reserve(then);
        (block_.count == 0 ? block_ : next_block_) = *block;
        then(absl::OkStatus());
      });
}

absl::StatusOr<DatasetId> DatasetIds::Next() {
  constexpr std::uint64_t kHalf = id_blocks::kBlock / 2;
  if (block_.count == 0) block_ = std::exchange(next_block_, {});
  const bool running_low = block_.count <= kHalf && next_block_.count == 0;
  if (running_low && gate_.prefix() && !std::exchange(reserving_, true)) {
    Reserve([this](const absl::Status& status) {
      reserving_ = false;
      if (!status.ok()) context_.Warn(fmt::format("run {}: {}", run_name_, MessageOf(status)));
    });
  }
  if (block_.count == 0) return Unavailable("{}: no dataset ids: the prefix does not answer", gate_.path());
  --block_.count;
  return block_.first++;
}

// Of two blocks the later one, whole; the rest of the earlier one is lost.
void DatasetIds::Return() {
  const IdBlock rest = next_block_.count > 0 ? next_block_ : block_;
  const DatasetId next = block_.first;
  ++launch_;
  next_block_ = {};
  block_ = {.first = next, .count = 0, .number = 0};
  if (rest.count == 0 || !gate_.prefix()) return;
  context_.OnPrefix(
      gate_.path(), [prefix = gate_.prefix(), rest] { return prefix->ReturnIds(rest); },
      [this](const absl::Status& status) {
        if (status.ok() || absl::IsAlreadyExists(status)) return;
        context_.Warn(fmt::format("run {}: ids are not returned: {}", run_name_, MessageOf(status)));
      });
}

}  // namespace cairn
