// `cairn leave`: what would be missed if the node went now comes to the prefix, or is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/daemon/core/flush_fixture.h"
#include "tests/daemon/core/launch_over_nodes.h"
#include "tests/daemon/core/redundancy_fixture.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<DatasetId> OnlyHere(const admin::LeaveReply& reply) {
  EXPECT_EQ(reply.status().code(), local::OK) << reply.status().message();
  std::vector<DatasetId> ids;
  for (const admin::OnlyHere& one : reply.only_here()) ids.push_back(one.dataset());
  return ids;
}

class LeaveTest : public FlushFixture {
 protected:
  void SetUp() override { Start(); }
  void NoPrefix() { prefix_disk_.FailOn({.op = FakeOp::kWrite, .path_part = "ckpt.", .times = UINT64_MAX}); }
};

TEST_F(LeaveTest, WithoutAnythingTheNodeMayGo) {
  ASSERT_SAYS(client_->Close(), local::OK, "");
  EXPECT_THAT(OnlyHere(harness_.Leave()), IsEmpty());
}

TEST_F(LeaveTest, RanksAtWorkAreNamed) {
  const DatasetId id = Make(1);
  const admin::LeaveReply reply = harness_.Leave();
  EXPECT_EQ(reply.status().code(), local::FAILED_PRECONDITION);
  EXPECT_THAT(reply.status().message(), HasSubstr("ranks 0 of launch 1 are at work"));
  EXPECT_EQ(harness_.Row(id).level(), local::LOCAL);
}

// The node stays: a job has ended on it, and another of its user's may be at work in the same run.
TEST_F(LeaveTest, AtTheEndOfAJobItGoesToThePrefixWhileRanksAreAtWork) {
  const DatasetId first = Make(1), second = Make(2);
  EXPECT_THAT(OnlyHere(harness_.Leave(30000, /*to_prefix=*/true)), IsEmpty());
  EXPECT_EQ(harness_.Row(first).level(), local::LOCAL);
  EXPECT_EQ(harness_.Row(second).level(), local::PREFIX);
}

TEST_F(LeaveTest, TheNewestCheckpointGoesToThePrefixAndThoseBeforeItNeedNot) {
  const DatasetId first = Make(1), second = Make(2);
  ASSERT_SAYS(client_->Close(), local::OK, "");
  EXPECT_THAT(OnlyHere(harness_.Leave()), IsEmpty());
  EXPECT_EQ(harness_.Row(first).level(), local::LOCAL);
  EXPECT_EQ(harness_.Row(second).level(), local::PREFIX);
}

TEST_F(LeaveTest, APinnedOneGoesToo) {
  const DatasetId first = Make(1), second = Make(2);
  ASSERT_EQ(harness_.Pin(first, true).code(), local::OK);
  ASSERT_SAYS(client_->Close(), local::OK, "");
  EXPECT_THAT(OnlyHere(harness_.Leave()), IsEmpty());
  EXPECT_EQ(harness_.Row(first).level(), local::PREFIX);
  EXPECT_EQ(harness_.Row(second).level(), local::PREFIX);
}

TEST_F(LeaveTest, WhatCannotGoThereIsNamedWithTheReason) {
  Make(1);
  const DatasetId second = Make(2);
  ASSERT_SAYS(client_->Close(), local::OK, "");
  NoPrefix();
  const admin::LeaveReply reply = harness_.Leave(2000);
  EXPECT_THAT(OnlyHere(reply), ElementsAre(second));
  EXPECT_EQ(reply.only_here(0).step(), 2u);
  EXPECT_EQ(reply.only_here(0).prefix(), harness_.prefix());
  EXPECT_GE(reply.only_here(0).bytes(), 1'500'000u);
  EXPECT_THAT(reply.only_here(0).why(), HasSubstr("injected"));
}

// Ranks 0 and 2 are on node 0, the home; 1 and 3 on node 1.
class LeaveOverNodesTest : public LaunchOverNodesTest {
 protected:
  void SetUp() override {
    LaunchOverNodesTest::SetUp();
    ASSERT_NO_FATAL_FAILURE(Open("job.1"));
    id = Checkpoint(5);
    ASSERT_NE(id, 0u);
    for (const auto& client : clients) ASSERT_EQ(CodeOfReply(client->Wait(id, local::LOCAL)), local::OK);
  }
  // Node `node` is taken away, with its cache.
  void ExpectNothingIsLostWith(int node) {
    nodes[node].Kill();
    for (Rank rank = 0; rank < kRanks; ++rank) moved_to[rank] = 1 - node;
    ASSERT_NO_FATAL_FAILURE(Open("job.2"));
    for (Rank rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(clients[rank]->Latest().latest().dataset(), id) << rank;
    }
    std::vector<std::function<void()>> restores;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      restores.push_back([this, rank] {
        Memory memory = Blank(MemoryOf(rank, 5));
        EXPECT_EQ(clients[rank]->Restore(id, memory).code, local::OK) << rank;
        EXPECT_EQ(memory[0].bytes, MemoryOf(rank, 5)[0].bytes) << rank;
      });
    }
    nodes.Together(std::move(restores));
  }

  DatasetId id = 0;
};

TEST_F(LeaveOverNodesTest, RanksThatWorkByWayOfThisNodeAreNamed) {
  for (Rank rank : {0u, 2u}) ASSERT_EQ(CodeOfReply(clients[rank]->Close()), local::OK);
  EXPECT_THAT(nodes[0].Leave().status().message(), HasSubstr("ranks 1,3 of launch 1 are at work"));
}

TEST_F(LeaveOverNodesTest, ANodeThatHasPartsAsksTheHome) {
  Close();
  EXPECT_THAT(OnlyHere(nodes[1].Leave()), IsEmpty());
  ExpectNothingIsLostWith(1);
}

// While ranks are at work elsewhere; and what is ordered comes there although nobody stays.
TEST_F(LeaveOverNodesTest, AtTheEndOfAJobANodeThatHasPartsHasAllOfItBroughtToThePrefix) {
  for (Rank rank : {1u, 3u}) ASSERT_EQ(CodeOfReply(clients[rank]->Close()), local::OK);
  EXPECT_THAT(OnlyHere(nodes[1].Leave(std::chrono::milliseconds(1), /*to_prefix=*/true)), ElementsAre(id));
  EXPECT_THAT(OnlyHere(nodes[1].Leave(std::chrono::seconds(30), /*to_prefix=*/true)), IsEmpty());
  EXPECT_EQ(CodeOfReply(clients[0]->Wait(id, local::PREFIX)), local::OK);
}

TEST_F(LeaveOverNodesTest, TheHomeMayGoToo) {
  Close();
  EXPECT_THAT(OnlyHere(nodes[0].Leave()), IsEmpty());
  ExpectNothingIsLostWith(0);
}

TEST_F(LeaveOverNodesTest, WithoutTheHomeWhatItDecidesStaysMissed) {
  Close();
  nodes[0].Kill();
  const admin::LeaveReply reply = nodes[1].Leave();
  EXPECT_THAT(OnlyHere(reply), ElementsAre(id));
  EXPECT_THAT(reply.only_here(0).why(), HasSubstr("home"));
}

// Nobody tells it what has become of the dataset.
TEST_F(LeaveOverNodesTest, ANodeThatWasStartedAgainFindsOnThePrefixWhatAnotherBroughtThere) {
  Close();
  nodes[1].Kill();
  nodes[1].Start();
  nodes.Pass(std::chrono::minutes(1));  // it is a member again
  nodes[1].Leave();
  EXPECT_THAT(OnlyHere(nodes[1].Leave(std::chrono::seconds(2))), IsEmpty());
  ExpectNothingIsLostWith(1);
}

TEST_F(LeaveOverNodesTest, AnOlderOneOfWhichItHasPartsIsNotMissedOnceANewerOneIsOnThePrefix) {
  const DatasetId newer = Checkpoint(6);
  ASSERT_NE(newer, 0u);
  for (const auto& client : clients) ASSERT_EQ(CodeOfReply(client->Wait(newer, local::LOCAL)), local::OK);
  Close();
  nodes[1].Kill();
  nodes[1].Start();
  nodes.Pass(std::chrono::minutes(1));  // it is a member again, and knows of neither what others have
  EXPECT_THAT(OnlyHere(nodes[0].Leave()), IsEmpty());
  EXPECT_THAT(OnlyHere(nodes[1].Leave(std::chrono::seconds(2))), IsEmpty());
}

TEST_F(LeaveOverNodesTest, RanksThatComeMeanwhileAreNamed) {
  Close();
  nodes.prefix.FailOn({.op = FakeOp::kWrite, .path_part = "/ckpt.", .times = UINT64_MAX});
  const auto reply = nodes[0].AskToLeave(std::chrono::seconds(30));
  ASSERT_NO_FATAL_FAILURE(Open("job.2"));
  ASSERT_FALSE(reply->has_value());
  ASSERT_TRUE(nodes.AdvanceUntil([&reply] { return reply->has_value(); }));
  EXPECT_EQ((*reply)->status().code(), local::FAILED_PRECONDITION);
  EXPECT_THAT((*reply)->status().message(), HasSubstr("at work"));
}

// Nothing of a dataset can come to the prefix: only what others keep helps.
class LeaveRedundantTest : public RedundancyTest {
 protected:
  void NoPrefix() { nodes.prefix.FailOn({.op = FakeOp::kWrite, .path_part = "/ckpt.", .times = UINT64_MAX}); }
};

class LeaveSchemeTest : public LeaveRedundantTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(LeaveSchemeTest, WhatANodeHasIsMadeAnewAtTheHomeBefore) {
  Start(GetParam());
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Close();
  NoPrefix();
  EXPECT_THAT(OnlyHere(nodes[2].Leave()), IsEmpty());
  EXPECT_THAT(nodes[0].RanksInCache(id), ElementsAre(0, 2));
  EXPECT_THAT(OnlyHere(nodes[2].Leave()), IsEmpty()) << "it may be asked again";
  Lose({2});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  for (Rank rank = 0; rank < kMany; ++rank) {
    const bool made_anew = back.ranks[rank].tier == local::TIER_REBUILT;
    EXPECT_EQ(made_anew, rank == 2) << rank;
    EXPECT_NE(back.ranks[rank].tier, local::TIER_PREFIX) << rank;
  }
}
INSTANTIATE_TEST_SUITE_P(EachScheme, LeaveSchemeTest, ::testing::Values("partner", "xor", "rs"),
                         [](const auto& info) { return std::string(info.param); });

// What the node has kept for the others goes with it: they protect each other anew at once, and bear a further loss.
TEST_P(LeaveSchemeTest, WhatItHasKeptForOthersIsKeptAnewByThoseWhoStay) {
  Start(GetParam());
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Close();
  NoPrefix();
  EXPECT_THAT(OnlyHere(nodes[2].Leave()), IsEmpty());
  nodes.Pass(std::chrono::seconds(10));  // nobody asks for anything
  Lose({2, 3});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  for (Rank rank = 0; rank < kMany; ++rank) EXPECT_NE(back.ranks[rank].tier, local::TIER_PREFIX) << rank;
}

// The home hands over, too.
TEST_P(LeaveSchemeTest, WhatTheHomeHasIsMadeAnewOnAnotherNodeBefore) {
  Start(GetParam());
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Close();
  NoPrefix();
  EXPECT_THAT(OnlyHere(nodes[0].Leave()), IsEmpty());
  int with = 0;
  for (int node = 1; node < nodes.count(); ++node) {
    const std::vector<Rank> ranks = nodes[node].RanksInCache(id);
    with += std::ranges::count(ranks, 0u) > 0 ? 1 : 0;
  }
  EXPECT_EQ(with, 1);
  Lose({0});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  for (Rank rank = 0; rank < kMany; ++rank) EXPECT_NE(back.ranks[rank].tier, local::TIER_PREFIX) << rank;
  EXPECT_THAT(nodes[NodeOf(0)].Warnings(), Not(HasSubstr("are made anew"))) << "all parts were there";
}

TEST_F(LeaveRedundantTest, WithoutRoomAnywhereOnlyThePrefixSavesWhatTheHomeHas) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Close();
  NoPrefix();
  for (int node = 1; node < nodes.count(); ++node) {
    nodes[node].cache.FailOn({.op = FakeOp::kWrite, .path_part = "Rank0", .times = UINT64_MAX});
  }
  EXPECT_THAT(OnlyHere(nodes[0].Leave()), ElementsAre(id));
}

// Nobody may count on what could not be made anew: then the node's own parts do.
TEST_F(LeaveRedundantTest, WithoutRoomAtTheHomeTheNodeStays) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Close();
  NoPrefix();
  nodes[0].cache.FailOn({.op = FakeOp::kWrite, .path_part = "Rank2", .times = UINT64_MAX});
  EXPECT_THAT(OnlyHere(nodes[2].Leave()), ElementsAre(id));
  nodes[0].cache.ClearFaults();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_EQ(RestoreLatest().id, id);
}

}  // namespace
}  // namespace cairn
