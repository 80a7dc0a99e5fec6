// What becomes of a launch's pin when what it names cannot be restored: restores.h.
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
  const bool may_come = pinned && pinned->unknown > 0 && MayBeMadeAnew(*pinned);
  if (may_come && awaited_.emplace(id, pinned->id).second) return given_.look_for_parts();
  PassOver(id, launch->pin.dataset);
}

}  // namespace cairn
