// cairn_checkpoint against a daemon played by the test: plans, rings, images, attempts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/checkpoint_fixture.h"
#include "tests/client/fake_daemon.h"

namespace cairn {
namespace {

TEST_F(CheckpointTest, BeginNamesVariablesInOrderOfFirstRegistration) {
  daemon_.PlayPeer([](FakePeer& peer) {
    const local::Request request = peer.Expect(local::Request::kBegin);
    const auto& variables = request.begin().variables();
    ASSERT_EQ(variables.size(), 3);
    EXPECT_EQ(variables[0].id(), 9);
    EXPECT_EQ(variables[0].kind(), local::PLAIN);
    EXPECT_EQ(variables[0].type(), CAIRN_FLOAT);
    EXPECT_EQ(variables[0].count(), 4u);
    EXPECT_EQ(variables[0].bytes(), 16u);
    EXPECT_EQ(variables[1].id(), 2);
    EXPECT_EQ(variables[1].kind(), local::VALUE);
    EXPECT_EQ(variables[1].name(), "time");
    EXPECT_EQ(variables[2].id(), 5);
    EXPECT_EQ(variables[2].kind(), local::ARRAY);
    EXPECT_EQ(variables[2].count(), 6u);
    EXPECT_EQ(variables[2].bytes(), 48u);
    EXPECT_EQ(std::vector<std::uint64_t>(variables[2].shape().begin(), variables[2].shape().end()),
              (std::vector<std::uint64_t>{10, 20}));
    EXPECT_EQ(std::vector<std::uint64_t>(variables[2].box_start().begin(), variables[2].box_start().end()),
              (std::vector<std::uint64_t>{4, 6}));
    EXPECT_EQ(std::vector<std::uint64_t>(variables[2].box_count().begin(), variables[2].box_count().end()),
              (std::vector<std::uint64_t>{2, 3}));
    peer.Refuse(request, local::FAILED, "enough");
    peer.Expect(local::Request::kAbort);
  });
  session_ = OpenOrDie(daemon_.options());
  float plain[4] = {};
  double time = 0, block[4 * 5] = {};
  const std::uint64_t shape[] = {10, 20}, start[] = {4, 6}, count[] = {2, 3}, memory[] = {4, 5}, ghost[] = {1, 1};
  ASSERT_EQ(cairn_protect(session_, 9, plain, 1, CAIRN_FLOAT), CAIRN_OK);
  ASSERT_EQ(cairn_protect(session_, 7, plain, 1, CAIRN_FLOAT), CAIRN_OK);
  ASSERT_EQ(cairn_protect_value(session_, 2, "time", &time, 1, CAIRN_DOUBLE), CAIRN_OK);
  ASSERT_EQ(cairn_protect_array(session_, 5, "field", block, CAIRN_DOUBLE, 2, shape, start, count, memory, ghost),
            CAIRN_OK);
  ASSERT_EQ(cairn_protect(session_, 9, plain, 4, CAIRN_FLOAT), CAIRN_OK);
  ASSERT_EQ(cairn_unprotect(session_, 7), CAIRN_OK);
  EXPECT_EQ(cairn_unprotect(session_, 7), CAIRN_NOT_FOUND);
  EXPECT_EQ(cairn_checkpoint(session_, 1, nullptr), CAIRN_FAILED);
}

TEST_F(CheckpointTest, FollowsThePlanAndTellsOfIt) {
  std::vector<std::uint64_t> told;
  Open([&](FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    EXPECT_EQ(begin.begin().step(), 42u);
    EXPECT_EQ(begin.begin().attempt(), 1u);
    local::Reply reply = BeginReplyFor(begin, image_, true, 77);
    const int pieces = reply.begin().plan().bytes_size();
    peer.Answer(begin, std::move(reply), image_.fd());
    for (;;) {
      const auto request = peer.Receive();
      ASSERT_TRUE(request);
      if (!request->has_filled()) {
        ASSERT_TRUE(request->has_commit());
        EXPECT_FALSE(request->commit().has_digest());
        EXPECT_TRUE(ImageHasData());
        local::Reply committed;
        committed.mutable_committed()->set_dataset(77);
        peer.Answer(*request, std::move(committed));
        break;
      }
      told.push_back(request->filled().pieces());
    }
    EXPECT_EQ(told.back(), static_cast<std::uint64_t>(pieces));
  });
  std::uint64_t dataset = 0;
  EXPECT_EQ(cairn_checkpoint(session_, 42, &dataset), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(dataset, 77u);
  daemon_.Join();
  // 40 pieces of 1000 bytes, a doorbell every 2000.
  EXPECT_EQ(told.size(), 20u);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
}

TEST_F(CheckpointTest, AnImageThatIsKnownComesWithoutDescriptorAndThePlanCanStay) {
  Open([this](FakePeer& peer) {
    for (int round = 0; round < 3; ++round) {
      const local::Request begin = peer.Expect(local::Request::kBegin);
      local::Reply reply = BeginReplyFor(begin, image_, round == 0);
      if (round > 0) {
        reply.mutable_begin()->clear_plan();
        reply.mutable_begin()->set_same_plan(true);
      }
      std::memset(image_.bytes().data(), 0, image_.bytes().size());
      peer.Answer(begin, std::move(reply), round == 0 ? image_.fd() : -1);
      const local::Request commit = peer.Expect(local::Request::kCommit);
      EXPECT_TRUE(ImageHasData()) << round;
      local::Reply committed;
      committed.mutable_committed()->set_dataset(1);
      peer.Answer(commit, std::move(committed));
    }
  });
  for (int round = 0; round < 3; ++round) {
    data_[5] = 1000 + round;
    EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
  }
}

TEST_F(CheckpointTest, APlanThatStayedIsCheckedAgainstTheVariablesOfNow) {
  Open([this](FakePeer& peer) {
    const local::Request first = peer.Expect(local::Request::kBegin);
    peer.Answer(first, BeginReplyFor(first, image_, true), image_.fd());
    AnswerCommit(peer);
    const local::Request second = peer.Expect(local::Request::kBegin);
    local::Reply reply = BeginReplyFor(second, image_, false);
    reply.mutable_begin()->clear_plan();
    reply.mutable_begin()->set_same_plan(true);
    peer.Answer(second, std::move(reply));
    EXPECT_FALSE(peer.Receive());
  });
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
  ASSERT_EQ(cairn_protect(session_, 3, data_.data(), 10, CAIRN_INT32), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_INTERNAL);
  EXPECT_TRUE(Says(session_, "plan")) << cairn_error(session_);
}

TEST_F(CheckpointTest, SeveralThreadsCopyTheSame) {
  ASSERT_EQ(setenv("CAIRN_COPY_THREADS", "4", 1), 0);
  const FakeImage large(5, 40 << 20);
  data_.resize(9'000'000);
  std::iota(data_.begin(), data_.end(), 0);
  Open([&](FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    local::Reply reply = BeginReplyFor(begin, large, true);
    reply.mutable_begin()->mutable_plan()->set_doorbell_bytes(30 << 20);
    const auto pieces = static_cast<std::uint64_t>(reply.begin().plan().bytes_size());
    peer.Answer(begin, std::move(reply), large.fd());
    const local::Request some = peer.Expect(local::Request::kFilled);
    EXPECT_LT(some.filled().pieces(), pieces);
    EXPECT_EQ(std::memcmp(large.bytes().data(), data_.data(), 30 << 20), 0) << "what it tells of is there";
    EXPECT_EQ(peer.Expect(local::Request::kFilled).filled().pieces(), pieces);
    const auto* const in_image = reinterpret_cast<const std::int32_t*>(large.bytes().data());
    const auto differs = std::mismatch(data_.begin(), data_.end(), in_image).first;
    EXPECT_EQ(differs, data_.end()) << "element " << differs - data_.begin();
    AnswerCommit(peer);
  });
  EXPECT_EQ(unsetenv("CAIRN_COPY_THREADS"), 0);
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
  daemon_.Join();
}

TEST_F(CheckpointTest, InARingItWaitsForTheSlotAndTellsFirstWhatItFilled) {
  Open([this](FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    local::Reply reply = BeginReplyFor(begin, image_, true);
    local::Plan& plan = *reply.mutable_begin()->mutable_plan();
    plan.set_doorbell_bytes(1 << 30);  // only the waits make it tell
    std::string whole;
    // Two slots of 1000 bytes: piece i goes to slot i % 2 when i - 1 of them are free again.
    for (int i = 0; i < plan.bytes_size(); ++i) {
      plan.set_image_offset(i, static_cast<std::uint64_t>(i % 2) * 1000);
      plan.add_after_released(i < 2 ? 0 : static_cast<std::uint64_t>(i - 1));
    }
    const std::uint64_t pieces = static_cast<std::uint64_t>(plan.bytes_size());
    peer.Answer(begin, std::move(reply), image_.fd());
    std::uint64_t taken = 0;
    while (taken < pieces) {
      const auto filled = peer.Receive();
      ASSERT_TRUE(filled && filled->has_filled());
      ASSERT_LE(filled->filled().pieces() - taken, 2u) << "wrote into a slot that was not free";
      for (; taken < filled->filled().pieces(); ++taken) {
        whole.append(reinterpret_cast<const char*>(image_.bytes().data()) + taken % 2 * 1000, 1000);
      }
      local::Reply released;
      released.mutable_released()->set_windows(taken);
      peer.Answer(begin, std::move(released));
    }
    AnswerCommit(peer);
    EXPECT_EQ(std::memcmp(whole.data(), data_.data(), data_bytes()), 0);
  });
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
}

TEST_F(CheckpointTest, ARingThatIsNotEmptiedEndsAtTheDeadlineAndIsGivenUp) {
  Open(
      [this](FakePeer& peer) {
        const local::Request begin = peer.Expect(local::Request::kBegin);
        local::Reply reply = BeginReplyFor(begin, image_, true, 31);
        for (int i = 0; i < reply.begin().plan().bytes_size(); ++i) {
          reply.mutable_begin()->mutable_plan()->add_after_released(i < 2 ? 0 : 1);
        }
        peer.Answer(begin, std::move(reply), image_.fd());
        const local::Request abort = peer.Expect(local::Request::kAbort);
        EXPECT_NE(abort.abort().reason().find("room in the image"), std::string::npos) << abort.abort().reason();
      },
      200);
  std::uint64_t dataset = 0;
  EXPECT_EQ(cairn_checkpoint(session_, 0, &dataset), CAIRN_DEADLINE_EXCEEDED);
  EXPECT_EQ(dataset, 31u);
  EXPECT_TRUE(Says(session_, "200 ms")) << cairn_error(session_);
  EXPECT_TRUE(Says(session_, "room in the image for piece 2 of 40 of dataset 31")) << cairn_error(session_);
}

TEST_F(CheckpointTest, ACommitThatIsNotAnsweredEndsAtTheDeadlineAndIsGivenUp) {
  Open(
      [this](FakePeer& peer) {
        const local::Request begin = peer.Expect(local::Request::kBegin);
        peer.Answer(begin, BeginReplyFor(begin, image_, true, 31), image_.fd());
        peer.Expect(local::Request::kCommit);
        peer.Expect(local::Request::kAbort);
      },
      200);
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_DEADLINE_EXCEEDED);
  EXPECT_TRUE(Says(session_, "dataset 31 to be captured")) << cairn_error(session_);
}

TEST_F(CheckpointTest, WhatTheDaemonSaysWhileItIsFilledIsTheAnswer) {
  Open([this](FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    peer.Answer(begin, BeginReplyFor(begin, image_, true), image_.fd());
    const local::Request commit = peer.Expect(local::Request::kCommit);
    local::Reply released;
    released.mutable_released()->set_windows(1);
    peer.Answer(begin, std::move(released));  // late, of no use, no error
    peer.Refuse(commit, local::FAILED, "rank 1 was lost");
    peer.Expect(local::Request::kAbort);
    const local::Request next = peer.Expect(local::Request::kBegin);
    peer.Answer(next, BeginReplyFor(next, image_, false, 2));
    AnswerCommit(peer, 2);
  });
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_FAILED);
  EXPECT_TRUE(Says(session_, "rank 1 was lost")) << cairn_error(session_);
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << "the next checkpoint works: " << cairn_error(session_);
}

TEST_F(CheckpointTest, StepZeroIsTheCallCountWhichAlsoRisesWhenACallFails) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> begun;
  Open([&](FakePeer& peer) {
    while (const auto request = peer.Receive()) {
      if (request->has_begin()) {
        begun.emplace_back(request->begin().step(), request->begin().attempt());
        peer.Refuse(*request, local::RESOURCE_EXHAUSTED, "full");
      }
      if (request->has_close()) return peer.Answer(*request, {});
    }
  });
  for (const std::uint64_t step : {0, 0, 100, 0, 100, 100, 2}) {
    EXPECT_EQ(cairn_checkpoint(session_, step, nullptr), CAIRN_RESOURCE_EXHAUSTED);
  }
  cairn_close(session_);
  session_ = nullptr;
  daemon_.Join();
  EXPECT_EQ(begun, (std::vector<std::pair<std::uint64_t, std::uint32_t>>{
                       {1, 1}, {2, 1}, {100, 1}, {4, 1}, {100, 2}, {100, 3}, {2, 2}}));
}

TEST_F(CheckpointTest, NothingProtectedIsACheckpointOfNoBytes) {
  daemon_.PlayPeer([](FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    EXPECT_EQ(begin.begin().variables_size(), 0);
    local::Reply reply;
    reply.mutable_begin()->set_dataset(1);
    peer.Answer(begin, std::move(reply));
    AnswerCommit(peer);
  });
  session_ = OpenOrDie(daemon_.options());
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
}

TEST_F(CheckpointTest, GhostCellsAreNotStored) {
  std::vector<double> block(30 * 40);
  std::iota(block.begin(), block.end(), 0.0);
  std::vector<double> packed;
  for (int i = 2; i < 28; ++i) {
    for (int j = 1; j < 39; ++j) packed.push_back(block[static_cast<std::size_t>(i * 40 + j)]);
  }
  daemon_.PlayPeer([&](FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    peer.Answer(begin, BeginReplyFor(begin, image_, true), image_.fd());
    AnswerCommit(peer);
    EXPECT_EQ(std::memcmp(image_.bytes().data(), packed.data(), packed.size() * sizeof(double)), 0);
  });
  session_ = OpenOrDie(daemon_.options());
  const std::uint64_t shape[] = {26, 38}, start[] = {0, 0}, memory[] = {30, 40}, ghost[] = {2, 1};
  ASSERT_EQ(cairn_protect_array(session_, 1, "f", block.data(), CAIRN_DOUBLE, 2, shape, start, shape, memory, ghost),
            CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
  daemon_.Join();  // it looks at what lives here
}

TEST_F(CheckpointTest, AnImageThatComesTooLateIsKnownAllTheSame) {
  Open(
      [this](FakePeer& peer) {
        const local::Request late = peer.Expect(local::Request::kBegin);
        peer.Expect(local::Request::kAbort);
        peer.Answer(late, BeginReplyFor(late, image_, true, 1), image_.fd());
        const local::Request begin = peer.Expect(local::Request::kBegin);
        local::Reply reply = BeginReplyFor(begin, image_, false, 2);
        reply.mutable_begin()->clear_plan();
        reply.mutable_begin()->set_same_plan(true);
        peer.Answer(begin, std::move(reply));
        AnswerCommit(peer, 2);
        EXPECT_TRUE(ImageHasData());
      },
      400);
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_DEADLINE_EXCEEDED);
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
}

}  // namespace
}  // namespace cairn
