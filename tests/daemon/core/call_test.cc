// A call is answered once, at the latest when its deadline passes.
#include "daemon/core/call.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "storage/base/status.h"

namespace cairn {
namespace {

// Time moves when the test says so. Everything runs in Advance.
class SteppedLoop final : public Loop {
 public:
  void Post(std::function<void()> job) override { After(std::chrono::milliseconds(0), std::move(job)); }
  TimerId After(std::chrono::milliseconds delay, std::function<void()> job) override {
    timers_[{now_ + delay, ++last_}] = std::move(job);
    return last_;
  }
  void Cancel(TimerId id) override {
    std::erase_if(timers_, [id](const auto& timer) { return timer.first.second == id; });
  }
  void Run(std::function<void()> job) override { job(); }
  bool InStrand() const override { return true; }
  void Stop() override { timers_.clear(); }

  void Advance(std::chrono::milliseconds by) {
    const auto end = now_ + by;
    while (!timers_.empty() && timers_.begin()->first.first <= end) {
      auto timer = timers_.extract(timers_.begin());
      now_ = timer.key().first;
      timer.mapped()();
    }
    now_ = end;
  }
  std::size_t waiting() const { return timers_.size(); }

 private:
  std::chrono::steady_clock::time_point now_{};
  TimerId last_ = 0;
  std::map<std::pair<std::chrono::steady_clock::time_point, TimerId>, std::function<void()>> timers_;
};

class Recorder final : public Connection {
 public:
  void Send(const local::Reply& reply, SharedFd) override { replies.push_back(reply); }
  void Close() override {}
  bool shares_memory() const override { return true; }
  bool resumable() const override { return false; }
  Peer peer() const override { return {}; }
  std::vector<local::Reply> replies;
};

class CallTest : public ::testing::Test {
 protected:
  std::shared_ptr<Call> Make(int deadline_ms) {
    return Call::Make(loop_, connection_, 7, std::chrono::milliseconds(deadline_ms));
  }
  const std::vector<local::Reply>& replies() const { return connection_->replies; }

  SteppedLoop loop_;
  std::shared_ptr<Recorder> connection_ = std::make_shared<Recorder>();
};

TEST_F(CallTest, CarriesItsNumber) {
  const auto call = Make(100);
  call->Push({});
  call->Reply({});
  ASSERT_EQ(replies().size(), 2u);
  EXPECT_EQ(replies()[0].call(), 7u);
  EXPECT_EQ(replies()[1].call(), 7u);
  EXPECT_TRUE(call->answered());
}

TEST_F(CallTest, IsAnsweredOnce) {
  const auto call = Make(100);
  call->Fail(local::BUSY, "first");
  call->Reply({});
  call->Fail(NotFound("third"));
  call->Push({});
  loop_.Advance(std::chrono::milliseconds(1000));
  ASSERT_EQ(replies().size(), 1u);
  EXPECT_EQ(replies()[0].status().code(), local::BUSY);
  EXPECT_EQ(replies()[0].status().message(), "first");
}

TEST_F(CallTest, TheDeadlineSaysWhatWasWaitedFor) {
  const auto call = Make(100);
  call->WaitingFor("rank 3's bytes");
  loop_.Advance(std::chrono::milliseconds(99));
  EXPECT_TRUE(replies().empty());
  loop_.Advance(std::chrono::milliseconds(1));
  ASSERT_EQ(replies().size(), 1u);
  EXPECT_EQ(replies()[0].status().code(), local::DEADLINE_EXCEEDED);
  EXPECT_EQ(replies()[0].status().message(), "rank 3's bytes did not come within 100 ms");
}

TEST_F(CallTest, WhatTheDeadlineEndsComesAfterItsReply) {
  const auto call = Make(100);
  std::size_t replied_before = 0;
  call->OnExpired([&] { replied_before = replies().size(); });
  loop_.Advance(std::chrono::milliseconds(100));
  EXPECT_EQ(replied_before, 1u);
}

TEST_F(CallTest, AnAnswerInTimeEndsNothingAndLetsGo) {
  for (const bool fails : {false, true}) {
    const auto call = Make(100);
    auto held = std::make_shared<int>(0);
    const std::weak_ptr<int> watched = held;
    call->OnExpired([held = std::move(held)] { FAIL() << "it was answered"; });
    if (fails) {
      call->Fail(NotFound("nothing"));
    } else {
      call->Reply({});
    }
    EXPECT_TRUE(watched.expired());
    EXPECT_EQ(loop_.waiting(), 0u);
    loop_.Advance(std::chrono::milliseconds(1000));
  }
}

TEST_F(CallTest, AnAbandonedOneIsNotAnsweredButEndsWhatItBegan) {
  const auto call = Make(100);
  int ended = 0;
  call->OnExpired([&] { ++ended; });
  call->Abandon();
  call->Abandon();
  call->Reply({});
  loop_.Advance(std::chrono::milliseconds(1000));
  EXPECT_TRUE(replies().empty());
  EXPECT_EQ(ended, 1);
}

TEST(CodeOfTest, EachStatusHasItsCode) {
  EXPECT_EQ(CodeOf(absl::OkStatus()), local::OK);
  EXPECT_EQ(CodeOf(NotFound("")), local::NOT_FOUND);
  EXPECT_EQ(CodeOf(InvalidArgument("")), local::INVALID_ARGUMENT);
  EXPECT_EQ(CodeOf(FailedPrecondition("")), local::FAILED_PRECONDITION);
  EXPECT_EQ(CodeOf(AlreadyExists("")), local::FAILED_PRECONDITION);
  EXPECT_EQ(CodeOf(Aborted("")), local::FAILED);
  EXPECT_EQ(CodeOf(ResourceExhausted("")), local::RESOURCE_EXHAUSTED);
  EXPECT_EQ(CodeOf(DeadlineExceeded("")), local::DEADLINE_EXCEEDED);
  EXPECT_EQ(CodeOf(Unavailable("")), local::UNAVAILABLE);
  EXPECT_EQ(CodeOf(Cancelled("")), local::UNAVAILABLE);
  EXPECT_EQ(CodeOf(DataLoss("")), local::DATA_LOSS);
  EXPECT_EQ(CodeOf(PermissionDenied("")), local::PERMISSION_DENIED);
  EXPECT_EQ(CodeOf(Unimplemented("")), local::UNSUPPORTED);
  EXPECT_EQ(CodeOf(Internal("")), local::INTERNAL);
}

}  // namespace
}  // namespace cairn
