// The home of a launch over nodes is started again: what it learns of the others, and what it says until then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/peer.pb.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/launch_over_nodes.h"
#include "tests/daemon/core/simulated_nodes.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using HomeRestartsTest = LaunchOverNodesTest;

// An older launch's, of which each node has a part: no rank's return speaks of it.
TEST_F(HomeRestartsTest, TheHomeThatIsStartedAgainFindsWhatAnOlderLaunchHasLeftInParts) {
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
TEST_F(HomeRestartsTest, WhoAsksAHomeThatWasJustStartedWaitsForTheOthers) {
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
TEST_F(HomeRestartsTest, AHomeThatWasJustStartedDoesNotWaitForeverForTheOthers) {
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
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("nobody has told of parts of what would be restored"));
  EXPECT_NE(CodeOfReply(clients[0]->Next(rejecting)), local::OK);
}

TEST_F(HomeRestartsTest, AHomeThatIsStoppedWhileItLooksAnswersThoseWhoWait) {
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
TEST_F(HomeRestartsTest, AHomeThatIsStartedAgainFindsWhatOnlyOthersHaveInParts) {
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

TEST_F(HomeRestartsTest, ALongListOfPartsGoesByAsMuchAsTheHomeHasTakenIn) {
  std::vector<std::string> said;  // of parts, in order
  nodes.network.on_send = [&said, home = nodes[0].address()](const std::string& from, const std::string&,
                                                             const peer::Frame& frame) {
    for (const peer::Carried& carried : frame.carry().carried()) {
      if (carried.to_home().has_parts()) said.push_back(carried.to_home().parts().more() ? "more" : "last");
      if (from == home && carried.heard() > 0 && !said.empty() && said.back() == "more") said.push_back("heard");
    }
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

}  // namespace
}  // namespace cairn
