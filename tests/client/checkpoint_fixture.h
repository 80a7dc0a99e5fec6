// A session with one variable, and a daemon played by the test that takes its checkpoints into an image of its own.
#ifndef CAIRN_TESTS_CLIENT_CHECKPOINT_FIXTURE_H_
#define CAIRN_TESTS_CLIENT_CHECKPOINT_FIXTURE_H_

#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/client/fake_daemon.h"
#include "tests/client/one_variable_fixture.h"

namespace cairn {

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

class CheckpointTest : public OneVariableTest {
 protected:
  CheckpointTest() : OneVariableTest(std::vector<std::int32_t>(10000)) { std::iota(data_.begin(), data_.end(), 0); }

  std::uint64_t data_bytes() const { return data_.size() * sizeof(data_[0]); }
  // Does the image hold the data, given a plan that packs one variable?
  bool ImageHasData() const { return std::memcmp(image_.bytes().data(), data_.data(), data_bytes()) == 0; }
};

}  // namespace cairn

#endif  // CAIRN_TESTS_CLIENT_CHECKPOINT_FIXTURE_H_
