// Runs, launches, sessions: who may join, who is refused, who is shut out. design.md, "Identity".
#include <gtest/gtest.h>

#include <filesystem>

#include "daemon/data/image.h"
#include "tests/daemon/core/fake_client.h"

namespace cairn {
namespace {

class LaunchesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }
  CoreHarness harness_;
};

TEST_F(LaunchesTest, NamesRunAndLaunchAndGivesAToken) {
  FakeClient client(harness_);
  const local::Reply opened = client.Open({});
  ASSERT_SAYS(opened, local::OK, "");
  EXPECT_EQ(opened.open().run().size(), 32u);
  EXPECT_EQ(opened.open().launch(), 1u);
  EXPECT_FALSE(opened.open().token().empty());
  EXPECT_EQ(opened.open().image_alignment(), Image::kAlignment);
}

TEST_F(LaunchesTest, RefusesOpensThatMakeNoSense) {
  FakeClient client(harness_);
  EXPECT_SAYS(client.Open({.rank = 3, .nranks = 3}), local::INVALID_ARGUMENT, "rank 3 of 3 ranks");
  EXPECT_SAYS(client.Open({.nranks = 0}), local::INVALID_ARGUMENT, "0 ranks");
  EXPECT_SAYS(client.Open({.nranks = 2'000'000}), local::INVALID_ARGUMENT, "2000000 ranks");
  EXPECT_SAYS(client.Open({.key = ""}), local::INVALID_ARGUMENT, "launch key");
  EXPECT_SAYS(client.Open({.key = std::string(5000, 'k')}), local::INVALID_ARGUMENT, "launch key");
  EXPECT_SAYS(client.Open({.prefix = "scratch/run"}), local::INVALID_ARGUMENT, "absolute");
  EXPECT_SAYS(client.Open({.prefix = std::string("/a\0b", 4)}), local::INVALID_ARGUMENT, "absolute");
  EXPECT_SAYS(client.Open({}), local::OK, "");  // the connection is none the worse for it
}

TEST_F(LaunchesTest, AnythingBeforeOpenIsRefused) {
  FakeClient client(harness_);
  EXPECT_SAYS(client.Latest(), local::FAILED_PRECONDITION, "Open");
  EXPECT_SAYS(client.Begin(1, {}), local::FAILED_PRECONDITION, "Open");
  client.Filled(7);
  EXPECT_SAYS(client.Open({}), local::OK, "");
  EXPECT_SAYS(client.Open({}), local::FAILED_PRECONDITION, "has a session");
}

TEST_F(LaunchesTest, AnEmptyRequestIsUnknown) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_SAYS(client.Ask({}), local::INVALID_ARGUMENT, "unknown");
}

TEST_F(LaunchesTest, RanksWithOneKeyShareALaunch) {
  Ranks ranks(harness_, 3, "job.1");
  EXPECT_EQ(ranks[0].launch(), ranks[1].launch());
  EXPECT_EQ(ranks[1].launch(), ranks[2].launch());
  EXPECT_EQ(ranks[0].run(), ranks[2].run());
  EXPECT_NE(ranks[0].token(), ranks[1].token());
}

TEST_F(LaunchesTest, RanksOfOneLaunchMayNameThePrefixDifferently) {
  std::filesystem::create_directory_symlink(harness_.prefix(), harness_.root() + "/link");
  FakeClient first(harness_), second(harness_), third(harness_);
  // All at once: neither of them may find the prefix without a launch and make one of its own.
  auto ask = [&](FakeClient& client, Rank rank, const std::string& prefix) {
    local::Request request;
    request.mutable_open()->set_prefix(prefix);
    request.mutable_open()->set_rank(rank);
    request.mutable_open()->set_nranks(3);
    request.mutable_open()->set_launch_key("job.1");
    return client.Send(std::move(request));
  };
  const std::uint64_t one = ask(first, 0, harness_.prefix());
  const std::uint64_t two = ask(second, 1, harness_.prefix() + "/");
  const std::uint64_t three = ask(third, 2, harness_.root() + "/link");
  const local::Reply opened = first.Next(one);
  ASSERT_SAYS(opened, local::OK, "");
  const local::Reply slashed = second.Next(two);
  ASSERT_SAYS(slashed, local::OK, "");
  const local::Reply linked = third.Next(three);
  ASSERT_SAYS(linked, local::OK, "");
  EXPECT_EQ(slashed.open().launch(), opened.open().launch());
  EXPECT_EQ(linked.open().launch(), opened.open().launch());
}

TEST_F(LaunchesTest, TheSameRankTwiceIsBusyNamingHostAndProcess) {
  FakeClient first(harness_, {.peer = {.host = "node12", .pid = 815, .program = "heat"}});
  ASSERT_SAYS(first.Open({.rank = 1, .nranks = 2}), local::OK, "");
  FakeClient second(harness_);
  const local::Reply busy = second.Open({.rank = 1, .nranks = 2});
  EXPECT_SAYS(busy, local::BUSY, "node12");
  EXPECT_SAYS(busy, local::BUSY, "815");
  EXPECT_SAYS(busy, local::BUSY, "heat");
  EXPECT_SAYS(first.Latest(), local::NOT_FOUND, "");  // it lives on
}

TEST_F(LaunchesTest, AnotherNumberOfRanksIsRefused) {
  FakeClient first(harness_), second(harness_);
  ASSERT_SAYS(first.Open({.rank = 0, .nranks = 2}), local::OK, "");
  EXPECT_SAYS(second.Open({.rank = 1, .nranks = 4}), local::INVALID_ARGUMENT, "has 2 ranks, this rank says 4");
  EXPECT_SAYS(second.Open({.rank = 1, .nranks = 2}), local::OK, "");
}

TEST_F(LaunchesTest, AnotherKeyIsBusyUntilTheLaunchIsOver) {
  FakeClient second(harness_);
  {
    FakeClient first(harness_);
    ASSERT_SAYS(first.Open({.key = "job.1"}), local::OK, "");
    EXPECT_SAYS(second.Open({.key = "job.2"}), local::BUSY, "launch 1");
    EXPECT_SAYS(first.Close(), local::OK, "");
  }
  const local::Reply opened = second.Open({.key = "job.2"});
  ASSERT_SAYS(opened, local::OK, "");
  EXPECT_EQ(opened.open().launch(), 2u);
}

TEST_F(LaunchesTest, ALostSessionMakesRoomForANewLaunch) {
  FakeClient first(harness_), second(harness_);
  ASSERT_SAYS(first.Open({}), local::OK, "");
  first.Drop();
  const local::Reply opened = second.Open({});
  ASSERT_SAYS(opened, local::OK, "");
  EXPECT_EQ(opened.open().launch(), 2u);  // the same key: but that launch has lost a session
}

TEST_F(LaunchesTest, TakeoverFencesEverythingTheOlderLaunchSends) {
  FakeClient old(harness_), fresh(harness_);
  ASSERT_SAYS(old.Open({.key = "job.1"}), local::OK, "");
  const Memory memory = {PlainOf(1, RandomBytes(1, 5000))};
  const local::Reply begun = old.Begin(1, memory);
  ASSERT_SAYS(begun, local::OK, "");
  old.Fill(memory);
  const std::uint64_t waiting = old.SendWait(begun.begin().dataset(), local::LOCAL);

  const local::Reply opened = fresh.Open({.key = "job.2", .takeover = true});
  ASSERT_SAYS(opened, local::OK, "");
  EXPECT_EQ(opened.open().launch(), 2u);
  EXPECT_SAYS(old.Next(waiting), local::FAILED, "");  // half-made, and at once
  EXPECT_SAYS(old.Commit(), local::FENCED, "");
  EXPECT_SAYS(old.Begin(2, memory), local::FENCED, "");
  EXPECT_SAYS(old.Test(1, local::LOCAL), local::FENCED, "");
  EXPECT_SAYS(old.Latest(), local::FENCED, "");
  EXPECT_SAYS(old.Stored(1), local::FENCED, "");
  EXPECT_SAYS(old.OutputBegin(3), local::FENCED, "");
  Memory blank = Blank(memory);
  EXPECT_EQ(old.Restore(1, blank).code, local::FENCED);
  old.Filled(1);
  EXPECT_SAYS(fresh.Latest(), local::NOT_FOUND, "");
  EXPECT_SAYS(fresh.Test(begun.begin().dataset(), local::CAPTURED), local::FAILED, "");
  EXPECT_SAYS(old.Open({.launch = 1, .token = old.token()}), local::FAILED_PRECONDITION, "has a session");
  FakeClient again(harness_);
  EXPECT_SAYS(again.Open({.launch = 1, .token = old.token()}), local::FENCED, "launch 2");
}

TEST_F(LaunchesTest, AFencedBeginThatWaitsForItsImageEndsAtOnce) {
  harness_.config.image.bytes_max = 4 << 20;
  harness_.Restart();
  FakeClient first(harness_), second(harness_), fresh(harness_);
  ASSERT_SAYS(first.Open({.rank = 0, .nranks = 2}), local::OK, "");
  ASSERT_SAYS(second.Open({.rank = 1, .nranks = 2}), local::OK, "");
  const Memory memory = {PlainOf(1, RandomBytes(1, 4 << 20))};
  ASSERT_SAYS(first.Begin(1, memory), local::OK, "");
  const std::uint64_t begin = second.SendBegin(1, memory);  // the budget is used up
  ASSERT_SAYS(fresh.Open({.key = "job.2", .takeover = true}), local::OK, "");
  const local::Reply ended = second.Next(begin);
  EXPECT_TRUE(CodeOfReply(ended) == local::FAILED || CodeOfReply(ended) == local::FENCED)
      << local::Code_Name(CodeOfReply(ended)) << " " << ended.status().message();
}

TEST_F(LaunchesTest, AReconnectWithItsTokenStaysInItsLaunchOverARestartOfTheDaemon) {
  const Memory memory = {ValueOf(1, "step", 7)};
  LaunchId launch = 0;
  std::string token;
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    ASSERT_SAYS(client.Checkpoint(1, memory), local::OK, "");
    launch = client.launch();
    token = client.token();
  }
  harness_.Restart();
  FakeClient client(harness_);
  const local::Reply opened = client.Open({.launch = launch, .token = token});
  ASSERT_SAYS(opened, local::OK, "");
  EXPECT_EQ(opened.open().launch(), launch);
  EXPECT_EQ(opened.open().token(), token);
  EXPECT_SAYS(client.Checkpoint(2, memory), local::OK, "");
}

TEST_F(LaunchesTest, AReconnectWithAWrongTokenIsDenied) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.nranks = 2}), local::OK, "");
  FakeClient thief(harness_);
  EXPECT_SAYS(thief.Open({.nranks = 2, .launch = client.launch(), .token = "guess"}), local::PERMISSION_DENIED,
              "token of rank 0");
  EXPECT_SAYS(thief.Open({.rank = 1, .nranks = 2, .launch = client.launch(), .token = client.token()}),
              local::PERMISSION_DENIED, "token of rank 1");
  EXPECT_SAYS(thief.Open({.nranks = 3, .launch = client.launch(), .token = client.token()}), local::INVALID_ARGUMENT,
              "2 ranks");
  EXPECT_SAYS(thief.Open({.nranks = 2, .launch = 77, .token = client.token()}), local::FENCED, "");
  EXPECT_SAYS(client.Latest(), local::NOT_FOUND, "");
}

TEST_F(LaunchesTest, ARankThatClosedDoesNotComeBack) {
  FakeClient client(harness_), other(harness_);
  ASSERT_SAYS(client.Open({.rank = 0, .nranks = 2}), local::OK, "");
  ASSERT_SAYS(other.Open({.rank = 1, .nranks = 2}), local::OK, "");
  ASSERT_SAYS(client.Close(), local::OK, "");
  FakeClient again(harness_);
  EXPECT_SAYS(again.Open({.nranks = 2, .launch = client.launch(), .token = client.token()}), local::FAILED_PRECONDITION,
              "closed");
}

TEST_F(LaunchesTest, APrefixMadeAnewIsAnotherRunAndTheOldCacheIsNotRestoredFrom) {
  const Memory memory = {ValueOf(1, "step", 7)};
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply done = client.Checkpoint(1, memory);
  ASSERT_SAYS(done, local::OK, "");
  ASSERT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");

  // Written there in the background, which must not meet the removal.
  ASSERT_TRUE(harness_.Eventually(
      [&] { return harness_.IsThere(harness_.prefix_disk(), harness_.prefix() + "/.scr/flush.scr"); }));
  std::filesystem::remove_all(harness_.prefix());
  FakeClient later(harness_);
  ASSERT_SAYS(later.Open({.key = "job.2"}), local::OK, "");
  EXPECT_NE(later.run(), client.run());
  EXPECT_SAYS(later.Latest(), local::NOT_FOUND, "");
  Memory blank = Blank(memory);
  EXPECT_EQ(later.Restore(done.committed().dataset(), blank).code, local::NOT_FOUND);
  EXPECT_SAYS(client.Checkpoint(2, memory), local::FENCED, "");  // its run is history

  later.Drop();
  client.Drop();
  harness_.Restart();  // what it reads of the cache is the old run's, too
  FakeClient last(harness_);
  ASSERT_SAYS(last.Open({.key = "job.3"}), local::OK, "");
  EXPECT_EQ(last.run(), later.run());
  EXPECT_SAYS(last.Latest(), local::NOT_FOUND, "");
}

TEST_F(LaunchesTest, DatasetIdsAreNeverUsedAgain) {
  const Memory memory = {ValueOf(1, "step", 7)};
  DatasetId highest = 0;
  for (int daemon = 0; daemon < 3; ++daemon) {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = "job." + std::to_string(daemon)}), local::OK, "");
    for (std::uint64_t step = 1; step <= 40; ++step) {  // goes past the half of a block of ids
      const local::Reply done = client.Checkpoint(step, memory);
      ASSERT_SAYS(done, local::OK, "");
      EXPECT_GT(done.committed().dataset(), highest);
      highest = done.committed().dataset();
    }
    client.Drop();
    harness_.Restart();
  }
}

TEST_F(LaunchesTest, AnOpenThatCannotReachThePrefixSaysSo) {
  harness_.Write(harness_.prefix_disk(), harness_.root() + "/file", "no directory");
  FakeClient client(harness_);
  const local::Reply opened = client.Open({.prefix = harness_.root() + "/file/run"});
  EXPECT_NE(CodeOfReply(opened), local::OK);
  EXPECT_NE(opened.status().message().find(harness_.root() + "/file"), std::string::npos) << opened.status().message();
  EXPECT_SAYS(client.Open({}), local::OK, "");
}

}  // namespace
}  // namespace cairn
