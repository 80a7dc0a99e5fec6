// A session with one variable, and a daemon played by the test that restores it from an image of its own.
#ifndef CAIRN_TESTS_CLIENT_RESTORE_FIXTURE_H_
#define CAIRN_TESTS_CLIENT_RESTORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/fake_daemon.h"

namespace cairn {

inline bool Says(const cairn_session* session, const std::string& text) {
  return std::string(cairn_error(session)).find(text) != std::string::npos;
}

class RestoringTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kImageBytes = 2 << 20;

  RestoringTest() : image_(5, kImageBytes), data_(5000, -1), expected_(5000) {
    std::iota(expected_.begin(), expected_.end(), 100);
    std::memcpy(image_.bytes().data(), expected_.data(), expected_.size() * sizeof(expected_[0]));
  }
  ~RestoringTest() override {
    daemon_.Join();
    cairn_close(session_);
  }

  void Open(std::function<void(FakePeer&)> script, std::uint32_t deadline_ms = 5000) {
    daemon_.PlayPeer(std::move(script));
    OpenSession(deadline_ms);
  }
  void OpenSession(std::uint32_t deadline_ms = 5000) {
    cairn_options options = daemon_.options();
    options.deadline_ms = deadline_ms;
    session_ = OpenOrDie(options);
    ASSERT_EQ(cairn_protect(session_, 3, data_.data(), data_.size(), CAIRN_INT32), CAIRN_OK);
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

  FakeDaemon daemon_;
  FakeImage image_;
  std::vector<std::int32_t> data_, expected_;
  cairn_session* session_ = nullptr;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_CLIENT_RESTORE_FIXTURE_H_
