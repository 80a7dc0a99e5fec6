// What a daemon shows on a fresh TLS stream besides its TLS certificate, and what it asks of the other's: under a
// site's authority that it is a member of the run, and where MUNGE runs whose process it is. All of it is bound to this
// one connection, and to the end that shows it: shown anywhere else it proves nothing.
#ifndef CAIRN_DAEMON_TRUST_INTRODUCTION_H_
#define CAIRN_DAEMON_TRUST_INTRODUCTION_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "daemon/peers/link.h"
#include "daemon/trust/member_proof.h"
#include "daemon/trust/munge.h"
#include "daemon/trust/refusal.h"
#include "daemon/trust/tls_handshake.h"
#include "proto/introduction.pb.h"

namespace cairn {

inline constexpr std::size_t kIntroductionBytesMax = 16 << 10;  // of each of the two messages

// What both is made of, taken from a finished handshake; needs nothing of it afterwards.
struct IntroductionFacts {
  std::shared_ptr<const Authority> authority;
  std::shared_ptr<const Credential> credential;  // null: TLS has shown it
  std::optional<PeerIdentity> peer;              // as TLS has shown it
  WallTime now;
  TlsSide side = TlsSide::kDials;
  std::string binding;                 // TlsHandshake::Binding
  std::string ours, theirs;            // fingerprints of the certificates that TLS has shown
  std::shared_ptr<const Munge> munge;  // null: it does not run here
  bool munge_required = false;

  static absl::StatusOr<IntroductionFacts> Of(const TlsHandshake& handshake, std::shared_ptr<const Munge> munge,
                                              bool munge_required);
  bool Blocks() const { return munge != nullptr; }  // MakeIntroduction and JudgeIntroduction do
};

// Both may run on any thread; with MUNGE they ask its daemon, which takes some seconds at most.
absl::StatusOr<introduction::Introduction> MakeIntroduction(const IntroductionFacts& facts);
std::variant<PeerIdentity, Refusal> JudgeIntroduction(const IntroductionFacts& facts,
                                                      const introduction::Introduction& theirs);

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_INTRODUCTION_H_
