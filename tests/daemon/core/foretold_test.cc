// Checkpoints whose number was said ahead: ranks on other nodes begin them without waiting for the launch's home.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "proto/peer.pb.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/launch_over_nodes.h"
#include "tests/daemon/core/simulated_nodes.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Ranks 0 and 2 are on node 0, the home; 1 and 3 on node 1, which has been told the number of the second checkpoint.
class ForetoldTest : public LaunchOverNodesTest {
 protected:
  void SetUp() override {
    LaunchOverNodesTest::SetUp();
    ASSERT_NO_FATAL_FAILURE(Open("job.1"));
    first = Checkpoint(5);
    ASSERT_NE(first, 0u);
    for (const auto& client : clients) ASSERT_EQ(CodeOfReply(client->Wait(first, local::LOCAL)), local::OK);
    nodes.Pass(std::chrono::milliseconds(100));
  }
  std::string home() { return nodes[0].address(); }
  std::string other() { return nodes[1].address(); }
  void Part() {
    nodes.network.Block(home(), other());
    nodes.network.Block(other(), home());
  }
  // The dataset, or 0 if the daemon does not answer within a second of its time, or refuses.
  DatasetId BeginAlone(Rank rank, std::uint64_t step, const Memory& memory) {
    const std::uint64_t call = clients[rank]->SendBegin(step, memory);
    nodes.Pass(std::chrono::seconds(1));
    if (!clients[rank]->HasReply(call)) return 0;
    const local::Reply begun = clients[rank]->TakeBegin(call);
    return CodeOfReply(begun) == local::OK ? begun.begin().dataset() : 0;
  }
  // Begun so, and handed over.
  DatasetId HandOverAlone(Rank rank, std::uint64_t step) {
    const Memory memory = MemoryOf(rank, step);
    const DatasetId id = BeginAlone(rank, step, memory);
    if (id == 0 || !clients[rank]->Fill(memory)) return 0;
    const local::Reply committed = clients[rank]->Commit();
    EXPECT_EQ(CodeOfReply(committed), local::OK) << committed.status().message();
    return committed.committed().dataset() == id ? id : 0;
  }
  // For longer than the relay keeps a link whose connection is broken. Then the ranks on the other node come again.
  void BreakTheLink() {
    RememberSessions();
    nodes.network.BreakLinks(home(), other());
    ASSERT_TRUE(nodes.AdvanceUntil([this] { return clients[1]->closed() && clients[3]->closed(); }));
    nodes.network.UnblockAll();
    for (Rank rank : {1u, 3u}) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  }
  // What ranks ask and say, by frame.
  void CountWhatTheHomeIsTold() {
    nodes.network.on_send = [this](const std::string& from, const std::string& to, const peer::Frame& frame) {
      if (from != other() || to != home()) return;
      const auto& all = frame.carry().carried();
      const auto count = std::ranges::count_if(all, [](const auto& one) { return one.to_home().has_from_rank(); });
      if (count > 0) told.push_back(static_cast<std::size_t>(count));
    };
  }
  void ExpectTheNextWorks(std::uint64_t step) {
    const DatasetId next = Checkpoint(step);
    ASSERT_NE(next, 0u);
    for (const auto& client : clients) EXPECT_EQ(CodeOfReply(client->Wait(next, local::PREFIX)), local::OK);
    Close();
    ASSERT_NO_FATAL_FAILURE(Open("job.next"));
    ExpectRestored(next, step, local::TIER_IMAGE, local::TIER_PARTNER);
  }

  DatasetId first = 0;
  std::vector<std::size_t> told;
};

TEST_F(ForetoldTest, ARankIsServedBeforeTheHomeHasHeardOfIt) {
  Part();
  const DatasetId told = HandOverAlone(1, 6);
  EXPECT_GT(told, first);
  EXPECT_EQ(HandOverAlone(3, 6), told);
  nodes.network.UnblockAll();
  DatasetId id = 0;
  for (Rank rank : {0u, 2u}) {
    const local::Reply committed = clients[rank]->Checkpoint(6, MemoryOf(rank, 6));
    ASSERT_EQ(CodeOfReply(committed), local::OK) << rank;
    id = committed.committed().dataset();
  }
  EXPECT_EQ(id, told);
  for (const auto& client : clients) EXPECT_EQ(CodeOfReply(client->Wait(id, local::LOCAL)), local::OK);
  EXPECT_THAT(nodes[1].RanksInCache(id), ElementsAre(1, 3));
  ExpectTheNextWorks(7);
}

TEST_F(ForetoldTest, WhatTheHomeIsToldGoesAfterTheCopiesOfTheNode) {
  CountWhatTheHomeIsTold();
  const Memory of_1 = MemoryOf(1, 6), of_3 = MemoryOf(3, 6);
  const std::uint64_t call_1 = clients[1]->SendBegin(6, of_1), call_3 = clients[3]->SendBegin(6, of_3);
  ASSERT_EQ(CodeOfReply(clients[1]->TakeBegin(call_1)), local::OK);
  ASSERT_EQ(CodeOfReply(clients[3]->TakeBegin(call_3)), local::OK);
  ASSERT_TRUE(clients[1]->Fill(of_1));
  ASSERT_EQ(CodeOfReply(clients[1]->Commit()), local::OK);
  EXPECT_THAT(told, IsEmpty());
  ASSERT_TRUE(clients[3]->Fill(of_3));
  ASSERT_EQ(CodeOfReply(clients[3]->Commit()), local::OK);
  nodes.Pass(std::chrono::milliseconds(2));
  EXPECT_THAT(told, ElementsAre(4));
}

TEST_F(ForetoldTest, TheHomeHearsOfARankThatCopiesLong) {
  CountWhatTheHomeIsTold();
  ASSERT_NE(BeginAlone(1, 6, MemoryOf(1, 6)), 0u);
  EXPECT_THAT(told, ElementsAre(1));
}

TEST_F(ForetoldTest, TheFirstOfALaunchWaitsForTheHome) {
  Close();
  ASSERT_NO_FATAL_FAILURE(Open("job.2"));
  Part();
  EXPECT_EQ(BeginAlone(1, 6, MemoryOf(1, 6)), 0u);
}

TEST_F(ForetoldTest, ItIsTakenBackWhenARankIsGone) {
  clients[2]->Drop();
  nodes.Pass(std::chrono::milliseconds(100));
  Part();
  EXPECT_EQ(BeginAlone(1, 6, MemoryOf(1, 6)), 0u);
}

TEST_F(ForetoldTest, AClientSaysNoneAhead) {
  Close();
  ASSERT_NO_FATAL_FAILURE(Open("job.2"));
  const Memory memory = MemoryOf(1, 6);
  local::Request request;
  request.mutable_begin()->set_step(6);
  request.mutable_begin()->set_attempt(1);
  for (const Protected& one : memory) *request.mutable_begin()->add_variables() = one.variable;
  request.mutable_begin()->set_foretold(first);
  const local::Reply begun = clients[1]->TakeBegin(clients[1]->Send(request));
  ASSERT_EQ(CodeOfReply(begun), local::OK) << begun.status().message();
  EXPECT_GT(begun.begin().dataset(), first);
  ASSERT_TRUE(clients[1]->Fill(memory));
  EXPECT_EQ(CodeOfReply(clients[1]->Commit()), local::OK);
}

// A client of the home that comes back over gRPC goes on; only what another node's daemon has said may be lost.
TEST_F(ForetoldTest, ARankOfTheHomeComesBackAndWhatOthersHaveBegunGoesOn) {
  RememberSessions();
  const ClientOptions over_grpc{.shares_memory = false, .resumable = true};
  clients[2]->Drop();
  ASSERT_NO_FATAL_FAILURE(ComeAgain(2, over_grpc));
  nodes.Pass(std::chrono::milliseconds(100));  // the number was taken back, and is said again
  ASSERT_EQ(CodeOfReply(clients[1]->Checkpoint(6, MemoryOf(1, 6))), local::OK);
  nodes.Pass(std::chrono::milliseconds(100));  // the home has heard of it
  clients[2]->Drop();
  ASSERT_NO_FATAL_FAILURE(ComeAgain(2, over_grpc));
  DatasetId id = 0;
  for (Rank rank : {0u, 2u, 3u}) {
    const local::Reply committed = clients[rank]->Checkpoint(6, MemoryOf(rank, 6));
    ASSERT_EQ(CodeOfReply(committed), local::OK) << rank << ": " << committed.status().message();
    id = committed.committed().dataset();
  }
  EXPECT_SAYS(clients[1]->Wait(id, local::LOCAL), local::OK, "");
}

TEST_F(ForetoldTest, WhatOthersHaveBegunAsAnotherCheckpointFailsForAll) {
  Part();
  const Memory memory = MemoryOf(1, 7);
  const DatasetId id = BeginAlone(1, 7, memory);
  ASSERT_NE(id, 0u);
  EXPECT_EQ(BeginAlone(3, 6, MemoryOf(3, 6)), 0u) << "it waits for the home's answer";
  const local::Reply begun = clients[0]->Begin(6, MemoryOf(0, 6));
  ASSERT_EQ(begun.begin().dataset(), id) << "the home makes the checkpoint of the number that it has said ahead";
  ASSERT_TRUE(clients[1]->Fill(memory));
  ASSERT_EQ(CodeOfReply(clients[1]->Commit()), local::OK);
  nodes.network.UnblockAll();
  EXPECT_SAYS(clients[1]->Wait(id, local::CAPTURED), local::FAILED, "");
  EXPECT_NE(CodeOfReply(clients[0]->Commit()), local::OK);
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_THAT(nodes[1].RanksInCache(id), IsEmpty());
  clients[3]->Abort("the test gives it up");
  ExpectTheNextWorks(8);
}

TEST_F(ForetoldTest, WhatOthersHaveBegunWithAnotherRedundancySchemeFailsForAll) {
  Part();
  clients[1]->AskFor(local::SCHEME_PARTNER);
  const Memory memory = MemoryOf(1, 6);
  const DatasetId id = BeginAlone(1, 6, memory);
  ASSERT_NE(id, 0u);
  EXPECT_EQ(BeginAlone(3, 6, MemoryOf(3, 6)), 0u) << "it asks for none, and waits for the home's answer";
  ASSERT_EQ(clients[0]->Begin(6, MemoryOf(0, 6)).begin().dataset(), id);
  ASSERT_TRUE(clients[1]->Fill(memory));
  ASSERT_EQ(CodeOfReply(clients[1]->Commit()), local::OK);
  nodes.network.UnblockAll();
  EXPECT_SAYS(clients[1]->Wait(id, local::CAPTURED), local::FAILED, "");
  EXPECT_SAYS(clients[2]->Wait(id, local::CAPTURED), local::FAILED,
              "rank 1 began it with redundancy partner, others as it is configured");
  EXPECT_NE(CodeOfReply(clients[0]->Commit()), local::OK);
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_THAT(nodes[1].RanksInCache(id), IsEmpty());
  clients[3]->Abort("the test gives it up");
  clients[1]->AskFor(local::SCHEME_NOT_GIVEN);
  ExpectTheNextWorks(8);
}

TEST_F(ForetoldTest, AnOutputThatComesFirstTakesTheNumberBackAndNobodyGetsIt) {
  Part();
  const Memory memory = MemoryOf(1, 6);
  const DatasetId id = BeginAlone(1, 6, memory);
  ASSERT_NE(id, 0u);
  const local::Reply output = clients[0]->OutputBegin(6, /*checkpoint=*/false, /*output=*/true);
  ASSERT_EQ(CodeOfReply(output), local::OK);
  EXPECT_GT(output.output_begin().dataset(), id);
  ASSERT_TRUE(clients[1]->Fill(memory));
  ASSERT_EQ(CodeOfReply(clients[1]->Commit()), local::OK);
  nodes.network.UnblockAll();
  EXPECT_SAYS(clients[1]->Wait(id, local::CAPTURED), local::FAILED, "");
  clients[0]->Abort("the test gives it up");
  ExpectTheNextWorks(7);
}

// The number is not told before that, and the client asks with the word that its memory is spoiled.
TEST_F(ForetoldTest, SpoiledMemoryIsRefusedByTheHomeAtBegin) {
  clients[1]->Spoil();
  EXPECT_SAYS(clients[1]->Begin(6, MemoryOf(1, 6)), local::DIRTY, "rank 1");
  EXPECT_SAYS(clients[3]->Begin(6, MemoryOf(3, 6)), local::DIRTY, "rank 1");
  clients[1]->ProtectAnew();
  ASSERT_EQ(CodeOfReply(clients[1]->Latest()), local::OK);  // any request says so
  ExpectTheNextWorks(7);
}

// What was handed over outlives the link: the home knew of it, and its answer was lost.
TEST_F(ForetoldTest, ALinkThatBreaksUnderTheAnswerLosesNothing) {
  nodes.network.Block(home(), other());
  for (Rank rank : {1u, 3u}) ASSERT_NE(HandOverAlone(rank, 6), 0u);
  DatasetId id = 0;
  for (Rank rank : {0u, 2u}) {
    const local::Reply committed = clients[rank]->Checkpoint(6, MemoryOf(rank, 6));
    ASSERT_EQ(CodeOfReply(committed), local::OK);
    id = committed.committed().dataset();
  }
  nodes.Pass(std::chrono::milliseconds(100));
  ASSERT_TRUE(clients[0]->Test(id, local::CAPTURED).test().reached());
  ASSERT_NO_FATAL_FAILURE(BreakTheLink());
  for (const auto& client : clients) {
    const local::Reply reached = client->Wait(id, local::LOCAL);
    EXPECT_EQ(CodeOfReply(reached), local::OK) << reached.status().message();
  }
  EXPECT_THAT(nodes[1].RanksInCache(id), ElementsAre(1, 3));
  ExpectTheNextWorks(7);
}

// The home never heard of it: it cannot wait for a rank that has gone on.
TEST_F(ForetoldTest, ALinkThatBreaksUnderTheWordFailsIt) {
  Part();
  const DatasetId id = HandOverAlone(1, 6);
  ASSERT_NE(id, 0u);
  ASSERT_EQ(CodeOfReply(clients[0]->Checkpoint(6, MemoryOf(0, 6))), local::OK);
  const std::uint64_t waiting = clients[0]->SendWait(id, local::CAPTURED, 60'000);
  ASSERT_NO_FATAL_FAILURE(BreakTheLink());
  EXPECT_SAYS(clients[0]->Next(waiting), local::FAILED, "");
  EXPECT_SAYS(clients[1]->Wait(id, local::CAPTURED), local::FAILED, "");
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_THAT(nodes[1].RanksInCache(id), IsEmpty());
  ExpectTheNextWorks(7);
}

TEST_F(ForetoldTest, AHomeThatIsStartedAgainKnowsNothingOfItAndItFails) {
  Part();
  const DatasetId id = HandOverAlone(1, 6);
  ASSERT_NE(id, 0u);
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes.network.UnblockAll();
  nodes[0].Start();
  for (Rank rank = 0; rank < kRanks; ++rank) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  EXPECT_SAYS(clients[1]->Wait(id, local::LOCAL), local::FAILED, "");
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_THAT(nodes[1].RanksInCache(id), IsEmpty());
  ExpectTheNextWorks(7);
}

// Without a begun dataset at the home no folder is made: its record would not say what the home's says.
TEST_F(ForetoldTest, ARankThatEndsBeforeTheHomeHasHeardOfItLeavesNothingBehind) {
  Part();
  ASSERT_NE(BeginAlone(1, 6, MemoryOf(1, 6)), 0u);
  clients[1]->Drop();
  nodes.Pass(std::chrono::seconds(1));
  nodes.network.UnblockAll();
  nodes.Pass(std::chrono::seconds(10));
  const admin::StatusReply status = nodes[1].Status();
  ASSERT_EQ(status.runs_size(), 1);
  EXPECT_EQ(nodes[1].RanksInCache(first).size(), 2u);
  EXPECT_THAT(nodes[1].RanksInCache(first + 1), IsEmpty());
}

}  // namespace
}  // namespace cairn
