// Runs with authorities, their members, and certificates that are none.
#ifndef CAIRN_TESTS_DAEMON_TRUST_MEMBERS_H_
#define CAIRN_TESTS_DAEMON_TRUST_MEMBERS_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "daemon/trust/authority.h"
#include "daemon/trust/member_proof.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {

// A run whose identity is this byte, 16 times.
inline RunId RunOf(std::uint8_t byte) {
  RunId run;
  run.bytes.fill(std::byte{byte});
  return run;
}

inline PeerIdentity MemberOf(const RunId& run, std::uint8_t node, std::uint64_t incarnation = 1) {
  return {.run = run, .node = RunOf(node).Hex(), .incarnation = incarnation};
}

// Never null: the test ends if OpenSSL cannot.
inline std::shared_ptr<const Authority> NewAuthority(const RunId& run) {
  auto authority = Authority::Make(run);
  EXPECT_OK(authority);
  return *authority;
}

inline Credential CredentialOf(const Authority& authority, const PeerIdentity& member, WallTime now,
                               const Validity& validity = {}) {
  auto credential = authority.Sign(member, now, validity);
  EXPECT_OK(credential);
  return *std::move(credential);
}

inline WallTime Noon() {
  return WallTime(std::chrono::hours(24 * 365 * 56 + 12));
}

// A certificate as one wants it, of any authority. What is empty is left out.
struct ForgedCertificate {
  std::string uri = {};          // its one URI
  std::string second_uri = {};   // and another
  std::string dns = {};          // a name of another kind
  std::string common_name = {};  // a subject
  std::string issuer = {};       // the issuer's common name, instead of the signer's subject
  bool is_authority = false;
  WallTime from = Noon() - std::chrono::hours(1);
  WallTime until = Noon() + std::chrono::hours(1);
};
// `signer` null: by itself.
Credential Forge(const ForgedCertificate& wanted, const Credential* signer);
// Of an authority what signs: for certificates that it would never make.
Credential SignerOf(const Authority& authority);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_DAEMON_TRUST_MEMBERS_H_
