// This daemon as a member of one run: the run's authority, and the certificate that it shows at the moment. One thread
// at a time.
#ifndef CAIRN_DAEMON_TRUST_MEMBER_PROOF_H_
#define CAIRN_DAEMON_TRUST_MEMBER_PROOF_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <utility>

#include "daemon/peers/link.h"
#include "daemon/trust/authority.h"

namespace cairn {

class MemberProof {
 public:
  // `wall` tells the time; `me.run` is the authority's.
  MemberProof(std::shared_ptr<const Authority> authority, PeerIdentity me, std::function<WallTime()> wall,
              const Validity& validity = {})
      : authority_(std::move(authority)), me_(std::move(me)), wall_(std::move(wall)), validity_(validity) {}

  const Authority& authority() const { return *authority_; }
  const std::shared_ptr<const Authority>& shared_authority() const { return authority_; }
  const PeerIdentity& me() const { return me_; }
  WallTime now() const { return wall_(); }

  // The certificate for a handshake that begins now. It is made anew, in memory, in the second half of its validity,
  // and when the clock was set back; what others still use stays as it is.
  absl::StatusOr<std::shared_ptr<const Credential>> Current();

 private:
  const std::shared_ptr<const Authority> authority_;
  const PeerIdentity me_;
  const std::function<WallTime()> wall_;
  const Validity validity_;
  std::shared_ptr<const Credential> current_;
  WallTime made_{};
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_MEMBER_PROOF_H_
