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

void DatasetIds::Ensure(std::function<void(absl::Status)> then) {
  if (block_.count > 0) return then(absl::OkStatus());
  Reserve(std::move(then));
}

// A block below an id that has become known meanwhile is of no use.
void DatasetIds::Reserve(std::function<void(absl::Status)> then) {
  context_.OnPrefix([prefix = gate_.prefix(), above = highest_] { return prefix->ReserveIds(above); },
                    [this, then = std::move(then)](const absl::StatusOr<Prefix::IdBlock>& block) {
                      if (!block.ok()) return then(block.status());
                      if (block->first <= highest_) return Reserve(then);
                      (block_.count == 0 ? block_ : next_block_) = *block;
                      highest_ = std::max(highest_, block->first + block->count - 1);
                      then(absl::OkStatus());
                    });
}

absl::StatusOr<DatasetId> DatasetIds::Next() {
  constexpr std::uint64_t kHalf = 32;
  if (block_.count == 0) std::swap(block_, next_block_);
  if (block_.count <= kHalf && next_block_.count == 0 && !std::exchange(reserving_, true)) {
    Reserve([this](const absl::Status& status) {
      reserving_ = false;
      if (!status.ok()) context_.Warn(fmt::format("run {}: {}", run_name_, MessageOf(status)));
    });
  }
  if (block_.count == 0) return Unavailable("{}: no dataset ids: the prefix does not answer", gate_.path());
  --block_.count;
  return block_.first++;
}

}  // namespace cairn
