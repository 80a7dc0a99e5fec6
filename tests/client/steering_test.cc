// cairn_should_exit and cairn_need_checkpoint: what is asked, and what becomes of the answer.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>

#include "tests/client/fake_daemon.h"
#include "tests/client/played_session.h"

namespace cairn {
namespace {

using SteeringTest = PlayedSessionTest;

local::Reply ExitAnswer(bool yes, const std::string& why = "") {
  local::Reply reply;
  reply.mutable_should_exit()->set_yes(yes);
  reply.mutable_should_exit()->set_why(why);
  return reply;
}

local::Reply NeedAnswer(bool yes, const std::string& why = "") {
  local::Reply reply;
  reply.mutable_need_checkpoint()->set_yes(yes);
  reply.mutable_need_checkpoint()->set_why(why);
  return reply;
}

std::uint64_t AnswerExit(FakePeer& peer, const local::Reply& reply) {
  const local::Request request = peer.Expect(local::Request::kShouldExit);
  peer.Answer(request, reply);
  return request.should_exit().number();
}

std::uint64_t AnswerNeed(FakePeer& peer, const local::Reply& reply) {
  const local::Request request = peer.Expect(local::Request::kNeedCheckpoint);
  peer.Answer(request, reply);
  return request.need_checkpoint().number();
}

void AnswerClose(FakePeer& peer) {
  peer.Answer(peer.Expect(local::Request::kClose), {});
}

TEST_F(SteeringTest, EachQuestionIsCountedByItself) {
  cairn_session* session = Open([](FakePeer& peer) {
    EXPECT_EQ(AnswerExit(peer, ExitAnswer(false)), 1u);
    EXPECT_EQ(AnswerNeed(peer, NeedAnswer(true, "due")), 1u);
    EXPECT_EQ(AnswerExit(peer, ExitAnswer(true, "halt: enough")), 2u);
    EXPECT_EQ(AnswerNeed(peer, NeedAnswer(false)), 2u);
    AnswerClose(peer);
  });
  std::int32_t flag = 7;
  EXPECT_EQ(cairn_should_exit(session, &flag), CAIRN_OK);
  EXPECT_EQ(flag, 0);
  EXPECT_EQ(cairn_need_checkpoint(session, &flag), CAIRN_OK);
  EXPECT_EQ(flag, 1);
  EXPECT_STREQ(cairn_error(session), "cairn_need_checkpoint: due");
  EXPECT_EQ(cairn_should_exit(session, &flag), CAIRN_OK);
  EXPECT_EQ(flag, 1);
  EXPECT_STREQ(cairn_error(session), "cairn_should_exit: halt: enough");
  EXPECT_EQ(cairn_need_checkpoint(session, &flag), CAIRN_OK);
  EXPECT_EQ(flag, 0);
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
}

TEST_F(SteeringTest, AQuestionWhoseAnswerWasLostIsAskedAgainUnderItsNumber) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      EXPECT_EQ(first.Expect(local::Request::kShouldExit).should_exit().number(), 1u);
    }
    FakePeer second = daemon_.Accept();
    second.Greet();
    EXPECT_EQ(AnswerExit(second, ExitAnswer(true, "halt: enough")), 1u);
    EXPECT_EQ(AnswerExit(second, ExitAnswer(false)), 2u);
    AnswerClose(second);
  });
  cairn_session* session = OpenOrDie(daemon_.options());
  std::int32_t flag = 0;
  EXPECT_EQ(cairn_should_exit(session, &flag), CAIRN_OK) << cairn_error(session);
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(cairn_should_exit(session, &flag), CAIRN_OK);
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
}

TEST_F(SteeringTest, AFailedCallSaysNoAndCounts) {
  cairn_session* session = Open([](FakePeer& peer) {
    peer.Refuse(peer.Expect(local::Request::kShouldExit), local::FENCED, "launch 9 has taken over");
    EXPECT_EQ(AnswerExit(peer, ExitAnswer(false)), 2u);
    AnswerClose(peer);
  });
  std::int32_t flag = 7;
  EXPECT_EQ(cairn_should_exit(session, &flag), CAIRN_FENCED);
  EXPECT_EQ(flag, 0);
  EXPECT_NE(std::string(cairn_error(session)).find("taken over"), std::string::npos);
  EXPECT_EQ(cairn_should_exit(session, &flag), CAIRN_OK);
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
}

TEST_F(SteeringTest, WrongCallsAreRefusedAndDoNotCount) {
  cairn_session* session = Open([](FakePeer& peer) {
    EXPECT_EQ(AnswerExit(peer, ExitAnswer(false)), 1u);
    AnswerClose(peer);
  });
  std::int32_t flag = 7;
  EXPECT_EQ(cairn_should_exit(session, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_need_checkpoint(session, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_should_exit(nullptr, &flag), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(flag, 0);
  EXPECT_EQ(cairn_should_exit(nullptr, nullptr), CAIRN_INVALID_ARGUMENT);
  errno = 42;
  EXPECT_EQ(cairn_should_exit(session, &flag), CAIRN_OK);
  EXPECT_EQ(errno, 42);
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
}

TEST_F(SteeringTest, AnAnswerToAnotherQuestionBreaksTheProtocol) {
  cairn_session* session =
      Open([](FakePeer& peer) { peer.Answer(peer.Expect(local::Request::kShouldExit), NeedAnswer(true)); });
  std::int32_t flag = 7;
  EXPECT_EQ(cairn_should_exit(session, &flag), CAIRN_INTERNAL);
  EXPECT_EQ(flag, 0);
  cairn_close(session);
}

TEST_F(SteeringTest, EveryOpenTellsWhatTheEnvironmentSays) {
  ASSERT_EQ(setenv("CAIRN_CHECKPOINT_INTERVAL", "90s", 1), 0);
  ASSERT_EQ(setenv("SCR_CHECKPOINT_OVERHEAD", "2.5", 1), 0);
  ASSERT_EQ(setenv("CAIRN_END_TIME", "1700000000", 1), 0);
  const auto told = [](const local::Open& open) {
    EXPECT_EQ(open.end_time_s(), 1700000000);
    EXPECT_FALSE(open.rhythm().has_every() || open.rhythm().has_mtbf());
    EXPECT_TRUE(open.rhythm().has_interval() && open.rhythm().has_overhead());
    EXPECT_EQ(open.rhythm().interval_ms(), 90'000u);
    EXPECT_EQ(open.rhythm().overhead_percent(), 2.5);
  };
  daemon_.Play([&] {
    {
      FakePeer first = daemon_.Accept();
      told(first.Greet());
      first.Expect(local::Request::kShouldExit);
    }
    FakePeer second = daemon_.Accept();  // also a daemon that was started meanwhile
    told(second.Greet());
    AnswerExit(second, ExitAnswer(false));
    AnswerClose(second);
  });
  cairn_session* session = OpenOrDie(daemon_.options());
  std::int32_t flag = 0;
  EXPECT_EQ(cairn_should_exit(session, &flag), CAIRN_OK) << cairn_error(session);
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
  unsetenv("CAIRN_CHECKPOINT_INTERVAL");
  unsetenv("SCR_CHECKPOINT_OVERHEAD");
  unsetenv("CAIRN_END_TIME");
}

}  // namespace
}  // namespace cairn
