// A session with one variable, and a daemon played by the test that restores it from an image of its own.
#ifndef CAIRN_TESTS_CLIENT_RESTORE_FIXTURE_H_
#define CAIRN_TESTS_CLIENT_RESTORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/client/fake_daemon.h"
#include "tests/client/one_variable_fixture.h"

namespace cairn {

class RestoringTest : public OneVariableTest {
 protected:
  RestoringTest() : OneVariableTest(std::vector<std::int32_t>(5000, -1)), expected_(5000) {
    std::iota(expected_.begin(), expected_.end(), 100);
    std::memcpy(image_.bytes().data(), expected_.data(), expected_.size() * sizeof(expected_[0]));
  }

  local::Reply PlanFor(const local::Request& restore, bool fresh) {
    local::Reply reply;
    image_.Describe(reply.mutable_restore()->mutable_image(), fresh);
    *reply.mutable_restore()->mutable_plan() = MakeTestPlan(restore.restore().variables(), 1000);
    return reply;
  }
  static void Ready(FakePeer& peer, const local::Request& restore, std::uint64_t pieces) {
    local::Reply reply;
    reply.mutable_ready()->set_pieces(pieces);
    peer.Answer(restore, std::move(reply));
  }
  static void End(FakePeer& peer, const local::Request& restore, local::Tier tier = local::TIER_CACHE) {
    local::Reply reply;
    reply.mutable_restore_end()->set_tier(tier);
    peer.Answer(restore, std::move(reply));
  }
  static void WaitCopied(FakePeer& peer, std::uint64_t pieces) {
    while (peer.told() < pieces) {
      const auto request = peer.Receive();
      ASSERT_TRUE(request && request->has_copied());
    }
  }

  std::vector<std::int32_t> expected_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_CLIENT_RESTORE_FIXTURE_H_
