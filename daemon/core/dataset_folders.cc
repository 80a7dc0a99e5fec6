#include "daemon/core/dataset_folders.h"

#include <utility>

#include "storage/base/status.h"

namespace cairn {

DatasetFolders::DatasetFolders(const Context& context, std::function<void(DatasetId)> on_unused)
    : context_(context), on_unused_(std::move(on_unused)) {}

std::shared_ptr<void> DatasetFolders::Lease(DatasetId id) {
  std::weak_ptr<void>& known = leases_[id];
  if (std::shared_ptr<void> lease = known.lock()) return lease;
  // It points somewhere: one of null would look like none when it is asked for again.
  std::shared_ptr<void> lease(this, [this, serving = serving_, id](void*) {
    if (!*serving) return;
    context_.loop().Post([this, serving, id] {
      if (*serving) LeaseEnded(id);
    });
  });
  known = lease;
  return lease;
}

void DatasetFolders::LeaseEnded(DatasetId id) {
  auto known = leases_.find(id);
  if (known == leases_.end() || !known->second.expired()) return;  // taken anew meanwhile
  leases_.erase(known);
  if (failed_.erase(id) > 0) on_unused_(id);
}

void DatasetFolders::Failed(DatasetId id, const std::string& why) {
  const std::shared_ptr<void> lease = Lease(id);  // its end comes, also if nobody holds one any more
  failed_.insert(id);
  const auto making = making_.extract(id);
  if (!making) return;
  // Later, since this may be deep within a call of theirs.
  for (Then& next : making.mapped().waiting) {
    context_.loop().Post([next = std::move(next), why] { next(Aborted("{}", why)); });
  }
}

void DatasetFolders::Want(DatasetId id, Then then, const std::function<void()>& make) {
  auto [at, first] = making_.try_emplace(id);
  if (at->second.ready) return then(absl::OkStatus());
  at->second.waiting.push_back(std::move(then));
  if (first) make();
}

void DatasetFolders::Made(DatasetId id, const absl::Status& status) {
  const auto making = making_.find(id);
  if (making == making_.end()) return;  // the dataset failed meanwhile, they were told
  making->second.ready = status.ok();
  const auto waiting = std::move(making->second.waiting);
  if (!status.ok()) making_.erase(making);
  for (const Then& next : waiting) next(status);
}

void DatasetFolders::Known(DatasetId id) {
  making_[id].ready = true;
}

void DatasetFolders::Left(DatasetId id) {
  making_.erase(id);
}

void DatasetFolders::Change(DatasetId id, std::function<absl::Status()> work, std::function<void()> then) {
  ++changes_[id].pending;
  context_.OnCache(std::move(work), [this, id, then = std::move(then)](const absl::Status& status) {
    if (!status.ok()) context_.Warn(fmt::format("dataset {}: {}", id, MessageOf(status)));
    if (then) then();
    auto change = changes_.find(id);
    if (--change->second.pending > 0) return;
    const auto waiting = std::move(change->second.waiting);
    changes_.erase(change);
    for (const auto& next : waiting) next();
  });
}

void DatasetFolders::WhenUnchanged(DatasetId id, std::function<void()> next) {
  const auto change = changes_.find(id);
  if (change == changes_.end()) return next();
  change->second.waiting.push_back(std::move(next));
}

}  // namespace cairn
