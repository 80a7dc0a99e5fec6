#include "daemon/core/rejections.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "storage/base/status.h"

namespace cairn {

void Rejections::Reject(const Session& session, const std::shared_ptr<Call>& call, DatasetId id) {
  const DatasetPtr dataset = given_.ledger.Get(id);
  const bool rejected = given_.inventory.WasRefused(id);
  const bool restorable = dataset && (dataset->restorable() || dataset->damaged());
  if (!restorable && !rejected) return call->Fail(NotFound("run {} has no restorable dataset {}", given_.run_name, id));
  given_.restores.PassOver(session.launch, id);
  const auto under_way = under_way_.find(id);
  if (under_way == under_way_.end() && (!dataset || IsKnown(id))) return call->Reply({});
  call->WaitingFor(fmt::format("the rejection of dataset {} to be durable", id));
  if (under_way != under_way_.end()) return under_way->second.push_back(call);
  under_way_[id].push_back(call);
  Begin(dataset);
}

// It was all done before.
bool Rejections::IsKnown(DatasetId id) const {
  const auto noted = given_.record.rejected().find(id);
  return noted != given_.record.rejected().end() && noted->second;
}

void Rejections::Begin(const DatasetPtr& dataset) {
  spdlog::info("run {}: dataset {} (step {}) was rejected by the application", given_.run_name, dataset->id,
               dataset->step);
  given_.ledger.FlushCancelled(*dataset);
  given_.ledger.TakenOut(*dataset);
  given_.record.Rejected(dataset->id);
  given_.restores.Rejected(*dataset);
  given_.flusher.Cancel(dataset);
  given_.record.Store([this, dataset](const absl::Status& stored) {
    if (!stored.ok()) return End(dataset->id, stored);
    // A commit that is under way cannot be stopped: what it has put there is marked then.
    given_.waits.Wait([this, dataset] {
      if (!given_.flusher.Cancel(dataset)) return false;
      Tell(dataset);
      return true;
    });
  });
}

void Rejections::Tell(const DatasetPtr& dataset) {
  const DatasetId id = dataset->id;
  if (given_.inventory.MayRefuse()) {
    return given_.inventory.Refuse(dataset, [this, id](const absl::Status& told) { End(id, told); });
  }
  const bool may_be_there = dataset->in_prefix() || given_.record.begun().contains(id);
  if (!may_be_there) return End(id, absl::OkStatus());
  End(id, Unavailable("dataset {} is rejected on this node; the prefix cannot be told now: {}", id,
                      MessageOf(given_.gate.OutOfReach())));
}

void Rejections::End(DatasetId id, const absl::Status& status) {
  const auto waiting = under_way_.extract(id);
  for (const std::shared_ptr<Call>& call : waiting.mapped()) {
    if (status.ok()) {
      call->Reply({});
    } else {
      call->Fail(status);
    }
  }
  given_.waits.Changed();
}

}  // namespace cairn
