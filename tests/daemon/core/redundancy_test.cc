// Checkpoints that outlive the loss of nodes before they are on the prefix: README.md of daemon/core, "Redundancy".
// Nothing is ever flushed here, so that what comes back comes from redundancy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundancy_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

// --- A node is lost ---

struct Loss {
  std::string scheme;
  int node = 0;
};

class LossTest : public RedundancyTest, public ::testing::WithParamInterface<Loss> {};

TEST_P(LossTest, WhatWasRedundantComesBack) {
  Start(GetParam().scheme);
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  ExpectBackWithout({GetParam().node}, id, 5);
}

std::vector<Loss> AllLosses() {
  std::vector<Loss> all;
  for (const char* scheme : {"partner", "xor", "rs"}) {
    for (int node = 0; node < 6; ++node) all.push_back({scheme, node});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(EachNode, LossTest, ::testing::ValuesIn(AllLosses()),
                         [](const auto& info) { return info.param.scheme + std::to_string(info.param.node); });

class TwoLossesTest : public RedundancyTest, public ::testing::WithParamInterface<std::pair<int, int>> {};

TEST_P(TwoLossesTest, WhatWasRedundantComesBack) {
  Start("rs");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  ExpectBackWithout({GetParam().first, GetParam().second}, id, 5);
}

std::vector<std::pair<int, int>> AllPairs() {
  std::vector<std::pair<int, int>> all;
  for (int a = 0; a < 6; ++a) {
    for (int b = a + 1; b < 6; ++b) all.emplace_back(a, b);
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(EachPair, TwoLossesTest, ::testing::ValuesIn(AllPairs()), [](const auto& info) {
  return std::to_string(info.param.first) + "and" + std::to_string(info.param.second);
});

TEST_F(RedundancyTest, WhatIsMoreThanTheSchemeBearsIsNotMadeUp) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  Redundant(5);
  Lose({1, 4});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  for (const auto& client : clients) EXPECT_SAYS(client->Latest(), local::NOT_FOUND, "no checkpoint");
}

TEST_F(RedundancyTest, AnOlderOneIsTakenWhereTheNewestIsLost) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId older = Redundant(5);
  const auto served = nodes.files.served;
  nodes.files.served.erase(nodes[2].address());  // nobody can read its files, so nothing new is redundant
  const DatasetId newer = Checkpoint(6);
  ASSERT_SAYS(clients[0]->Wait(newer, local::LOCAL), local::OK, "");
  nodes.Pass(std::chrono::seconds(5));
  EXPECT_FALSE(clients[0]->Test(newer, local::REDUNDANT).test().reached());
  nodes.files.served = served;
  ExpectBackWithout({3}, older, 5);
}

TEST_F(RedundancyTest, RedundancyIsRestoredAfterALoss) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Lose({1});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_EQ(RestoreLatest().id, id);
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  Lose({1, 4});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  EXPECT_EQ(RestoreLatest().id, id);
}

// --- While sets are made anew ---

// For how many sets the node's ranks keep something by the files that are there, and how many of these have other names
// than SCR's.
struct KeptThere {
  std::size_t sets = 0, older_names = 0;
};
KeptThere KeptOn(SimulatedNodes::Node& node, DatasetId id) {
  KeptThere there;
  std::set<std::string> sets;
  const auto names = node.cache.List(node.FolderOf(id) + "/.scr");
  if (!names.ok()) return there;
  for (const std::string& name : *names) {
    const std::size_t header = name.find("reddesc.er."), group = name.find(".grp_");
    if (header == std::string::npos || group == std::string::npos) continue;
    there.older_names += header > 0 ? 1 : 0;
    const std::size_t member = name.find(".mem_"), of = name.find("_of_", member);
    sets.insert(name.substr(0, header) + name.substr(group, member - group) + name.substr(of));
  }
  there.sets = sets.size();
  return there;
}

class MeanwhileTest : public RedundancyTest {
 protected:
  // Rank 1's node is lost, and sets are being made anew until `holds`.
  DatasetId LoseOneAndGoOn(const std::string& scheme, const std::function<bool(DatasetId)>& holds) {
    Start(scheme);
    OpenMany("job.1");
    const DatasetId id = Redundant(5);
    Lose({1});
    // Its part is made anew when it comes, so it comes last.
    clients.resize(kMany);
    for (const Rank rank : {0, 2, 3, 4, 5, 1}) {
      clients[rank] = std::make_unique<FakeClient>(nodes[NodeOf(rank)]);
      const local::Reply opened = clients[rank]->Open({.rank = rank, .nranks = kMany, .key = "job.2"});
      EXPECT_EQ(CodeOfReply(opened), local::OK) << opened.status().message();
    }
    EXPECT_TRUE(nodes.AdvanceUntil([&] { return holds(id); }));
    return id;
  }
  int KnowTheNewOne(DatasetId id) {
    int know = 0;
    for (const int node : {0, 2, 3, 4, 5}) know += nodes[node].running() && KeptOn(nodes[node], id).sets > 1 ? 1 : 0;
    return know;
  }
};

class NextLossTest : public MeanwhileTest, public ::testing::WithParamInterface<int> {};

// Two checksums: one is gone with the node that was lost, and the other bears the loss of the next one.
TEST_P(NextLossTest, TheOldSetBearsIt) {
  const DatasetId id = LoseOneAndGoOn("rs", [&](DatasetId dataset) { return KnowTheNewOne(dataset) >= GetParam(); });
  EXPECT_FALSE(clients[0]->Test(id, local::REDUNDANT).test().reached());
  Lose({1, 4});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  EXPECT_EQ(back.ranks[4].tier, local::TIER_REBUILT);
}

INSTANTIATE_TEST_SUITE_P(WhenSoManyNodesKnowTheNewOne, NextLossTest, ::testing::Values(1, 2, 3, 4));

TEST_F(MeanwhileTest, WhenAllHaveNotedTheNewOneTheOldOneGoes) {
  const DatasetId id = LoseOneAndGoOn("rs", [&](DatasetId dataset) { return KnowTheNewOne(dataset) >= 1; });
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  nodes.Pass(std::chrono::seconds(1));
  for (const int node : {0, 2, 3, 4, 5}) {
    const KeptThere there = KeptOn(nodes[node], id);
    EXPECT_EQ(there.sets, node == 2 ? 2u : 1u) << "node " << node;  // ranks 1 and 2 are in two sets
    EXPECT_EQ(there.older_names, 0u) << "node " << node;
  }
  // And it is enough.
  Lose({1, 3, 5});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  EXPECT_EQ(RestoreLatest().id, id);
}

// Also one that was away when all had noted it.
TEST_F(MeanwhileTest, ANodeThatComesBackHearsThatTheOldOneMayGo) {
  const DatasetId id = LoseOneAndGoOn("rs", [&](DatasetId dataset) { return KnowTheNewOne(dataset) >= 1; });
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  KillNode(5);
  nodes[5].Start();
  ComeAgain(5);
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  ASSERT_TRUE(nodes.AdvanceUntil([&] { return KeptOn(nodes[5], id).sets == 1; }));
}

// --- What the level says ---

TEST_F(RedundancyTest, WithoutASchemeTheLevelIsNotSupported) {
  Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Checkpoint(5);
  for (const auto& client : clients) {
    EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::UNSUPPORTED, "redundancy.scheme is `single`");
  }
}

TEST_F(RedundancyTest, NodesThatMayFailTogetherDoNotProtectEachOther) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundancy.group = "switch7";
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Checkpoint(5);
  EXPECT_SAYS(clients[1]->Wait(id, local::REDUNDANT), local::UNSUPPORTED, "one failure group, switch7");
}

// --- With a rhythm of its own ---

class SlowerFlushTest : public RedundancyTest {
 protected:
  void StartWithRhythm() {
    Start("xor");
    for (int i = 0; i < nodes.count(); ++i) {
      nodes[i].config.flush = {.every = 1, .every_redundant = 3, .superseded = true};
      nodes[i].core().Reload(nodes[i].config);
    }
    ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  }
  bool OnPrefix(DatasetId id) { return clients[0]->Test(id, local::PREFIX).test().reached(); }
};

TEST_F(SlowerFlushTest, WhatIsRedundantGoesToThePrefixLessOften) {
  ASSERT_NO_FATAL_FAILURE(StartWithRhythm());
  std::vector<DatasetId> made;
  for (std::uint64_t step = 1; step <= 3; ++step) made.push_back(Redundant(step));
  ASSERT_SAYS(clients[0]->Wait(made[2], local::PREFIX), local::OK, "");
  EXPECT_FALSE(OnPrefix(made[0]));
  EXPECT_FALSE(OnPrefix(made[1]));
}

TEST_F(SlowerFlushTest, ItsPlaceInTheRhythmHoldsOverARestart) {
  ASSERT_NO_FATAL_FAILURE(StartWithRhythm());
  for (std::uint64_t step = 1; step <= 2; ++step) Redundant(step);
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes[0].Start();
  for (Rank rank = 0; rank < kMany; ++rank) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  const DatasetId third = Redundant(3);
  EXPECT_SAYS(clients[0]->Wait(third, local::PREFIX), local::OK, "");
  const DatasetId fourth = Redundant(4);
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_FALSE(OnPrefix(fourth));
}

TEST_F(SlowerFlushTest, WhatCannotBeRedundantGoesAsOftenAsWithoutAScheme) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundancy.group = "switch7";
  ASSERT_NO_FATAL_FAILURE(StartWithRhythm());
  for (std::uint64_t step = 1; step <= 2; ++step) {
    const DatasetId id = Checkpoint(step);
    ASSERT_NE(id, 0u);
    nodes.Pass(std::chrono::seconds(1));
    EXPECT_TRUE(OnPrefix(id)) << step;
  }
}

TEST_F(RedundancyTest, ADaemonThatIsStartedAgainKnowsWhatIsRedundant) {
  Start("rs");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes[0].Start();
  for (Rank rank = 0; rank < kMany; ++rank) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  // It was not made once more: nobody has told of it.
  EXPECT_THAT(nodes[0].Warnings(), ::testing::Not(HasSubstr("redundant")));
}

// Also one that knows only its own parts shows these.
TEST_F(RedundancyTest, EachNodeShowsWhereAllPartsAreAndWhatTheyKeep) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  admin::DatasetRequest request;
  request.set_dataset(Redundant(5));
  request.set_run(nodes[0].Status().runs(0).run());
  for (int i = 0; i < nodes.count(); ++i) {
    std::optional<absl::StatusOr<admin::ShowReply>> answer;
    nodes[i].core().Show(request, [&answer](absl::StatusOr<admin::ShowReply> reply) { answer = std::move(reply); });
    ASSERT_TRUE(nodes.AdvanceUntil([&answer] { return answer.has_value(); }));
    ASSERT_OK(answer->status());
    ASSERT_EQ((*answer)->ranks_size(), static_cast<int>(kMany));
    for (const admin::RankRow& row : (*answer)->ranks()) {
      EXPECT_EQ(row.nodes_size(), 1) << "node " << i << ", rank " << row.rank();
      EXPECT_TRUE(row.has_set()) << "node " << i << ", rank " << row.rank();
    }
  }
}

// --- Faults ---

// What was told to be redundant comes back, whoever was killed and started again meanwhile, and when.
TEST_F(RedundancyTest, NothingRedundantIsLostWhoeverIsKilledAtAnyInstant) {
  Start("xor");
  const char* given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 numbers(seed);
  const auto draw = [&numbers](std::uint64_t below) { return numbers() % below; };
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  DatasetId promised = 0;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    const DatasetId id = Checkpoint(step);
    for (std::uint64_t jobs = draw(600); jobs > 0; --jobs) nodes.Advance();
    const int victim = static_cast<int>(draw(kMany));
    ASSERT_NO_FATAL_FAILURE(KillNode(victim));
    nodes[victim].Start();
    for (Rank rank = 0; rank < kMany; ++rank) {
      if (clients[rank] && !clients[rank]->closed()) continue;
      ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
    }
    const auto code = CodeOfReply(clients[draw(kMany)]->Wait(id, local::REDUNDANT));
    EXPECT_TRUE(code == local::OK || code == local::FAILED || code == local::NOT_FOUND) << code;
    if (code == local::OK) promised = id;
  }
  ASSERT_NE(promised, 0u);
  Lose({static_cast<int>(draw(kMany))});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_GE(RestoreLatest().id, promised);
}

}  // namespace
}  // namespace cairn
