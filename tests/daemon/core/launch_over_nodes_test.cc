// Launches whose ranks are served by the daemons of several nodes: README.md of daemon/core, "A launch over nodes".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/launch_over_nodes.h"
#include "tests/daemon/core/simulated_nodes.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(LaunchOverNodesTest, ACheckpointIsLocalWhenEachNodeHasItsParts) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Checkpoint(5);
  ASSERT_NE(id, 0u);
  for (const auto& client : clients) EXPECT_EQ(CodeOfReply(client->Wait(id, local::LOCAL)), local::OK);
  EXPECT_THAT(nodes[0].RanksInCache(id), ElementsAre(0, 2));
  EXPECT_THAT(nodes[1].RanksInCache(id), ElementsAre(1, 3));
  for (int i : {0, 1}) {
    const admin::StatusReply status = nodes[i].Status();
    ASSERT_EQ(status.runs_size(), 1);
    ASSERT_EQ(status.runs(0).nodes_size(), 2);
    for (const admin::NodeAnswer& node : status.runs(0).nodes()) EXPECT_EQ(node.datasets(), 1u) << node.DebugString();
  }
  Close();
}

TEST_F(LaunchOverNodesTest, ItIsCommittedOnceWithTheBytesOfAllRanks) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Checkpoint(5);
  ASSERT_NE(id, 0u);
  for (const auto& client : clients) {
    const local::Reply reached = client->Wait(id, local::PREFIX);
    EXPECT_EQ(CodeOfReply(reached), local::OK) << reached.status().message();
  }
  const auto prefix = Prefix::OpenReadOnly(nodes.prefix, SimulatedNodes::kPrefix);
  ASSERT_OK(prefix.status());
  const auto contents = (*prefix)->Contents();
  ASSERT_OK(contents.status());
  ASSERT_TRUE(contents->datasets.contains(id));
  EXPECT_EQ(contents->datasets.at(id).descriptor.ranks, kRanks);
  const auto catalogues = (*prefix)->Catalogues(id);
  ASSERT_OK(catalogues.status());
  ASSERT_EQ(catalogues->size(), kRanks);
  for (const catalogue::Catalogue& catalogue : *catalogues) {
    ASSERT_EQ(catalogue.file_size(), 1);
    EXPECT_OK(VerifyFile(nodes.prefix, (*prefix)->FilePath(catalogue.file(0).prefix_name()), catalogue.file(0)));
  }
  Close();
}

TEST_F(LaunchOverNodesTest, TheNextLaunchRestoresEachRankFromItsOwnNode) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Checkpoint(5);
  ASSERT_NE(id, 0u);
  ASSERT_EQ(CodeOfReply(clients[1]->Wait(id, local::LOCAL)), local::OK);
  Close();
  ASSERT_NO_FATAL_FAILURE(Open("job.2"));
  ExpectRestored(id, 5, local::TIER_IMAGE, local::TIER_PARTNER);
  const DatasetId next = Checkpoint(6);
  EXPECT_GT(next, id);
  EXPECT_EQ(CodeOfReply(clients[3]->Wait(next, local::LOCAL)), local::OK);
  Close();
}

TEST_F(LaunchOverNodesTest, ARankThatIsLostFailsTheDatasetOnAllNodesAndTheNextOneWorks) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const local::Reply begun = clients[0]->Begin(5, MemoryOf(0, 5));
  ASSERT_EQ(CodeOfReply(begun), local::OK);
  const DatasetId id = begun.begin().dataset();
  for (Rank rank : {1u, 2u}) {
    ASSERT_EQ(CodeOfReply(clients[rank]->Checkpoint(5, MemoryOf(rank, 5))), local::OK);
  }
  const std::uint64_t waiting = clients[1]->SendWait(id, local::LOCAL);
  clients[3]->Drop();
  EXPECT_SAYS(clients[1]->Next(waiting), local::FAILED, "rank 3 was lost before its bytes were captured");
  EXPECT_NE(CodeOfReply(clients[0]->Commit()), local::OK);
  EXPECT_THAT(nodes[1].RanksInCache(id), IsEmpty());
}

TEST_F(LaunchOverNodesTest, RanksThatDisagreeFailItWhereverTheyAre) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  Memory other = MemoryOf(1, 5);
  other[1] = ValueOf(2, "another name", 5);
  ASSERT_EQ(CodeOfReply(clients[0]->Begin(5, MemoryOf(0, 5))), local::OK);
  EXPECT_SAYS(clients[1]->Begin(5, other), local::FAILED, "another name");
  EXPECT_SAYS(clients[0]->Commit(), local::FAILED, "another name");
  EXPECT_NE(Checkpoint(6), 0u);
}

TEST_F(LaunchOverNodesTest, QuestionsOfAllRanksHaveOneAnswer) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  local::Request ask;
  ask.mutable_need_checkpoint()->set_number(1);
  const bool first = clients[1]->Ask(ask).need_checkpoint().yes();
  for (Rank rank : {0u, 2u, 3u}) EXPECT_EQ(clients[rank]->Ask(ask).need_checkpoint().yes(), first);
  Close();
}

// What was begun is lost with the daemon that had a part of it; what was whole stays.
TEST_F(LaunchOverNodesTest, ADaemonThatIsStartedAgainGoesOnWithItsRanks) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId whole = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(whole, local::LOCAL)), local::OK);
  const local::Reply begun = clients[0]->Begin(6, MemoryOf(0, 6));
  ASSERT_EQ(CodeOfReply(begun), local::OK);
  ASSERT_EQ(CodeOfReply(clients[1]->Checkpoint(6, MemoryOf(1, 6))), local::OK);
  const std::uint64_t waiting = clients[0]->SendWait(begun.begin().dataset(), local::LOCAL);
  KillNode(1);
  nodes[1].Start();
  for (Rank rank : {1u, 3u}) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  // Whether the home had heard of rank 1's part or not.
  EXPECT_SAYS(clients[0]->Next(waiting), local::FAILED, "rank 1");
  EXPECT_NE(CodeOfReply(clients[0]->Commit()), local::OK);
  const DatasetId next = Checkpoint(7);
  ASSERT_NE(next, 0u);
  EXPECT_EQ(CodeOfReply(clients[1]->Wait(next, local::LOCAL)), local::OK);
  EXPECT_EQ(CodeOfReply(clients[1]->Wait(whole, local::PREFIX)), local::OK);
  Close();
}

TEST_F(LaunchOverNodesTest, TheHomeThatIsStartedAgainFindsWhatTheOthersHave) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId whole = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(whole, local::LOCAL)), local::OK);
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes[0].Start();
  for (Rank rank = 0; rank < kRanks; ++rank) {
    // Before ranks of the other node have brought its daemon's word.
    if (rank == 1) {
      EXPECT_SAYS(clients[0]->Test(whole, local::LOCAL), local::UNAVAILABLE, "have not come back");
    }
    ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  }
  EXPECT_EQ(CodeOfReply(clients[3]->Wait(whole, local::LOCAL)), local::OK);
  EXPECT_EQ(CodeOfReply(clients[3]->Wait(whole, local::PREFIX)), local::OK);
  const DatasetId next = Checkpoint(6);
  EXPECT_EQ(CodeOfReply(clients[1]->Wait(next, local::LOCAL)), local::OK);
  Close();
}

TEST_F(LaunchOverNodesTest, WhatLeavesTheHomesCacheLeavesTheOthers) {
  nodes[0].Kill();
  nodes[0].config.cache.keep = 0;
  nodes[0].Start();
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId first = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(first, local::LOCAL)), local::OK);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(Checkpoint(6), local::LOCAL)), local::OK);  // its files are a spare
  const DatasetId second = Checkpoint(7);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(second, local::LOCAL)), local::OK);
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_THAT(nodes[0].RanksInCache(first), IsEmpty());
  EXPECT_THAT(nodes[1].RanksInCache(first), IsEmpty());
  EXPECT_THAT(nodes[1].RanksInCache(second), ElementsAre(1, 3));
  Close();
}

TEST_F(LaunchOverNodesTest, AStopMakesWholeWhatIsCaptured) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Checkpoint(5);
  ASSERT_NE(id, 0u);
  nodes.network.Block(nodes[0].address(), nodes[1].address());  // the order to note it is on its way
  nodes.Pass(std::chrono::milliseconds(100));
  ASSERT_EQ(clients[0]->Test(id, local::CAPTURED).test().reached(), true);
  const auto ended = nodes[0].Quiesce();
  nodes.Pass(std::chrono::milliseconds(100));
  EXPECT_FALSE(ended->has_value());
  nodes.network.UnblockAll();
  ASSERT_TRUE(nodes.AdvanceUntil([ended] { return ended->has_value(); }));
  EXPECT_TRUE(**ended);
  EXPECT_THAT(nodes[0].RanksInCache(id), ElementsAre(0, 2));
  EXPECT_THAT(nodes[1].RanksInCache(id), ElementsAre(1, 3));
}

// As one whose daemon is just started again.
TEST_F(LaunchOverNodesTest, ANodeWhoseFilesCannotBeReadForAMomentIsWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[1]->Wait(id, local::LOCAL)), local::OK);
  Close();
  ASSERT_NO_FATAL_FAILURE(Open("job.2"));
  const auto served = nodes.files.served;
  nodes.files.served.clear();
  nodes.loop().After(std::chrono::seconds(2), [&] { nodes.files.served = served; });
  ExpectRestored(id, 5, local::TIER_IMAGE, local::TIER_PARTNER);
  Close();
}

TEST_F(LaunchOverNodesTest, ANodeWhoseFilesCannotBeReadAnyMoreIsNotWaitedForForLong) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[1]->Wait(id, local::LOCAL)), local::OK);
  Close();
  ASSERT_NO_FATAL_FAILURE(Open("job.2"));
  nodes.files.served.clear();
  const auto start = nodes.now();
  std::vector<std::function<void()>> restores;
  std::vector<FakeClient::Restored> restored(clients.size());
  std::vector<Memory> memory;
  for (Rank rank = 0; rank < clients.size(); ++rank) {
    memory.push_back(Blank(MemoryOf(rank, 5)));
    EXPECT_EQ(clients[rank]->Latest().latest().dataset(), id);
  }
  for (Rank rank = 0; rank < clients.size(); ++rank) {
    restores.push_back([&, rank] { restored[rank] = clients[rank]->Restore(id, memory[rank]); });
  }
  nodes.Together(std::move(restores));
  for (const FakeClient::Restored& one : restored) EXPECT_EQ(one.code, local::RETRY) << one.message;
  EXPECT_LT(nodes.now() - start, std::chrono::seconds(8));
}

TEST_F(LaunchOverNodesTest, WhatTheHomeDecidesCanBeCommandedOnAnyNode) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[1]->Wait(id, local::LOCAL)), local::OK);
  EXPECT_EQ(nodes[1].Pin(id).code(), local::OK);
  EXPECT_TRUE(nodes[0].IsPinned(id));
  EXPECT_EQ(nodes[1].Flush(id).code(), local::OK);
  EXPECT_EQ(CodeOfReply(clients[1]->Wait(id, local::PREFIX)), local::OK);
  const local::Status still_pinned = nodes[1].Remove(id);
  EXPECT_EQ(still_pinned.code(), local::FAILED_PRECONDITION);
  EXPECT_THAT(still_pinned.message(), HasSubstr("unpin it first"));
  EXPECT_EQ(nodes[1].Pin(id, false).code(), local::OK);
  EXPECT_FALSE(nodes[0].IsPinned(id));
  EXPECT_EQ(nodes[1].Remove(id).code(), local::OK);
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_THAT(nodes[0].RanksInCache(id), IsEmpty());
  EXPECT_THAT(nodes[1].RanksInCache(id), IsEmpty());
  EXPECT_EQ(CodeOfReply(clients[0]->Latest()), local::NOT_FOUND);
}

TEST_F(LaunchOverNodesTest, ACommandThatTheHomeDoesNotHearIsRefusedAndNamesIt) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[1]->Wait(id, local::LOCAL)), local::OK);
  nodes.network.Block(nodes[1].address(), nodes[0].address());
  for (const local::Status& refused : {nodes[1].Pin(id), nodes[1].Flush(id), nodes[1].Remove(id)}) {
    EXPECT_NE(refused.code(), local::OK);
    EXPECT_THAT(refused.message(), HasSubstr("the daemon on n1"));
  }
  EXPECT_THAT(nodes[1].RanksInCache(id), ElementsAre(1, 3));
}

// Its flush has failed once and waits for the next try, when a node comes again without its part.
TEST_F(LaunchOverNodesTest, WhatHasLostAPartIsNotCommitted) {
  nodes.prefix.FailOn(
      {.op = FakeOp::kAny, .path_part = "-Rank2.fti", .times = 1'000'000, .status = ResourceExhausted("no room")});
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(id, local::LOCAL)), local::OK);
  const std::uint64_t waiting = clients[0]->SendWait(id, local::PREFIX);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return nodes[0].Warnings().find("next try in") != std::string::npos; }));
  KillNode(1);
  ASSERT_OK(nodes[1].LoseParts(id));
  nodes[1].Start();
  for (Rank rank : {1u, 3u}) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  nodes.prefix.ClearFaults();
  nodes.Pass(std::chrono::minutes(5));
  EXPECT_TRUE(!clients[0]->HasReply(waiting) || CodeOfReply(clients[0]->Next(waiting)) != local::OK);
  const auto prefix = Prefix::OpenReadOnly(nodes.prefix, SimulatedNodes::kPrefix);
  ASSERT_OK(prefix.status());
  EXPECT_FALSE((*prefix)->Contents()->datasets.contains(id));
  const DatasetId next = Checkpoint(6);
  EXPECT_EQ(CodeOfReply(clients[0]->Wait(next, local::PREFIX)), local::OK);
}

TEST_F(LaunchOverNodesTest, AKeyOfALaunchThatIsOverMakesANewOneWhereverItIsOpened) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const LaunchId first = clients[0]->launch();
  Close();
  nodes.Pass(std::chrono::seconds(1));
  FakeClient client(nodes[1]);
  ASSERT_EQ(CodeOfReply(client.Open({.rank = 0, .nranks = 1, .key = "job.1"})), local::OK);
  EXPECT_GT(client.launch(), first);
}

class CoordinatorOfMembersTest : public LaunchOverNodesTest {
 protected:
  CoordinatorOfMembersTest() : LaunchOverNodesTest(3) {}
  bool Coordinates(int node) {
    const auto coordinates = std::make_shared<bool>(false);
    nodes[node].core().Nodes({}, [coordinates](const absl::StatusOr<admin::NodesReply>& reply) {
      *coordinates = reply.ok() && reply->runs_size() == 1 && reply->runs(0).coordinator() == OwnRow(*reply).node();
    });
    nodes.Pass(std::chrono::milliseconds(100));
    return *coordinates;
  }
  static admin::NodeRow OwnRow(const admin::NodesReply& reply) {
    for (const admin::NodeRow& row : reply.runs(0).nodes()) {
      if (row.here()) return row;
    }
    return {};
  }
};

// The members choose another one, or the next life of this one, which counts them as missing until they have joined.
// The launch has nothing to do with that.
class CoordinatorsDeathTest : public CoordinatorOfMembersTest, public ::testing::WithParamInterface<bool> {};

TEST_P(CoordinatorsDeathTest, EndsNoLinkBetweenOthers) {
  FakeClient first(nodes[2]);
  ASSERT_EQ(CodeOfReply(first.Open({.rank = 0, .nranks = 1, .key = "job.0"})), local::OK);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return Coordinates(2); }));
  ASSERT_EQ(CodeOfReply(first.Close()), local::OK);
  moved_to = {{2, 0}, {3, 1}};
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  ASSERT_EQ(CodeOfReply(clients[1]->Wait(Checkpoint(1), local::LOCAL)), local::OK);
  first.HostDied();
  nodes[2].Kill();
  const bool comes_back = GetParam();
  if (comes_back) nodes[2].Start();
  nodes.Pass(std::chrono::minutes(2));
  EXPECT_TRUE(Coordinates(0) || Coordinates(1) || (comes_back && Coordinates(2)));
  for (Rank rank = 0; rank < kRanks; ++rank) EXPECT_FALSE(clients[rank]->closed()) << rank;
  EXPECT_EQ(CodeOfReply(clients[1]->Wait(Checkpoint(2), local::PREFIX)), local::OK);
}

INSTANTIATE_TEST_SUITE_P(ForGoodAndWithANextLife, CoordinatorsDeathTest, ::testing::Bool());

}  // namespace
}  // namespace cairn
