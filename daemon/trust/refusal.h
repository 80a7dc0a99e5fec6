// Why a peer is refused. Pure; stateless, hence thread-safe.
#ifndef CAIRN_DAEMON_TRUST_REFUSAL_H_
#define CAIRN_DAEMON_TRUST_REFUSAL_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn {

enum class Flaw : std::uint8_t {
  kNotTls,         // what came is no TLS
  kOldTls,         // it speaks nothing newer than TLS 1.2
  kUnknownRun,     // the run that it asks for is not served here
  kProtocol,       // it speaks none of our protocols inside TLS
  kNoCertificate,  // it shows none
  kForeign,        // its certificate is of another authority
  kSelfSigned,     // of no authority
  kBadSignature,   // it says that it is of this authority, which has not signed it
  kExpired,
  kNotYetValid,
  kMalformed,   // it names no member of a run
  kOtherRun,    // it names a member of another run
  kProof,       // what is shown besides the certificate proves nothing
  kMunge,       // its user is not ours, or it does not say
  kRefusedUs,   // it is the peer that refuses us
  kBroken,      // the connection ended in between
  kTooSlow,     // it did not say all in time
  kCrowded,     // there are too many
  kUnspecific,  // something else
};
inline constexpr std::size_t kFlaws = 19;

struct Refusal {
  Flaw flaw = Flaw::kUnspecific;
  std::string text;  // "its certificate expired at …": for the log of the side that refuses
};

// What a Dial answers that met with it (daemon/peers/link.h).
absl::Status ToStatus(const Refusal& refusal);

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_REFUSAL_H_
