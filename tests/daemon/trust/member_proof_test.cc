// The certificate that a member shows: renewed in time, by a given clock.
#include "daemon/trust/member_proof.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>

#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::MemberOf;
using testing::NewAuthority;
using testing::Noon;
using testing::RunOf;

class MemberProofTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Credential> Current() {
    auto current = proof_.Current();
    EXPECT_OK(current);
    return *current;
  }
  bool Holds(const Credential& credential) const {
    const auto judged = authority_->Judge(credential.certificate.get(), now_);
    return std::holds_alternative<PeerIdentity>(judged) && std::get<PeerIdentity>(judged) == proof_.me();
  }

  WallTime now_ = Noon();
  const std::shared_ptr<const Authority> authority_ = NewAuthority(RunOf(1));
  MemberProof proof_{authority_, MemberOf(RunOf(1), 7, 3), [this] { return now_; }};
};

TEST_F(MemberProofTest, OneCertificateServesForHalfItsTime) {
  const auto first = Current();
  EXPECT_TRUE(Holds(*first));
  now_ += hours(12) - seconds(1);
  EXPECT_EQ(Current(), first);
  now_ += seconds(1);
  const auto second = Current();
  EXPECT_NE(second, first);
  EXPECT_TRUE(Holds(*second));
  EXPECT_TRUE(Holds(*first)) << "long before it expires, so that others' clocks may differ";
}

TEST_F(MemberProofTest, ItHoldsAtAnyTimeOfAMonth) {
  for (int hour = 0; hour < 24 * 30; ++hour, now_ += hours(1)) ASSERT_TRUE(Holds(*Current())) << hour;
}

TEST_F(MemberProofTest, AClockThatWasSetBackMakesItAnew) {
  const auto first = Current();
  now_ -= hours(24 * 365);
  EXPECT_FALSE(Holds(*first));
  EXPECT_TRUE(Holds(*Current()));
}

}  // namespace
}  // namespace cairn
