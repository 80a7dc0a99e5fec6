// What becomes of outputs over nodes when their launch is over, its home dies, or a part of them is lost or damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "storage/io/file_tree.h"
#include "tests/daemon/core/outputs_over_nodes.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OutputsLeftOverNodesTest : public OutputsOverNodesTest {
 protected:
  // The files in a node's cache that have these bytes.
  std::vector<std::string> FilesWith(int node, const std::string& bytes) {
    std::vector<std::string> found;
    const auto files = ListFilesBelow(nodes[node].cache, "/");
    EXPECT_OK(files.status());
    for (const auto& [name, info] : *files) {
      if (info.bytes != bytes.size()) continue;
      const auto content = ReadWhole(nodes[node].cache, "/" + name, 1 << 20);
      if (content.ok() && *content == bytes) found.push_back("/" + name);
    }
    return found;
  }
  // It is `local`, and its way to the prefix has failed once.
  DatasetId MakeAndFail(std::uint64_t step) {
    const DatasetId id = Make(step);
    EXPECT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
    EXPECT_TRUE(AwaitFailedTry());
    return id;
  }
};

TEST_F(OutputsLeftOverNodesTest, TheHomeThatMadeItBringsItToThePrefixAfterItsLaunch) {
  FailOnPrefix("rank2.dat");
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Make(5);
  ASSERT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
  ASSERT_TRUE(AwaitFailedTry());
  Close();
  // The next launch has its home, and its ranks, elsewhere.
  FakeClient next(nodes[1]);
  ASSERT_EQ(CodeOfReply(next.Open({.rank = 0, .nranks = 1, .key = "job.2"})), local::OK);
  nodes.Pass(std::chrono::seconds(10));
  nodes.prefix.ClearFaults();
  // A restart chooses by launches: as dataset it came too late. Its files are where they belong.
  EXPECT_TRUE(nodes.AdvanceUntil([&] {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      if (OnPrefix(NameOf(rank)) != BytesOf(5, rank)) return false;
    }
    return true;
  }));
}

// Nobody knew all of it any more: its home was started again when its ranks were gone.
TEST_F(OutputsLeftOverNodesTest, ANewLaunchFindsWhatAnOlderOneLeftInPartsAndBringsItToThePrefix) {
  FailOnPrefix("rank2.dat");
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Make(5);
  ASSERT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
  ASSERT_TRUE(AwaitFailedTry());
  Close();
  nodes[0].Kill();
  nodes.prefix.ClearFaults();
  nodes[0].Start();
  nodes.Pass(std::chrono::minutes(1));
  EXPECT_FALSE(IsCommitted(id));
  FakeClient next(nodes[1]);
  ASSERT_EQ(CodeOfReply(next.Open({.rank = 0, .nranks = 1, .key = "job.2"})), local::OK);
  ASSERT_TRUE(nodes.AdvanceUntil([&] { return IsCommitted(id); }));
  ExpectOnPrefix(id, 5);
}

TEST_F(OutputsLeftOverNodesTest, AllThatAnOlderLaunchLeftAreBrought) {
  FailOnPrefix("rank2.dat");
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  std::vector<DatasetId> ids;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    ids.push_back(Begin(step));
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      Put(rank, "out/" + std::to_string(step) + ".rank" + std::to_string(rank) + ".dat", BytesOf(step, rank));
    }
    EndAll();
  }
  ASSERT_SAYS(clients[0]->Wait(ids.back(), local::LOCAL), local::OK, "");
  Close();
  nodes[0].Kill();
  nodes.prefix.ClearFaults();
  nodes[0].Start();
  nodes.Pass(std::chrono::minutes(1));
  FakeClient next(nodes[1]);
  ASSERT_EQ(CodeOfReply(next.Open({.rank = 0, .nranks = 1, .key = "job.2"})), local::OK);
  for (const DatasetId id : ids) EXPECT_TRUE(nodes.AdvanceUntil([&] { return IsCommitted(id); })) << id;
}

// The others' are good, and nobody else has them: for whoever can use them they are kept aside.
TEST_F(OutputsLeftOverNodesTest, WithoutADamagedPartTheOthersGoAsideAndAreNotRemoved) {
  FailOnPrefix("out/");
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = MakeAndFail(5);
  const std::vector<std::string> damaged = FilesWith(1, BytesOf(5, 1));
  ASSERT_EQ(damaged.size(), 1u);
  nodes[1].cache.FlipBit(damaged.front(), 4711);
  nodes.prefix.ClearFaults();
  const local::Reply never = clients[2]->Wait(id, local::PREFIX);
  EXPECT_NE(CodeOfReply(never), local::OK);
  nodes.Pass(std::chrono::seconds(10));
  EXPECT_FALSE(IsCommitted(id));
  for (const auto& [rank, node] : {std::pair<Rank, int>{0, 0}, {2, 2}, {3, 0}}) {
    const std::vector<std::string> kept = FilesWith(node, BytesOf(5, rank));
    ASSERT_EQ(kept.size(), 1u) << "rank " << rank;
    EXPECT_NE(kept.front().find("/damaged."), std::string::npos) << kept.front();
  }
}

TEST_F(OutputsLeftOverNodesTest, WhatCanNeverBePutTogetherIsRemovedByHand) {
  FailOnPrefix("rank2.dat");
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = MakeAndFail(5);
  Close();
  nodes[0].Kill();  // for good
  FakeClient next(nodes[1]);
  ASSERT_EQ(CodeOfReply(next.Open({.rank = 0, .nranks = 1, .key = "job.2", .takeover = true})), local::OK);
  nodes.Pass(std::chrono::minutes(1));
  EXPECT_THAT(nodes[1].RanksInCache(id), ElementsAre(1));
  const local::Status removed = nodes[1].Remove(id);
  EXPECT_EQ(removed.code(), local::OK) << removed.message();
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_THAT(nodes[1].RanksInCache(id), IsEmpty());
}

// Those who have the other parts were not there, or had no link, when that was said.
TEST_F(OutputsLeftOverNodesTest, WhatTheUserRemovesLeavesTheCachesOfNodesThatDidNotHearOfIt) {
  FailOnPrefix("rank2.dat");
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = MakeAndFail(5);
  Close();
  nodes[0].Kill();
  FakeClient next(nodes[1]);
  ASSERT_EQ(CodeOfReply(next.Open({.rank = 0, .nranks = 1, .key = "job.2", .takeover = true})), local::OK);
  nodes[2].Kill();
  const local::Status removed = nodes[1].Remove(id);
  EXPECT_EQ(removed.code(), local::OK) << removed.message();
  nodes.prefix.ClearFaults();
  ASSERT_EQ(CodeOfReply(next.Close()), local::OK);
  for (const int node : {0, 2}) {
    nodes[node].Start();
    EXPECT_FALSE(nodes[node].RanksInCache(id).empty()) << node;
    FakeClient anew(nodes[node]);
    const std::string key = "job.on." + std::to_string(node);
    ASSERT_EQ(CodeOfReply(anew.Open({.rank = 0, .nranks = 1, .key = key})), local::OK);
    EXPECT_TRUE(nodes.AdvanceUntil([&] { return nodes[node].RanksInCache(id).empty(); })) << node;
    ASSERT_EQ(CodeOfReply(anew.Close()), local::OK);
  }
  EXPECT_FALSE(IsCommitted(id));
}

// As with the prefix out of reach: nobody could tell the others.
TEST_F(OutputsLeftOverNodesTest, WhatOthersCannotBeToldOfIsNotRemoved) {
  FailOnPrefix("rank2.dat");
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = MakeAndFail(5);
  FailOnPrefix("removed.cairn");
  const local::Status refused = nodes[0].Remove(id);
  EXPECT_NE(refused.code(), local::OK);
  EXPECT_THAT(refused.message(), HasSubstr("no room"));
  EXPECT_THAT(nodes[0].RanksInCache(id), ElementsAre(0, 3));
}

TEST_F(OutputsLeftOverNodesTest, WhatNobodyDecidesIsFlushedByWhoKnowsAllOfItAndPinnedOnAllNodes) {
  FailOnPrefix("rank2.dat");
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = MakeAndFail(5);
  Close();
  nodes[0].Kill();
  nodes[0].Start();
  nodes.Pass(std::chrono::minutes(1));
  const local::Status nobody = nodes[2].Flush(id);
  EXPECT_EQ(nobody.code(), local::FAILED_PRECONDITION);
  EXPECT_THAT(nobody.message(), HasSubstr("a launch over these nodes puts it together"));
  EXPECT_EQ(nodes[2].Pin(id).code(), local::OK);
  for (const int node : {0, 1, 2}) EXPECT_TRUE(nodes[node].IsPinned(id)) << node;
  // What a node could not note does not outlive it.
  nodes[1].cache.FailOn(
      {.op = FakeOp::kAny, .path_part = "flush.cairn", .times = 100, .status = ResourceExhausted("full")});
  const local::Status not_noted = nodes[2].Pin(id, false);
  EXPECT_EQ(not_noted.code(), local::UNAVAILABLE);
  EXPECT_THAT(not_noted.message(), HasSubstr("n2: "));
  nodes[1].cache.ClearFaults();
  nodes.network.Block(nodes[2].address(), nodes[0].address());
  const local::Status half = nodes[2].Pin(id, false);
  EXPECT_NE(half.code(), local::OK);
  EXPECT_THAT(half.message(), HasSubstr("n1"));
  nodes.network.UnblockAll();
  EXPECT_EQ(nodes[2].Pin(id, false).code(), local::OK);
  for (const int node : {0, 1, 2}) EXPECT_FALSE(nodes[node].IsPinned(id)) << node;
  FakeClient next(nodes[1]);  // looks for all parts
  ASSERT_EQ(CodeOfReply(next.Open({.rank = 0, .nranks = 1, .key = "job.2"})), local::OK);
  nodes.Pass(std::chrono::minutes(1));
  const local::Status ordered = nodes[2].Flush(id);
  EXPECT_EQ(ordered.code(), local::OK) << ordered.message();
  EXPECT_FALSE(IsCommitted(id));
  nodes.prefix.ClearFaults();
  EXPECT_TRUE(nodes.AdvanceUntil([&] { return IsCommitted(id); }));
  ExpectOnPrefix(id, 5);
}

// Its daemon was started again before the ranks of its node had all begun: what it had stored is not whole, and goes.
TEST_F(OutputsLeftOverNodesTest, AStoredPartThatANodeHasLostFailsItAndTheNextOneWorks) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const local::Reply begun = clients[1]->OutputBegin(5, false, true, false);
  ASSERT_SAYS(begun, local::OK, "");
  const DatasetId id = begun.output_begin().dataset();
  Put(1, NameOf(1), BytesOf(5, 1));
  ASSERT_SAYS(clients[1]->OutputEnd(), local::OK, "");
  nodes.Pass(std::chrono::seconds(1));
  launch = clients[1]->launch();
  for (Rank rank : {1u, 2u}) tokens[rank] = clients[rank]->token();
  nodes[1].Kill();  // it may have been the members' coordinator: then the other nodes' links end, too
  nodes[1].Start();
  for (Rank rank : {1u, 2u}) {
    if (rank != 1 && !clients[rank]->closed()) continue;
    ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  }
  EXPECT_SAYS(clients[1]->Wait(id, local::LOCAL), local::FAILED, "");
  for (Rank rank : {0u, 2u, 3u}) EXPECT_NE(CodeOfReply(clients[rank]->OutputBegin(5, false, true, false)), local::OK);
  const DatasetId next = Make(6);
  EXPECT_SAYS(clients[0]->Wait(next, local::PREFIX), local::OK, "");
  ExpectOnPrefix(next, 6);
}

}  // namespace
}  // namespace cairn
