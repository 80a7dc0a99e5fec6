#include "daemon/trust/member_proof.h"

#include "storage/base/status.h"

namespace cairn {

absl::StatusOr<std::shared_ptr<const Credential>> MemberProof::Current() {
  const WallTime now = wall_();
  const bool good = current_ != nullptr && now >= made_ && now < made_ + validity_.after / 2;
  if (!good) {
    CAIRN_ASSIGN_OR_RETURN(Credential fresh, authority_->Sign(me_, now, validity_));
    current_ = std::make_shared<const Credential>(std::move(fresh));
    made_ = now;
  }
  return current_;
}

}  // namespace cairn
