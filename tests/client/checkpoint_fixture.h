// A session with one variable, and a daemon played by the test that takes its checkpoints into an image of its own.
#ifndef CAIRN_TESTS_CLIENT_CHECKPOINT_FIXTURE_H_
#define CAIRN_TESTS_CLIENT_CHECKPOINT_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "client/cairn.h"
#include "tests/client/fake_daemon.h"

namespace cairn {

inline constexpr std::uint64_t kImageBytes = 2 << 20;

inline local::Reply BeginReplyFor(const local::Request& begin, const FakeImage& image, bool fresh,
                                  std::uint64_t dataset = 1) {
  local::Reply reply;
  reply.mutable_begin()->set_dataset(dataset);
  image.Describe(reply.mutable_begin()->mutable_image(), fresh);
  *reply.mutable_begin()->mutable_plan() = MakeTestPlan(begin.begin().variables(), 1000);
  return reply;
}

inline void AnswerCommit(FakePeer& peer, std::uint64_t dataset = 1) {
  local::Reply reply;
  reply.mutable_committed()->set_dataset(dataset);
  peer.Answer(peer.Expect(local::Request::kCommit), std::move(reply));
}

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : image_(5, kImageBytes), data_(10000) { std::iota(data_.begin(), data_.end(), 0); }
  ~CheckpointTest() override {
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
  static bool Says(const cairn_session* session, const std::string& text) {
    return std::string(cairn_error(session)).find(text) != std::string::npos;
  }
  std::uint64_t data_bytes() const { return data_.size() * sizeof(data_[0]); }
  // Does the image hold the data, given a plan that packs one variable?
  bool ImageHasData() const { return std::memcmp(image_.bytes().data(), data_.data(), data_bytes()) == 0; }

  FakeDaemon daemon_;
  FakeImage image_;
  std::vector<std::int32_t> data_;
  cairn_session* session_ = nullptr;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_CLIENT_CHECKPOINT_FIXTURE_H_
