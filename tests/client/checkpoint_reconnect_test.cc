// cairn_checkpoint where the daemon dies on the way, or the connection ends: what the next connection begins with.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "tests/client/checkpoint_fixture.h"
#include "tests/client/fake_daemon.h"

namespace cairn {
namespace {

// Where the daemon dies; the same step and attempt must be begun again with its successor.
enum class Death { kAtBegin, kWhileFilling, kAtCommit };

class DaemonDeathTest : public CheckpointTest, public testing::WithParamInterface<Death> {};

TEST_P(DaemonDeathTest, TheSameAttemptIsBegunAgainWithTheSuccessor) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet(11);
      const local::Request begin = first.Expect(local::Request::kBegin);
      EXPECT_EQ(begin.begin().attempt(), 1u);
      if (GetParam() != Death::kAtBegin) {
        local::Reply reply = BeginReplyFor(begin, image_, true, 1);
        if (GetParam() == Death::kWhileFilling) {
          for (int i = 0; i < reply.begin().plan().bytes_size(); ++i) {
            reply.mutable_begin()->mutable_plan()->add_after_released(i < 3 ? 0 : 1);
          }
        }
        first.Answer(begin, std::move(reply), image_.fd());
        first.Receive();
      }
      if (GetParam() == Death::kAtCommit) first.Expect(local::Request::kCommit);
    }
    FakePeer peer = daemon_.Accept();
    EXPECT_EQ(peer.Greet(11).launch(), 11u);
    const local::Request begin = peer.Expect(local::Request::kBegin);
    EXPECT_EQ(begin.begin().step(), 6u);
    EXPECT_EQ(begin.begin().attempt(), 1u);
    FakeImage other(5, kImageBytes);  // the same number, another daemon's image
    peer.Answer(begin, BeginReplyFor(begin, other, true, 2), other.fd());
    AnswerCommit(peer, 2);
    EXPECT_EQ(std::memcmp(other.bytes().data(), data_.data(), data_bytes()), 0);
  });
  OpenSession();
  std::uint64_t dataset = 0;
  EXPECT_EQ(cairn_checkpoint(session_, 6, &dataset), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(dataset, 2u);
}

INSTANTIATE_TEST_SUITE_P(EveryState, DaemonDeathTest,
                         testing::Values(Death::kAtBegin, Death::kWhileFilling, Death::kAtCommit));

TEST_F(CheckpointTest, APlanOfAnotherConnectionDoesNotStay) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      const local::Request begin = first.Expect(local::Request::kBegin);
      first.Answer(begin, BeginReplyFor(begin, image_, true), image_.fd());
      AnswerCommit(first);
    }
    FakePeer peer = daemon_.Accept();
    peer.Greet();
    const local::Request begin = peer.Expect(local::Request::kBegin);
    local::Reply reply = BeginReplyFor(begin, image_, true);
    reply.mutable_begin()->clear_plan();
    reply.mutable_begin()->set_same_plan(true);
    peer.Answer(begin, std::move(reply), image_.fd());
    EXPECT_FALSE(peer.Receive());
  });
  OpenSession();
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_INTERNAL);
}

TEST_F(CheckpointTest, AnImageThatGaveWayIsBroughtAgainByANewConnection) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      for (std::uint64_t id = 10; id < 16; ++id) {
        FakeImage image(id, kImageBytes);
        const local::Request begin = first.Expect(local::Request::kBegin);
        first.Answer(begin, BeginReplyFor(begin, image, true), image.fd());
        AnswerCommit(first);
      }
      FakeImage forgotten(10, kImageBytes);
      const local::Request begin = first.Expect(local::Request::kBegin);
      first.Answer(begin, BeginReplyFor(begin, forgotten, false));
      EXPECT_FALSE(first.Receive());
    }
    FakePeer peer = daemon_.Accept();
    peer.Greet();
    const local::Request begin = peer.Expect(local::Request::kBegin);
    peer.Answer(begin, BeginReplyFor(begin, image_, true), image_.fd());
    AnswerCommit(peer);
    EXPECT_TRUE(ImageHasData());
  });
  OpenSession();
  for (int i = 0; i < 7; ++i) EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
}

TEST_F(CheckpointTest, AnImageOfAnotherConnectionIsNotTakenForThisOnes) {
  daemon_.Play([this] {
    for (int connection = 0; connection < 3; ++connection) {
      FakePeer peer = daemon_.Accept();
      peer.Greet();
      const local::Request begin = peer.Expect(local::Request::kBegin);
      const bool fresh = connection != 1;
      peer.Answer(begin, BeginReplyFor(begin, image_, fresh), fresh ? image_.fd() : -1);
      if (!fresh) {
        EXPECT_FALSE(peer.Receive()) << "went on with a mapping of another connection";
        continue;
      }
      AnswerCommit(peer);
    }
  });
  OpenSession();
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
}

}  // namespace
}  // namespace cairn
