// MUNGE's library with real daemons: whose credential is it, and is it fresh?
#include "daemon/trust/munge.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "tests/support/munged.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::Munged;

constexpr auto kPermissionDenied = absl::StatusCode::kPermissionDenied;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

std::shared_ptr<const Munge> At(const std::string& socket) {
  auto munge = Munge::Load(socket);
  EXPECT_OK(munge);
  return *munge;
}

class MungeTest : public ::testing::Test {
 protected:
  const std::unique_ptr<Munged> daemon_ = Munged::Start(std::string(64, 'k'));
  const std::shared_ptr<const Munge> munge_ = At(daemon_->socket());
};

TEST_F(MungeTest, ACredentialSaysWhoMadeItAndWhatFor) {
  ASSERT_OK_AND_ASSIGN(const std::string credential, munge_->Encode("what for"));
  ASSERT_OK_AND_ASSIGN(const Munge::Decoded decoded, munge_->Decode(credential));
  EXPECT_EQ(decoded.payload, "what for");
  EXPECT_EQ(decoded.uid, ::geteuid());
}

TEST_F(MungeTest, ANodeOfTheSameRealmDecodesIt) {
  const auto elsewhere = Munged::Start(std::string(64, 'k'));
  ASSERT_OK_AND_ASSIGN(const std::string credential, munge_->Encode("x"));
  EXPECT_OK(At(elsewhere->socket())->Decode(credential));
}

TEST_F(MungeTest, AReplayedOneIsRefused) {
  ASSERT_OK_AND_ASSIGN(const std::string credential, munge_->Encode("x"));
  EXPECT_OK(munge_->Decode(credential));
  EXPECT_STATUS(kPermissionDenied, munge_->Decode(credential), "Replayed");
}

TEST_F(MungeTest, AnotherRealmsOneAndAChangedOneAreRefused) {
  const auto foreign = Munged::Start(std::string(64, 'f'));
  ASSERT_OK_AND_ASSIGN(const std::string theirs, At(foreign->socket())->Encode("x"));
  EXPECT_STATUS(kPermissionDenied, munge_->Decode(theirs), "Invalid");
  ASSERT_OK_AND_ASSIGN(std::string ours, munge_->Encode("x"));
  ours[ours.size() / 2] = ours[ours.size() / 2] == 'A' ? 'B' : 'A';
  EXPECT_STATUS(kPermissionDenied, munge_->Decode(ours), "");
  for (const char* none : {"", "x", "MUNGE:", "MUNGE:AAAA:"}) {
    EXPECT_STATUS(kPermissionDenied, munge_->Decode(none), "") << none;
  }
}

TEST_F(MungeTest, ADaemonThatIsGoneIsUnavailable) {
  ASSERT_OK_AND_ASSIGN(const std::string credential, munge_->Encode("x"));
  daemon_->Kill();
  EXPECT_STATUS(kUnavailable, munge_->Encode("x"), "");
  EXPECT_STATUS(kUnavailable, munge_->Decode(credential), "");
}

}  // namespace
}  // namespace cairn
