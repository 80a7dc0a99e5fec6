// Outputs of files by ranks on several nodes: README.md of daemon/core, "A launch over nodes".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/peer.pb.h"
#include "tests/daemon/core/outputs_over_nodes.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(OutputsOverNodesTest, FilesOfAllNodesAreOneDatasetOnThePrefix) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Make(5);
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::LOCAL), local::OK, "");
  EXPECT_THAT(nodes[0].RanksInCache(id), ElementsAre(0, 3));
  EXPECT_THAT(nodes[1].RanksInCache(id), ElementsAre(1));
  EXPECT_THAT(nodes[2].RanksInCache(id), ElementsAre(2));
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::PREFIX), local::OK, "");
  ExpectOnPrefix(id, 5);
  const auto prefix = Prefix::OpenReadOnly(nodes.prefix, SimulatedNodes::kPrefix);
  ASSERT_OK(prefix.status());
  const auto catalogues = (*prefix)->Catalogues(id);
  ASSERT_OK(catalogues.status());
  ASSERT_EQ(catalogues->size(), kRanks);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ((*catalogues)[rank].file_size(), 1);
    EXPECT_EQ((*catalogues)[rank].file(0).prefix_name(), NameOf(rank));
  }
  Close();
}

TEST_F(OutputsOverNodesTest, ANameIsOneRanksOnAllNodes) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Begin(5);
  ASSERT_NO_FATAL_FAILURE(Put(1, "out/x", "of rank 1"));
  for (Rank other : {0u, 2u}) EXPECT_SAYS(clients[other]->RouteFile("./out/x"), local::INVALID_ARGUMENT, "rank 1's");
  EXPECT_SAYS(clients[1]->RouteFile("out/x"), local::OK, "") << "its own again";
  ASSERT_NO_FATAL_FAILURE(Put(3, "out/y", "of rank 3"));
  EXPECT_SAYS(clients[2]->RouteFile("out/y"), local::INVALID_ARGUMENT, "rank 3's");
  EXPECT_SAYS(clients[2]->RouteFile("out/y/z"), local::INVALID_ARGUMENT, "directory");
  ASSERT_NO_FATAL_FAILURE(Put(2, "out/z", "of rank 2"));
  EndAll();
  EXPECT_SAYS(clients[1]->Wait(id, local::PREFIX), local::OK, "");
  EXPECT_EQ(OnPrefix("out/x"), "of rank 1");
  EXPECT_EQ(OnPrefix("out/y"), "of rank 3");
  EXPECT_EQ(OnPrefix("out/z"), "of rank 2");
}

TEST_F(OutputsOverNodesTest, ADirectoryThatRanksOfSeveralNodesRouteIsOne) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Begin(5);
  std::vector<std::string> paths(kRanks);
  for (Rank rank : {3u, 1u, 2u}) {
    const local::Reply routed = clients[rank]->RouteFile("fields.bp/");
    ASSERT_SAYS(routed, local::OK, "");
    paths[rank] = routed.route_file().path();
    ASSERT_NO_FATAL_FAILURE(Write(rank, paths[rank] + "/data." + std::to_string(rank), BytesOf(5, rank)));
  }
  EXPECT_SAYS(clients[0]->RouteFile("fields.bp/md.idx"), local::INVALID_ARGUMENT, "routed directory");
  for (Rank rank : {3u, 1u, 0u}) ASSERT_SAYS(clients[rank]->OutputEnd(), local::OK, "");
  nodes.Pass(std::chrono::seconds(1));
  // The last rank has not ended yet: another may still write there.
  ASSERT_NO_FATAL_FAILURE(Write(1, paths[1] + "/sub/late", "late"));
  ASSERT_NO_FATAL_FAILURE(Write(3, paths[3] + "/md.idx", "index"));
  ASSERT_SAYS(clients[2]->OutputEnd(), local::OK, "");
  EXPECT_SAYS(clients[1]->Wait(id, local::PREFIX), local::OK, "");
  for (Rank rank : {3u, 1u, 2u}) {
    EXPECT_TRUE(OnPrefix("fields.bp/data." + std::to_string(rank)) == BytesOf(5, rank)) << rank;
  }
  EXPECT_EQ(OnPrefix("fields.bp/sub/late"), "late");
  EXPECT_EQ(OnPrefix("fields.bp/md.idx"), "index");
}

// Under one name on the prefix only one of them could be.
TEST_F(OutputsOverNodesTest, TwoNodesFilesOfOneNameInADirectoryFailTheDataset) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  std::uint64_t step = 4;
  for (const char* const name : {"md.idx", "data.1/x"}) {
    const DatasetId id = Begin(++step);
    const std::string of_two[] = {std::string(name).substr(0, 6), name};
    for (Rank rank : {1u, 2u}) {
      const local::Reply routed = clients[rank]->RouteFile("fields.bp/");
      ASSERT_SAYS(routed, local::OK, "");
      ASSERT_NO_FATAL_FAILURE(Write(rank, routed.route_file().path() + "/" + of_two[rank - 1], "bytes"));
    }
    EndAll();
    EXPECT_SAYS(clients[0]->Wait(id, local::LOCAL), local::FAILED, "fields.bp/" + of_two[0]);
    EXPECT_SAYS(clients[2]->Wait(id, local::PREFIX), local::FAILED, "rank 2");
    for (int node : {0, 1, 2}) EXPECT_THAT(nodes[node].RanksInCache(id), IsEmpty()) << node;
  }
  const DatasetId next = Make(7);
  EXPECT_SAYS(clients[0]->Wait(next, local::PREFIX), local::OK, "");
  ExpectOnPrefix(next, 7);
}

TEST_F(OutputsOverNodesTest, ARankThatIsLostOrCouldNotWriteFailsItOnAllNodes) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  DatasetId id = Begin(5);
  PutAll(5);
  std::uint64_t waiting = clients[1]->SendWait(id, local::LOCAL);
  EXPECT_SAYS(clients[2]->OutputEnd(/*valid=*/false), local::OK, "");
  EXPECT_SAYS(clients[1]->Next(waiting), local::FAILED, "rank 2 could not write");
  EXPECT_SAYS(clients[0]->OutputEnd(), local::FAILED, "rank 2 could not write");
  EXPECT_SAYS(clients[1]->OutputEnd(), local::FAILED, "rank 2 could not write");
  EXPECT_SAYS(clients[3]->OutputEnd(), local::FAILED, "rank 2 could not write");
  id = Begin(6);
  ASSERT_SAYS(clients[1]->RouteFile("never_written"), local::OK, "");
  EXPECT_SAYS(clients[1]->OutputEnd(), local::NOT_FOUND, "never_written");
  EXPECT_SAYS(clients[0]->Wait(id, local::LOCAL), local::FAILED, "never_written");
  id = Begin(7);
  PutAll(7);
  waiting = clients[1]->SendWait(id, local::LOCAL);
  clients[2]->Drop();
  EXPECT_SAYS(clients[1]->Next(waiting), local::FAILED, "rank 2 was lost");
  for (int node : {0, 1, 2}) EXPECT_THAT(nodes[node].RanksInCache(id), IsEmpty()) << node;
}

TEST_F(OutputsOverNodesTest, AnOutputOfARankWhoseMemoryIsSpoiledCleansNothing) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  clients[1]->Spoil();
  const DatasetId id = Make(5);
  EXPECT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
  EXPECT_SAYS(clients[0]->Begin(6, MemoryOf(0, 6)), local::DIRTY, "rank 1");
  EXPECT_SAYS(clients[2]->OutputBegin(6), local::DIRTY, "rank 1") << "a checkpoint of files";
}

// What was handed over stays, and what is in routed directories is listed when the last rank has ended, not before.
TEST_F(OutputsOverNodesTest, ALinkThatEndsCostsNothingThatWasHandedOver) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Begin(5);
  const local::Reply routed = clients[1]->RouteFile("fields.bp/");
  ASSERT_SAYS(routed, local::OK, "");
  ASSERT_NO_FATAL_FAILURE(Write(1, routed.route_file().path() + "/data.1", "bytes"));
  ASSERT_SAYS(clients[1]->OutputEnd(), local::OK, "");
  launch = clients[1]->launch();
  tokens[1] = clients[1]->token();
  nodes.Pass(std::chrono::seconds(1));
  ASSERT_NO_FATAL_FAILURE(EndLinkOf(1));
  ASSERT_NO_FATAL_FAILURE(ComeAgain(1));
  for (Rank rank : {0u, 2u, 3u}) {
    ASSERT_NO_FATAL_FAILURE(Put(rank, NameOf(rank), BytesOf(5, rank)));
    ASSERT_SAYS(clients[rank]->OutputEnd(), local::OK, "");
  }
  EXPECT_SAYS(clients[1]->Wait(id, local::PREFIX), local::OK, "");
  EXPECT_EQ(OnPrefix("fields.bp/data.1"), "bytes");
}

// All have handed theirs over while a link was about to end: the word to list directories comes with the next one.
TEST_F(OutputsOverNodesTest, ANodeThatComesLateListsItsDirectoriesThen) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Begin(5);
  const local::Reply routed = clients[1]->RouteFile("fields.bp/");
  ASSERT_SAYS(routed, local::OK, "");
  ASSERT_NO_FATAL_FAILURE(Write(1, routed.route_file().path() + "/data.1", "bytes"));
  for (Rank rank : {0u, 2u, 3u}) ASSERT_SAYS(clients[rank]->OutputEnd(), local::OK, "");
  nodes.network.Block(nodes[1].address(), nodes[0].address());
  ASSERT_SAYS(clients[1]->OutputEnd(), local::OK, "");
  launch = clients[1]->launch();
  tokens[1] = clients[1]->token();
  ASSERT_NO_FATAL_FAILURE(EndLinkOf(1));
  ASSERT_NO_FATAL_FAILURE(ComeAgain(1));
  EXPECT_SAYS(clients[1]->Wait(id, local::PREFIX), local::OK, "");
  EXPECT_EQ(OnPrefix("fields.bp/data.1"), "bytes");
}

// --- On the way to the prefix ---

TEST_F(OutputsOverNodesTest, AFullPrefixHoldsItUpAndNothingIsHalfCommitted) {
  FailOnPrefix("rank2.dat");
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Make(5);
  ASSERT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
  const std::uint64_t waiting = clients[1]->SendWait(id, local::PREFIX);
  ASSERT_TRUE(AwaitFailedTry());
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("no room"));
  nodes.Pass(std::chrono::minutes(1));
  EXPECT_FALSE(clients[1]->HasReply(waiting));
  EXPECT_FALSE(IsCommitted(id));
  for (Rank rank = 0; rank < kRanks; ++rank) EXPECT_FALSE(nodes.prefix.Info(AtPrefix(NameOf(rank))).ok()) << rank;
  nodes.prefix.ClearFaults();
  EXPECT_SAYS(clients[1]->Wait(id, local::PREFIX), local::OK, "");
  ExpectOnPrefix(id, 5);
}

TEST_F(OutputsOverNodesTest, ANodeThatDiesBeforeItHasCopiedIsWaitedFor) {
  FailOnPrefix("rank1.dat");
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Make(5);
  ASSERT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
  const std::uint64_t waiting = clients[0]->SendWait(id, local::PREFIX);
  ASSERT_TRUE(AwaitFailedTry());
  ASSERT_NO_FATAL_FAILURE(KillNode(1));
  nodes.prefix.ClearFaults();
  nodes.Pass(std::chrono::minutes(1));
  EXPECT_FALSE(clients[0]->HasReply(waiting));
  EXPECT_FALSE(IsCommitted(id));
  EXPECT_FALSE(nodes.prefix.Info(AtPrefix(NameOf(0))).ok()) << "no file has its name before all are there";
  nodes[1].Start();
  nodes.Pass(std::chrono::minutes(5));
  EXPECT_SAYS(clients[0]->Wait(id, local::PREFIX), local::OK, "");
  ExpectOnPrefix(id, 5);
}

TEST_F(OutputsOverNodesTest, ANodeThatDiesAfterItHasCopiedIsNotNeeded) {
  std::set<std::string> copied;
  nodes.network.on_send = [&copied](const std::string&, const std::string&, const peer::Frame& frame) {
    for (const peer::Carried& carried : frame.carry().carried()) {
      if (carried.to_home().has_copied()) copied.insert(carried.node());
    }
  };
  bool found = false;  // the home looks where the others have put their files
  nodes.prefix.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kInfo && copied.size() == 2 && path.find("rank2.dat.") != std::string::npos) found = true;
  });
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Make(5);
  ASSERT_TRUE(nodes.AdvanceUntil([&found] { return found; }));
  EXPECT_FALSE(IsCommitted(id));
  ASSERT_NO_FATAL_FAILURE(KillNode(1));
  EXPECT_SAYS(clients[0]->Wait(id, local::PREFIX), local::OK, "");
  ExpectOnPrefix(id, 5);
  // And its own copy counts as one of what is on the prefix when it comes again.
  nodes[1].Start();
  ASSERT_NO_FATAL_FAILURE(ComeAgainOn(1));
  EXPECT_SAYS(clients[1]->Wait(id, local::PREFIX), local::OK, "");
}

TEST_F(OutputsOverNodesTest, AHomeThatDiesBetweenRenamesAndCommitGoesOnWithIt) {
  FailCommits();
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Make(5);
  ASSERT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
  ASSERT_TRUE(AwaitFailedTry());
  for (Rank rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(OnPrefix(NameOf(rank)) == BytesOf(5, rank)) << rank;
  EXPECT_FALSE(IsCommitted(id));
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes.prefix.ClearFaults();
  nodes[0].Start();
  for (Rank rank = 0; rank < kRanks; ++rank) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  EXPECT_SAYS(clients[2]->Wait(id, local::PREFIX), local::OK, "");
  ExpectOnPrefix(id, 5);
}

TEST_F(OutputsOverNodesTest, WhatAnotherHasPutUnderAFilesNameSinceIsFound) {
  FailCommits();
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Make(5);
  ASSERT_TRUE(AwaitFailedTry());
  ASSERT_OK(ReplaceFile(nodes.prefix, AtPrefix(NameOf(1)), std::string(BytesOf(5, 1).size(), 'x')));
  nodes.prefix.ClearFaults();
  EXPECT_SAYS(clients[0]->Wait(id, local::PREFIX), local::OK, "");
  ExpectOnPrefix(id, 5);
}

TEST_F(OutputsOverNodesTest, AnOlderOneOfTheSameNamesGivesWayWhenTheNewerIsCommitted) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId first = Make(5);
  ASSERT_SAYS(clients[0]->Wait(first, local::PREFIX), local::OK, "");
  FailCommits();
  const DatasetId second = Make(6);
  ASSERT_SAYS(clients[0]->Wait(second, local::LOCAL), local::OK, "");
  ASSERT_TRUE(AwaitFailedTry());
  EXPECT_TRUE(IsCommitted(first));
  for (Rank rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(OnPrefix(NameOf(rank)) == BytesOf(5, rank)) << rank;
  nodes.prefix.ClearFaults();
  EXPECT_SAYS(clients[1]->Wait(second, local::PREFIX), local::OK, "");
  EXPECT_FALSE(IsCommitted(first));
  ExpectOnPrefix(second, 6);
}

TEST_F(OutputsOverNodesTest, WhatIsOnThePrefixLeavesTheCachesOfAllNodesForRoom) {
  for (int node : {0, 1, 2}) {
    nodes[node].Kill();
    nodes[node].config.cache.bytes_max = 100'000;
    nodes[node].Start();
  }
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId first = Make(5);
  ASSERT_SAYS(clients[0]->Wait(first, local::PREFIX), local::OK, "");
  DatasetId last = 0;
  for (std::uint64_t step = 6; step < 12; ++step) {
    last = Make(step);
    ASSERT_SAYS(clients[1]->Wait(last, local::PREFIX), local::OK, "");
  }
  nodes.Pass(std::chrono::seconds(1));
  for (int node : {0, 1, 2}) EXPECT_THAT(nodes[node].RanksInCache(first), IsEmpty()) << node;
  EXPECT_THAT(nodes[1].RanksInCache(last), ElementsAre(1));
  ExpectOnPrefix(last, 11);
}

// --- Launches end and begin ---

TEST_F(OutputsOverNodesTest, ACheckpointOfFilesIsReadOnThePrefixByAllNodes) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Make(5, /*checkpoint=*/true);
  ASSERT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
  Close();
  EXPECT_FALSE(IsCommitted(id)) << "flush.every is 0";
  ASSERT_NO_FATAL_FAILURE(Open("job.2"));
  for (const auto& client : clients) {
    const local::Reply latest = client->Latest();
    ASSERT_SAYS(latest, local::OK, "");
    EXPECT_EQ(latest.latest().dataset(), id);
    EXPECT_TRUE(latest.latest().files());
    EXPECT_SAYS(client->RestartFile(id, NameOf(0)), local::FAILED_PRECONDITION, "restored before");
  }
  for (const FakeClient::Restored& one : RestoreAll(id)) {
    EXPECT_EQ(one.code, local::OK) << one.message;
    EXPECT_EQ(one.tier, local::TIER_PREFIX);
  }
  for (Rank rank = 0; rank < kRanks; ++rank) {
    for (Rank of : {rank, (rank + 1) % kRanks}) {
      const local::Reply path = clients[rank]->RestartFile(id, NameOf(of));
      ASSERT_SAYS(path, local::OK, "");
      const auto bytes = ReadWhole(nodes.prefix, path.restart_file().path(), 1 << 20);
      ASSERT_OK(bytes.status());
      EXPECT_TRUE(*bytes == BytesOf(5, of)) << of;
    }
    EXPECT_SAYS(clients[rank]->RestartFile(id, "out/none"), local::NOT_FOUND, "out/none");
  }
}

TEST_F(OutputsOverNodesTest, WhatIsDamagedOnThePrefixComesFromTheCachesOnceMore) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId id = Make(5, /*checkpoint=*/true);
  ASSERT_SAYS(clients[0]->Wait(id, local::PREFIX), local::OK, "");
  Close();
  nodes.prefix.FlipBit(AtPrefix(NameOf(1)), 4711);
  ASSERT_NO_FATAL_FAILURE(Open("job.2"));
  for (const auto& client : clients) EXPECT_EQ(client->Latest().latest().dataset(), id);
  for (const FakeClient::Restored& one : RestoreAll(id)) EXPECT_EQ(one.code, local::OK) << one.message;
  ExpectOnPrefix(id, 5);
}

TEST_F(OutputsOverNodesTest, CheckpointsAndOutputsTakeTurns) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const DatasetId memory = Checkpoint(5);
  ASSERT_NE(memory, 0u);
  const DatasetId output = Make(5);
  const DatasetId files = Make(6, /*checkpoint=*/true);
  const DatasetId last = Checkpoint(7);
  ASSERT_NE(last, 0u);
  EXPECT_LT(memory, output);
  EXPECT_LT(output, files);
  EXPECT_SAYS(clients[2]->Wait(files, local::LOCAL), local::OK, "");
  EXPECT_SAYS(clients[1]->Wait(last, local::LOCAL), local::OK, "");
  EXPECT_SAYS(clients[2]->Wait(output, local::PREFIX), local::OK, "");
  ExpectOnPrefix(output, 5);
  EXPECT_SAYS(clients[1]->OutputBegin(8), local::OK, "");
  EXPECT_SAYS(clients[1]->Begin(9, MemoryOf(1, 9)), local::FAILED_PRECONDITION, "do not mix");
  EXPECT_SAYS(clients[1]->Abort("enough"), local::OK, "");
  ASSERT_SAYS(clients[1]->Begin(9, MemoryOf(1, 9)), local::OK, "");
  EXPECT_SAYS(clients[1]->OutputBegin(10), local::FAILED_PRECONDITION, "not ended");
  EXPECT_SAYS(clients[1]->Abort("enough"), local::OK, "");
  Close();
  ASSERT_NO_FATAL_FAILURE(Open("job.2"));
  EXPECT_EQ(clients[3]->Latest().latest().dataset(), last);
}

TEST_F(OutputsOverNodesTest, AGrowingOneGoesWhenItIsWholeAndThatIsToldOnce) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  for (std::uint64_t step : {5, 6}) {
    const DatasetId id = Begin(step, /*checkpoint=*/false, /*growing=*/true);
    PutAll(step);
    nodes.Pass(std::chrono::minutes(1));
    EndAll();
    EXPECT_SAYS(clients[1]->Wait(id, local::PREFIX), local::OK, "");
    ExpectOnPrefix(id, step);
  }
  const std::string warnings = nodes[0].Warnings();
  const std::size_t told = warnings.find("not step by step");
  ASSERT_NE(told, std::string::npos) << warnings;
  EXPECT_EQ(warnings.find("not step by step", told + 1), std::string::npos) << warnings;
}

}  // namespace
}  // namespace cairn
