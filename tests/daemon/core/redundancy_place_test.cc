// Where parts that no node has any more are made anew: on the node on which their rank runs now, else at the home.
// README.md of daemon/core, "Redundancy".
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "proto/peer.pb.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundancy_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class RedundancyPlaceTest : public RedundancyTest {
 protected:
  // The nodes that have the rank's checkpoint file.
  std::set<int> NodesWith(DatasetId id, Rank rank) {
    std::set<int> with;
    for (int i = 0; i < nodes.count(); ++i) {
      if (nodes[i].running() && !FindFile(nodes[i], id, fmt::format("Ckpt{}-Rank{}.fti", id, rank)).empty()) {
        with.insert(i);
      }
    }
    return with;
  }
  void ExpectBack(DatasetId id, Rank rebuilt) {
    const Back back = RestoreLatest();
    EXPECT_EQ(back.id, id);
    EXPECT_EQ(back.ranks[rebuilt].tier, local::TIER_REBUILT);
  }
};

class EachSchemeTest : public RedundancyPlaceTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(EachSchemeTest, ItIsTheRanksOwnNode) {
  Start(GetParam());
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Lose({1});
  moved_to[1] = 4;
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(id, 1);
  EXPECT_EQ(NodesWith(id, 1), std::set<int>({4}));
  // It counts there like any other part, also after a restart of that daemon.
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  Lose({1, 2});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  ExpectBack(id, 2);
  EXPECT_EQ(NodesWith(id, 1), std::set<int>({4}));
}

INSTANTIATE_TEST_SUITE_P(Schemes, EachSchemeTest, ::testing::Values("partner", "xor", "rs"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(RedundancyPlaceTest, OfTheHomesNodeItIsWhereItsRankHasGone) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Lose({0});
  moved_to[0] = 3;  // it comes first, so that its daemon is the next launch's home
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(id, 0);
  EXPECT_EQ(NodesWith(id, 0), std::set<int>({3}));
}

TEST_F(RedundancyPlaceTest, ANodeThatComesBackEmptyGetsItsOwnAgain) {
  Start("rs");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Lose({1, 4});
  for (const int node : {1, 4}) {
    ASSERT_OK(nodes[node].LoseParts(id));
    nodes[node].Start();
    moved_to[static_cast<Rank>(node)] = node;
  }
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(id, 1);
  EXPECT_EQ(NodesWith(id, 1), std::set<int>({1}));
  EXPECT_EQ(NodesWith(id, 4), std::set<int>({4}));
}

// An OK counts for the parts that it names.
TEST_F(RedundancyPlaceTest, WhatAnAnswerLeavesOutIsMadeAtTheHome) {
  Start("rs");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Lose({1, 2});
  moved_to[1] = moved_to[2] = 4;
  int changed = 0;
  nodes.network.on_send = [&changed](const std::string&, const std::string&, peer::Frame& frame) {
    if (!frame.has_carry()) return;
    for (peer::Carried& carried : *frame.mutable_carry()->mutable_carried()) {
      if (!carried.to_home().has_rebuilt()) continue;
      auto& by = *carried.mutable_to_home()->mutable_rebuilt()->mutable_by();
      for (int i = by.size(); i-- > 0;) {
        if (by[i].rank() != 2) continue;
        by.DeleteSubrange(i, 1);
        ++changed;
      }
    }
  };
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(id, 1);
  nodes.network.on_send = nullptr;
  EXPECT_EQ(changed, 1);
  EXPECT_EQ(NodesWith(id, 1), std::set<int>({4}));
  EXPECT_EQ(NodesWith(id, 2), std::set<int>({0, 4}));
  Lose({1, 2, 4});  // of which node 4 is not said to have rank 2's
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  EXPECT_EQ(RestoreLatest().id, id);
}

TEST_F(RedundancyPlaceTest, WithoutRoomThereItIsTheHome) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Lose({1});
  moved_to[1] = 4;
  nodes[4].cache.FailOn({.op = FakeOp::kWrite,
                         .path_part = "Rank1.fti",
                         .times = UINT64_MAX,
                         .status = absl::ResourceExhaustedError("no space left on device")});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(id, 1);
  EXPECT_EQ(NodesWith(id, 1), std::set<int>({0}));
}

TEST_F(RedundancyPlaceTest, ARankThatDoesNotComeHoldsUpNobody) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Lose({1});
  const auto before = nodes.now();
  for (const Rank rank : {0, 2, 3}) {
    clients.push_back(std::make_unique<FakeClient>(nodes[NodeOf(rank)]));
    ASSERT_EQ(CodeOfReply(clients.back()->Open({.rank = rank, .nranks = kMany, .key = "job.2"})), local::OK);
  }
  const local::Reply latest = clients[0]->Latest();
  EXPECT_EQ(latest.latest().dataset(), id) << latest.status().message();
  EXPECT_LT(nodes.now() - before, std::chrono::seconds(12));
  EXPECT_EQ(NodesWith(id, 1), std::set<int>({0}));
}

// The first has begun, and its ranks were waited for, when the second one comes.
TEST_F(RedundancyPlaceTest, OfTwoLaunchesOneAfterTheOtherTheSecondHasItToo) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Lose({1});
  clients.push_back(std::make_unique<FakeClient>(nodes[0]));
  ASSERT_EQ(CodeOfReply(clients[0]->Open({.rank = 0, .nranks = kMany, .key = "job.2"})), local::OK);
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  ExpectBack(id, 1);
}

TEST_F(RedundancyPlaceTest, WhatCanBeMadeNowhereGivesWayToTheOneBefore) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId older = Redundant(5);
  const DatasetId newer = Redundant(6);
  Lose({1});
  for (int i = 0; i < nodes.count(); ++i) {
    nodes[i].cache.FailOn({.op = FakeOp::kWrite,
                           .path_part = fmt::format("Ckpt{}-Rank1.fti", newer),
                           .times = UINT64_MAX,
                           .status = absl::ResourceExhaustedError("no space left on device")});
  }
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(older, 1);
}

// Nobody has to wait for ranks whose parts are all there.
TEST_F(RedundancyPlaceTest, WithoutLossesNobodyWaitsForRanks) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Close();
  clients.push_back(std::make_unique<FakeClient>(nodes[0]));
  ASSERT_EQ(CodeOfReply(clients[0]->Open({.rank = 0, .nranks = kMany, .key = "job.2"})), local::OK);
  const auto before = nodes.now();
  EXPECT_EQ(clients[0]->Latest().latest().dataset(), id);
  EXPECT_LT(nodes.now() - before, std::chrono::seconds(1));
}

}  // namespace
}  // namespace cairn
