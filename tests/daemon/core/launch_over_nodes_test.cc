// Launches whose ranks are served by the daemons of several nodes: README.md of daemon/core, "A launch over nodes".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/simulated_nodes.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t kRanks = 4;
constexpr std::uint64_t kOneAndAHalf = 45'000;  // bytes of a node's parts of so many datasets

Memory MemoryOf(Rank rank, std::uint64_t step, std::size_t bytes = 10'000) {
  return {PlainOf(1, RandomBytes(1000 * step + rank, bytes + 100 * rank)), ValueOf(2, "step", step)};
}

// Rank r runs on node r % 2.
class LaunchOverNodesTest : public ::testing::Test {
 protected:
  void SetUp() override { nodes.StartAll(); }
  void TearDown() override { clients.clear(); }

  static int NodeOf(Rank rank) { return static_cast<int>(rank % 2); }
  void Open(const std::string& key, std::uint32_t nranks = kRanks) {
    clients.clear();
    for (Rank rank = 0; rank < nranks; ++rank) {
      clients.push_back(std::make_unique<FakeClient>(nodes[NodeOf(rank)]));
      const local::Reply opened = clients[rank]->Open({.rank = rank, .nranks = nranks, .key = key});
      ASSERT_EQ(CodeOfReply(opened), local::OK) << rank << ": " << opened.status().message();
      EXPECT_EQ(clients[rank]->launch(), clients[0]->launch());
    }
  }
  void Close() {
    for (const auto& client : clients) EXPECT_EQ(CodeOfReply(client->Close()), local::OK);
    clients.clear();
  }
  // All ranks; the dataset, or 0.
  DatasetId Checkpoint(std::uint64_t step) {
    DatasetId id = 0;
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      const local::Reply committed = clients[rank]->Checkpoint(step, MemoryOf(rank, step));
      EXPECT_EQ(CodeOfReply(committed), local::OK) << rank << ": " << committed.status().message();
      if (CodeOfReply(committed) != local::OK) return 0;
      EXPECT_TRUE(rank == 0 || committed.committed().dataset() == id);
      id = committed.committed().dataset();
    }
    return id;
  }
  // All connections to the node's daemon are gone; where it is the home, those of the other's ranks, too.
  void KillNode(int node) {
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      if (!clients[rank]) continue;
      launch = clients[rank]->launch();
      tokens[rank] = clients[rank]->token();
    }
    nodes[node].Kill();
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      if (NodeOf(rank) == node) clients[rank] = nullptr;
    }
    nodes[node].cache.Restart(3);
    if (node != 0) return;
    ASSERT_TRUE(nodes.AdvanceUntil([this] {
      return std::ranges::all_of(clients, [](const auto& client) { return !client || client->closed(); });
    })) << "their clients are to come again";
  }
  void ComeAgain(Rank rank) {
    clients[rank] = std::make_unique<FakeClient>(nodes[NodeOf(rank)]);
    const local::Reply opened = clients[rank]->Open({.rank = rank,
                                                     .nranks = static_cast<std::uint32_t>(clients.size()),
                                                     .key = "",
                                                     .launch = launch,
                                                     .token = tokens[rank]});
    ASSERT_EQ(CodeOfReply(opened), local::OK) << rank << ": " << opened.status().message();
  }
  // `near`: what serves ranks of the home. The step is a value, which comes from rank 0's file.
  void ExpectRestored(DatasetId id, std::uint64_t step, local::Tier near, local::Tier far) {
    std::vector<Memory> memory;
    std::vector<std::function<void()>> restores;
    std::vector<FakeClient::Restored> restored(clients.size());
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      memory.push_back(Blank(MemoryOf(rank, step)));
      const local::Reply latest = clients[rank]->Latest();
      ASSERT_EQ(CodeOfReply(latest), local::OK) << latest.status().message();
      EXPECT_EQ(latest.latest().dataset(), id);
      EXPECT_EQ(latest.latest().step(), step);
    }
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      restores.push_back([&, rank] { restored[rank] = clients[rank]->Restore(id, memory[rank]); });
    }
    nodes.Together(std::move(restores));
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      EXPECT_EQ(restored[rank].code, local::OK) << rank << ": " << restored[rank].message;
      EXPECT_EQ(restored[rank].tier, NodeOf(rank) == 0 ? near : far) << rank;
      const Memory wanted = MemoryOf(rank, step);
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(memory[rank][i].bytes, wanted[i].bytes) << rank;
    }
  }

  SimulatedNodes nodes{7, 2};
  std::vector<std::unique_ptr<FakeClient>> clients;
  LaunchId launch = 0;
  std::map<Rank, std::string> tokens;
};

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
  EXPECT_SAYS(clients[0]->Next(waiting), local::FAILED, "has lost the part of rank 1");
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

// An older launch's, of which each node has a part: no rank's return speaks of it.
TEST_F(LaunchOverNodesTest, TheHomeThatIsStartedAgainFindsWhatAnOlderLaunchHasLeftInParts) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId whole = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(whole, local::LOCAL)), local::OK);
  Close();
  ASSERT_NO_FATAL_FAILURE(Open("job.2"));
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes[0].Start();
  for (Rank rank = 0; rank < kRanks; ++rank) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  ExpectRestored(whole, 5, local::TIER_CACHE, local::TIER_PARTNER);
  EXPECT_EQ(CodeOfReply(clients[3]->Wait(whole, local::PREFIX)), local::OK);
  Close();
}

// Before the others are back it is not known whether it can be restored, so nobody hears that it cannot.
TEST_F(LaunchOverNodesTest, WhoAsksAHomeThatWasJustStartedWaitsForTheOthers) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId whole = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(whole, local::LOCAL)), local::OK);
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes[0].Start();
  ASSERT_NO_FATAL_FAILURE(ComeAgain(0));
  const local::Reply latest = clients[0]->Latest();
  EXPECT_EQ(CodeOfReply(latest), local::OK) << latest.status().message();
  EXPECT_EQ(latest.latest().dataset(), whole);
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes[0].Start();
  ASSERT_NO_FATAL_FAILURE(ComeAgain(0));
  Memory memory = Blank(MemoryOf(0, 5));
  const std::uint64_t restoring = clients[0]->SendRestore(whole, memory);
  for (Rank rank : {1u, 2u, 3u}) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  std::vector<FakeClient::Restored> restored(kRanks);
  std::vector<std::function<void()>> all = {[&] { restored[0] = clients[0]->TakeRestore(restoring, memory); }};
  for (Rank rank : {1u, 2u, 3u}) {
    all.push_back([&, rank] {
      Memory own = Blank(MemoryOf(rank, 5));
      restored[rank] = clients[rank]->Restore(whole, own);
    });
  }
  nodes.Together(std::move(all));
  for (const FakeClient::Restored& one : restored) EXPECT_EQ(one.code, local::OK) << one.message;
}

// It is not there. That is said after the time that others have to come, not before, and not never.
TEST_F(LaunchOverNodesTest, AHomeThatWasJustStartedDoesNotWaitForeverForTheOthers) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId whole = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(whole, local::LOCAL)), local::OK);
  nodes[1].Kill();
  for (Rank rank : {1u, 3u}) clients[rank]->HostDied();
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes[0].Start();
  ASSERT_NO_FATAL_FAILURE(ComeAgain(0));
  const auto begun = nodes.now();
  const std::uint64_t rejecting = clients[0]->SendReject(whole, 60'000);
  EXPECT_SAYS(clients[0]->Latest(60'000), local::NOT_FOUND, "no checkpoint");
  EXPECT_GT(nodes.now() - begun, std::chrono::seconds(9));
  EXPECT_LT(nodes.now() - begun, std::chrono::seconds(20));
  EXPECT_NE(CodeOfReply(clients[0]->Next(rejecting)), local::OK);
}

TEST_F(LaunchOverNodesTest, AHomeThatIsStoppedWhileItLooksAnswersThoseWhoWait) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(Checkpoint(5), local::LOCAL)), local::OK);
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes[0].Start();
  ASSERT_NO_FATAL_FAILURE(ComeAgain(0));
  local::Request latest;
  latest.mutable_latest();
  latest.set_deadline_ms(500'000);
  const std::uint64_t asked = clients[0]->Send(latest);
  nodes[0].Quiesce();
  EXPECT_SAYS(clients[0]->Next(asked), local::UNAVAILABLE, "going away");
}

// The home has no part of it, and knew of it by other nodes' words only.
TEST_F(LaunchOverNodesTest, AHomeThatIsStartedAgainFindsWhatOnlyOthersHaveInParts) {
  SimulatedNodes three{9, 3};
  three.StartAll();
  std::vector<std::unique_ptr<FakeClient>> ranks;
  const auto open = [&](const std::string& key, std::vector<int> at) {
    ranks.clear();
    for (Rank rank = 0; rank < at.size(); ++rank) {
      ranks.push_back(std::make_unique<FakeClient>(three[at[rank]]));
      ASSERT_EQ(
          CodeOfReply(ranks[rank]->Open({.rank = rank, .nranks = static_cast<std::uint32_t>(at.size()), .key = key})),
          local::OK);
    }
  };
  ASSERT_NO_FATAL_FAILURE(open("job.1", {1, 2}));
  DatasetId id = 0;
  for (Rank rank : {0u, 1u}) id = ranks[rank]->Checkpoint(5, MemoryOf(rank, 5)).committed().dataset();
  ASSERT_EQ(CodeOfReply(ranks[0]->Wait(id, local::LOCAL)), local::OK);
  for (const auto& rank : ranks) ASSERT_EQ(CodeOfReply(rank->Close()), local::OK);
  ASSERT_NO_FATAL_FAILURE(open("job.2", {0, 0}));
  EXPECT_THAT(three[0].RanksInCache(id), IsEmpty());
  EXPECT_EQ(ranks[0]->Latest().latest().dataset(), id);
  std::vector<std::string> secrets = {ranks[0]->token(), ranks[1]->token()};
  const LaunchId second = ranks[0]->launch();
  three[0].Kill();
  for (const auto& rank : ranks) rank->HostDied();
  three[0].Start();
  for (Rank rank : {0u, 1u}) {
    ranks[rank] = std::make_unique<FakeClient>(three[0]);
    const OpenSpec again{.rank = rank, .nranks = 2, .key = "", .launch = second, .token = secrets[rank]};
    ASSERT_EQ(CodeOfReply(ranks[rank]->Open(again)), local::OK);
  }
  const local::Reply latest = ranks[1]->Latest();
  EXPECT_EQ(CodeOfReply(latest), local::OK) << latest.status().message();
  EXPECT_EQ(latest.latest().dataset(), id);
  ranks.clear();
}

TEST_F(LaunchOverNodesTest, ALongListOfPartsGoesByAsMuchAsTheHomeHasTakenIn) {
  std::vector<std::string> said;  // of parts, in order
  nodes.network.on_send = [&said](const std::string&, const std::string&, const peer::Frame& frame) {
    if (frame.to_home().has_parts()) said.push_back(frame.to_home().parts().more() ? "more" : "last");
    if (frame.from_home().has_parts_heard()) said.push_back("heard");
  };
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  std::vector<Memory> memory(kRanks);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    const int variables = NodeOf(rank) == 1 ? 1200 : 1;  // each has a long name in the catalogue
    for (int i = 1; i <= variables; ++i) memory[rank].push_back(ValueOf(i, std::string(900, 'a' + i % 26), i));
  }
  DatasetId id = 0;
  for (std::uint64_t step : {5, 6}) {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const local::Reply committed = clients[rank]->Checkpoint(step, memory[rank]);
      ASSERT_EQ(CodeOfReply(committed), local::OK) << committed.status().message();
      id = committed.committed().dataset();
    }
    ASSERT_EQ(CodeOfReply(clients[0]->Wait(id, local::LOCAL)), local::OK);
  }
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  said.clear();
  nodes[0].Start();
  for (Rank rank = 0; rank < kRanks; ++rank) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  nodes.network.on_send = nullptr;
  EXPECT_THAT(said, ElementsAre("more", "heard", "more", "heard", "more", "heard", "last"));
  EXPECT_EQ(CodeOfReply(clients[1]->Wait(id, local::LOCAL)), local::OK);
}

// Each cache has room for its parts of one dataset and a half.
TEST_F(LaunchOverNodesTest, ABeginWaitsForTheRoomThatAFlushMakes) {
  for (int node : {0, 1}) {
    nodes[node].Kill();
    nodes[node].config.cache.bytes_max = kOneAndAHalf;
    nodes[node].config.flush.every = 1;
    nodes[node].Start();
  }
  std::uint64_t step = 0;
  for (const char* const key : {"job.1", "job.2"}) {  // the second finds parts of the first in its caches
    ASSERT_NO_FATAL_FAILURE(Open(key));
    for (const std::uint64_t last = step + 4; step < last;) {
      const DatasetId id = Checkpoint(++step);
      ASSERT_NE(id, 0u) << step;
      EXPECT_EQ(CodeOfReply(clients[step % kRanks]->Wait(id, local::LOCAL)), local::OK);
    }
    Close();
  }
}

// The prefix takes nothing: the room does not come in time, on the node that lacks it; the others are told.
class RoomInTimeTest : public LaunchOverNodesTest, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Nodes, RoomInTimeTest, ::testing::Values(0, 1));

TEST_P(RoomInTimeTest, WhatDoesNotComeInTimeFailsTheDatasetForAll) {
  const int small = GetParam();
  for (int node : {0, 1}) {
    nodes[node].Kill();
    nodes[node].config.cache.bytes_max = node == small ? kOneAndAHalf : 1 << 30;
    nodes[node].config.flush.every = 1;
    nodes[node].Start();
  }
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  nodes.prefix.FailOn({.op = FakeOp::kAny, .path_part = "ckpt.", .times = 1'000'000, .status = Unavailable("away")});
  const DatasetId first = Checkpoint(1);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(first, local::LOCAL)), local::OK);
  const Rank lacks = small == 1 ? 1 : 2, has = small == 1 ? 0 : 1;
  const local::Reply handed_over = clients[has]->Checkpoint(2, MemoryOf(has, 2));
  ASSERT_EQ(CodeOfReply(handed_over), local::OK);
  const std::uint64_t waiting = clients[has]->SendWait(handed_over.committed().dataset(), local::LOCAL);
  const std::uint64_t beginning = clients[lacks]->SendBegin(2, MemoryOf(lacks, 2), 5'000);
  EXPECT_NE(CodeOfReply(clients[lacks]->TakeBegin(beginning)), local::OK);
  EXPECT_SAYS(clients[has]->Next(waiting), local::FAILED, "is full");
  nodes.prefix.ClearFaults();
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(first, local::PREFIX)), local::OK);
  ASSERT_NE(Checkpoint(3), 0u);
  Close();
}

TEST_F(LaunchOverNodesTest, RoomThatNoFlushMakesIsNotWaitedFor) {
  nodes[1].Kill();
  nodes[1].config.cache.bytes_max = kOneAndAHalf;
  nodes[1].Start();
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));  // nothing is flushed
  const DatasetId id = Checkpoint(1);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(id, local::LOCAL)), local::OK);
  ASSERT_EQ(CodeOfReply(clients[0]->Begin(2, MemoryOf(0, 2))), local::OK);
  EXPECT_SAYS(clients[1]->Begin(2, MemoryOf(1, 2)), local::RESOURCE_EXHAUSTED, "is full");
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

TEST_F(LaunchOverNodesTest, WhatTheHomeDecidesIsAskedThere) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Checkpoint(5);
  ASSERT_EQ(CodeOfReply(clients[1]->Wait(id, local::LOCAL)), local::OK);
  for (const local::Status& refused : {nodes[1].Pin(id), nodes[1].Flush(id), nodes[1].Remove(id)}) {
    EXPECT_EQ(refused.code(), local::FAILED_PRECONDITION);
    EXPECT_THAT(refused.message(), HasSubstr("the daemon on n1"));
  }
  EXPECT_THAT(nodes[1].RanksInCache(id), ElementsAre(1, 3));
  EXPECT_EQ(nodes[0].Pin(id).code(), local::OK);
  EXPECT_EQ(nodes[0].Flush(id).code(), local::OK);
  EXPECT_EQ(CodeOfReply(clients[1]->Wait(id, local::PREFIX)), local::OK);
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

// Its node is gone, with ranks and lease. The lease's term is two minutes.
TEST_F(LaunchOverNodesTest, ALaunchWhoseJobIsOverIsNotWaitedFor) {
  std::vector<std::string> asked;
  bool over = true;
  for (int node : {0, 1}) nodes[node].config.call_ms_default = 600'000;
  const auto opens_after = [&](const std::string& key) {
    for (int node : {0, 1}) {
      if (nodes[node].running()) nodes[node].Kill();
    }
    nodes.job_is_over = [&](const std::string& job) {
      asked.push_back(job);
      return over;
    };
    nodes.StartAll();
    FakeClient first(nodes[0]);
    EXPECT_EQ(CodeOfReply(first.Open({.rank = 0, .nranks = 1, .key = "slurm:7.0.0", .takeover = true})), local::OK);
    nodes[0].Kill();
    first.HostDied();
    const auto begun = nodes.now();
    FakeClient second(nodes[1]);
    const local::Reply opened = second.Open({.rank = 0, .nranks = 1, .key = key});
    EXPECT_EQ(CodeOfReply(opened), local::OK) << opened.status().message();
    EXPECT_EQ(CodeOfReply(second.Close()), local::OK);
    return nodes.now() - begun;
  };
  EXPECT_LT(opens_after("slurm:8.0.0"), std::chrono::seconds(30));
  EXPECT_THAT(asked, ElementsAre("7"));
  EXPECT_GT(opens_after("slurm:7.1.0"), std::chrono::seconds(100)) << "another step of the same job";
  EXPECT_THAT(asked, ElementsAre("7"));
  over = false;
  EXPECT_GT(opens_after("slurm:8.0.0"), std::chrono::seconds(100));
  EXPECT_LE(asked.size(), 15u) << "it is asked at most once in ten seconds";
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

}  // namespace
}  // namespace cairn
