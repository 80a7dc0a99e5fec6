// What becomes of a launch's pin when what it names cannot be restored: restores.h.
#include <fmt/format.h>

#include "daemon/core/restores.h"
#include "storage/base/status.h"

namespace cairn {

void Restores::PassOver(LaunchId launch, DatasetId id) {
  const Launch* const known = given_.ledger.Find(launch);
  if (known != nullptr && !known->passed_over.contains(id)) retry_rounds_.Begin(launch, id);
  if (given_.ledger.PassOver(launch, id)) given_.look_for_parts();
}

void Restores::NotDescribed(const Session& session, Call& call, DatasetId id, const absl::Status& status) {
  if (absl::IsUnavailable(status)) return call.Fail(status);  // it may be asked for again
  context_.Warn(fmt::format("run {}: dataset {}: {}", given_.run_name, id, MessageOf(status)));
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (dataset && !dataset->in_cache() && absl::IsDataLoss(status) && dataset->in_prefix()) {
    given_.ledger.PrefixDamaged(*dataset);
    given_.inventory.MarkFailed(id);
  }
  PassOver(session.launch, id);
  retry_rounds_.Told(session.launch, id, session.rank, call.connection());
  call.Fail(local::RETRY,
            fmt::format("dataset {} cannot be restored ({}): ask for the latest again", id, MessageOf(status)));
}

void Restores::LatestAsked(const Session& session, const Call& call) {
  MovePin(session.launch);
  const Launch* const launch = given_.ledger.Find(session.launch);
  if (launch == nullptr) return;
  for (const DatasetId id : launch->passed_over) {
    retry_rounds_.Told(launch->id, id, session.rank, call.connection());
  }
}

// A rank comes to restore what its launch has passed over. Others that have come to it again, and wait for this one,
// are told with it: it may go on to the latest.
bool Restores::IsToldToRetry(const Session& session, const Call& call, const Launch& launch,
                             const DatasetPtr& dataset) {
  if (!launch.passed_over.contains(dataset->id)) return false;
  if (!retry_rounds_.IsToBeTold(launch, dataset->id, session.rank, call.connection())) return false;
  if (const RestoreGroupPtr group = group_; group && group->launch == launch.id && group->dataset == dataset) {
    EndGroup(group, local::RETRY, fmt::format("dataset {} was passed over: ask for the latest again", dataset->id));
  }
  return true;
}

void Restores::MovePin(LaunchId id) {
  const Launch* const launch = given_.ledger.Find(id);
  if (launch == nullptr || launch->pin.state != Launch::Pin::State::kSet || launch->pin.dataset == 0) return;
  const DatasetPtr pinned = given_.ledger.Get(launch->pin.dataset);
  if ((pinned && pinned->restorable()) || launch->pin_passed_over()) return;
  // Who restores it already would keep it from being made anew, and wait for ranks that are told of another one.
  if (const RestoreGroupPtr group = group_; group && group->launch == id && group->dataset == pinned) {
    EndGroup(group, local::RETRY,
             fmt::format("dataset {} cannot be restored now: ask for the latest again", pinned->id));
  }
  const bool may_come = pinned && pinned->unknown > 0 && MayBeMadeAnew(*pinned);
  if (may_come && awaited_.emplace(id, pinned->id).second) return given_.look_for_parts();
  PassOver(id, launch->pin.dataset);
}

}  // namespace cairn
