// What becomes of a launch's pin when what it names cannot be restored: restores.h.
#include <fmt/format.h>

#include "daemon/core/restores.h"

namespace cairn {

void Restores::PassOver(LaunchId launch, DatasetId id) {
  if (given_.ledger.PassOver(launch, id)) given_.look_for_parts();
}

void Restores::LatestAsked(LaunchId id) {
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
