#include "daemon/core/foretold.h"

#include <utility>

namespace cairn {

// A begin would be refused otherwise, and a rank that goes on with a number would hear of it late.
bool Foretold::IsCalm(const Launch& launch) const {
  return launch.ours && !launch.fenced() && !launch.provisional && launch.elsewhere > 0 && launch.checkpoints > 0 &&
         launch.open.empty() && launch.dirty.empty() && launch.live() == launch.nranks;
}

void Foretold::Update() {
  const Launch* launch = given_.ledger.newest();
  if (launch == nullptr || !IsCalm(*launch)) return TakeBack();
  if (launch->id == launch_ && id_ != 0) return;
  const absl::StatusOr<DatasetId> id = given_.ids.Next();
  if (!id.ok()) return;  // the begin that needs one says why there is none
  launch_ = launch->id;
  id_ = *id;
  given_.away.Foretell(launch_, id_);
}

absl::StatusOr<DatasetId> Foretold::Take(const Launch& launch, bool files) {
  if (!files && Is(launch, id_) && id_ > given_.ids.highest()) return std::exchange(id_, 0);
  TakeBack();
  return given_.ids.Next();
}

void Foretold::TakeBack() {
  if (std::exchange(id_, 0) != 0) given_.away.Foretell(launch_, 0);
}

}  // namespace cairn
