// Checkpoints that outlive the loss of nodes before they are on the prefix: README.md of daemon/core, "Redundancy".
// Nothing is ever flushed here, so that what comes back comes from redundancy.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/io/disk.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/launch_over_nodes.h"
#include "tests/daemon/core/simulated_nodes.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

class RedundancyTest : public LaunchOverNodesTest {
 protected:
  static constexpr std::uint32_t kMany = 6;
  explicit RedundancyTest(int count = kMany) : LaunchOverNodesTest(count) {}
  void SetUp() override {}
  void TearDown() override {
    nodes.prefix.SetHook(nullptr);
    LaunchOverNodesTest::TearDown();
  }

  void Start(const std::string& scheme, std::uint32_t members = 6) {
    for (int i = 0; i < nodes.count(); ++i) {
      nodes[i].config.flush.every = 0;
      nodes[i].config.lease.term_ms = 10'000;  // of a home that is lost it is waited for
      nodes[i].config.redundancy.scheme = scheme;
      nodes[i].config.redundancy.members = members;
    }
    nodes.StartAll();
  }
  void OpenMany(const std::string& key) { Open(key, kMany); }
  DatasetId Redundant(std::uint64_t step) {
    const DatasetId id = Checkpoint(step);
    EXPECT_NE(id, 0u);
    for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
    return id;
  }
  // They do not come again; their ranks run on the next node that is left.
  void Lose(const std::set<int>& lost) {
    clients.clear();
    for (const int node : lost) {
      if (nodes[node].running()) nodes[node].Kill();
    }
    for (Rank rank = 0; rank < kMany; ++rank) {
      int node = static_cast<int>(rank) % nodes.count();
      while (lost.contains(node)) node = (node + 1) % nodes.count();
      moved_to[rank] = node;
    }
    nodes.Pass(std::chrono::minutes(5));  // leases end, and members are given up
  }
  struct Back {
    DatasetId id = 0;
    std::uint64_t step = 0;
    std::vector<FakeClient::Restored> ranks;
  };
  // What `cairn_latest` says, restored; each rank has what it had at that step.
  Back RestoreLatest() {
    Back back;
    back.ranks.resize(clients.size());
    for (const auto& client : clients) {
      const local::Reply latest = client->Latest();
      EXPECT_EQ(CodeOfReply(latest), local::OK) << latest.status().message();
      back.id = latest.latest().dataset();
      back.step = latest.latest().step();
    }
    std::vector<Memory> memory;
    std::vector<std::function<void()>> restores;
    for (Rank rank = 0; rank < clients.size(); ++rank) memory.push_back(Blank(MemoryOf(rank, back.step)));
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      restores.push_back([&, rank] { back.ranks[rank] = clients[rank]->Restore(back.id, memory[rank]); });
    }
    nodes.Together(std::move(restores));
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      EXPECT_EQ(back.ranks[rank].code, local::OK) << rank << ": " << back.ranks[rank].message;
      const Memory wanted = MemoryOf(rank, back.step);
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(memory[rank][i].bytes == wanted[i].bytes) << rank;
    }
    return back;
  }
  // All are told to ask again, since a part is damaged.
  void RestoreInVain(DatasetId id, std::uint64_t step) {
    std::vector<std::function<void()>> restores;
    for (Rank rank = 0; rank < kMany; ++rank) {
      EXPECT_EQ(clients[rank]->Latest().latest().dataset(), id);
      restores.push_back([this, rank, id, step] {
        Memory memory = Blank(MemoryOf(rank, step));
        EXPECT_EQ(clients[rank]->Restore(id, memory).code, local::RETRY);
      });
    }
    nodes.Together(std::move(restores));
  }
  // After these nodes were lost all ranks are back at `step`, those of these nodes rebuilt.
  void ExpectBackWithout(const std::set<int>& lost, DatasetId id, std::uint64_t step) {
    Lose(lost);
    ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
    const Back back = RestoreLatest();
    EXPECT_EQ(back.id, id);
    EXPECT_EQ(back.step, step);
    for (Rank rank = 0; rank < kMany; ++rank) {
      const bool gone = lost.contains(static_cast<int>(rank) % nodes.count());
      // The step is a value, which comes from rank 0's file.
      const local::Tier wanted = gone || lost.contains(0) ? local::TIER_REBUILT : back.ranks[rank].tier;
      EXPECT_EQ(back.ranks[rank].tier, wanted) << "rank " << rank;
      EXPECT_NE(back.ranks[rank].tier, local::TIER_PREFIX);
      if (!gone && !lost.contains(0)) {
        EXPECT_LE(back.ranks[rank].tier, local::TIER_PARTNER) << "rank " << rank;
      }
    }
  }
};

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
    OpenMany("job.2");
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
    EXPECT_EQ(there.sets, node == 0 ? 2u : 1u) << "node " << node;  // ranks 0 and 1 are in two sets
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

// A file of the dataset in the node's cache, by a part of its name; empty: none.
std::string FindFile(SimulatedNodes::Node& node, DatasetId id, const std::string& part) {
  const std::string folder = node.FolderOf(id);
  for (const std::string& in : {folder, folder + "/.scr"}) {
    const auto names = node.cache.List(in);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (name.find(part) != std::string::npos) return in + "/" + name;
    }
  }
  return "";
}

void Damage(SimulatedNodes::Node& node, const std::string& path) {
  ASSERT_NE(path, "");
  ASSERT_OK_AND_ASSIGN(const auto file, node.cache.Open(path, {.writable = true}));
  ASSERT_OK_AND_ASSIGN(const FileInfo info, file->Info());
  std::byte last{};
  ASSERT_OK(file->ReadAt(info.bytes - 1, std::span(&last, 1)));
  last ^= std::byte{1};
  ASSERT_OK(file->WriteAt(info.bytes - 1, std::span(&last, 1)));
}

class DamagedPartTest : public RedundancyTest, public ::testing::WithParamInterface<int> {
 protected:
  explicit DamagedPartTest(int count = kMany) : RedundancyTest(count) {}
  // All daemons are started again: no image is left.
  void RestartAll() {
    clients.clear();
    for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
    for (int i = 0; i < nodes.count(); ++i) {
      nodes[i].cache.Restart(3);
      nodes[i].Start();
    }
    nodes.Pass(std::chrono::minutes(5));
  }
  void DamageRank(DatasetId id, Rank rank) {
    SimulatedNodes::Node& node = nodes[NodeOf(rank)];
    ASSERT_NO_FATAL_FAILURE(Damage(node, FindFile(node, id, fmt::format("Ckpt{}-Rank{}.fti", id, rank))));
  }
};

TEST_P(DamagedPartTest, IsMadeAnewOfWhatTheOthersKeep) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  const auto bad = static_cast<Rank>(GetParam());
  ASSERT_NO_FATAL_FAILURE(RestartAll());
  ASSERT_NO_FATAL_FAILURE(DamageRank(id, bad));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  RestoreInVain(id, 5);
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  EXPECT_EQ(back.step, 5u);
  EXPECT_EQ(back.ranks[bad].tier, local::TIER_REBUILT);
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
}

INSTANTIATE_TEST_SUITE_P(OfTheHomeAndOfAnother, DamagedPartTest, ::testing::Values(0, 2));

// Two ranks on each of three nodes.
class DamagedPartOfSeveralTest : public DamagedPartTest {
 protected:
  DamagedPartOfSeveralTest() : DamagedPartTest(3) {}
  std::uint64_t InodeOf(DatasetId id, Rank rank) {
    SimulatedNodes::Node& node = nodes[NodeOf(rank)];
    const auto info = node.cache.Info(FindFile(node, id, fmt::format("Ckpt{}-Rank{}.fti", id, rank)));
    return info.ok() ? info->inode : 0;
  }
};

TEST_P(DamagedPartOfSeveralTest, OnlyThatRankIsMadeAnew) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  const auto bad = static_cast<Rank>(GetParam());
  const Rank beside = (bad + 3) % kMany;
  ASSERT_NO_FATAL_FAILURE(RestartAll());
  const std::uint64_t inode = InodeOf(id, beside);
  ASSERT_NE(inode, 0u);
  ASSERT_NO_FATAL_FAILURE(DamageRank(id, bad));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  RestoreInVain(id, 5);
  EXPECT_EQ(InodeOf(id, beside), inode);
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  EXPECT_EQ(back.step, 5u);
  EXPECT_EQ(InodeOf(id, beside), inode) << "it was made anew, too";
  for (Rank rank = 0; rank < kMany; ++rank) {
    EXPECT_EQ(back.ranks[rank].tier == local::TIER_REBUILT, rank == bad || bad == 0) << rank;
  }
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
}

INSTANTIATE_TEST_SUITE_P(OfTheHomeAndOfOthers, DamagedPartOfSeveralTest, ::testing::Values(0, 3, 4));

// A flush reads it where it is. The others' parts are not given up for it: it is made anew, and the flush goes on.
TEST_P(DamagedPartOfSeveralTest, AFlushThatMeetsItGoesOnWithWhatIsMadeAnew) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  const auto bad = static_cast<Rank>(GetParam());
  const std::uint64_t inode = InodeOf(id, (bad + 3) % kMany);
  ASSERT_NO_FATAL_FAILURE(DamageRank(id, bad));
  EXPECT_SAYS(clients[0]->Wait(id, local::PREFIX), local::OK, "");
  EXPECT_EQ(InodeOf(id, (bad + 3) % kMany), inode);
}

TEST_F(RedundancyTest, WhatOneKeepsIsDamagedAndTheOthersAreEnough) {
  Start("rs");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  ASSERT_NO_FATAL_FAILURE(Damage(nodes[2], FindFile(nodes[2], id, "reddesc.er.2.rs")));
  ExpectBackWithout({1}, id, 5);
}

TEST_F(RedundancyTest, WhatIsDamagedIsNotUsedWhereNothingElseIsLeft) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  ASSERT_NO_FATAL_FAILURE(Damage(nodes[2], FindFile(nodes[2], id, "reddesc.er.2.xor")));
  Lose({1});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  for (const auto& client : clients) EXPECT_SAYS(client->Latest(), local::NOT_FOUND, "no checkpoint");
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("rank 2: its files were found to be damaged"));
}

TEST_F(RedundancyTest, ANodeWithoutRoomKeepsNothingUntilItHasSome) {
  nodes[2].config.cache.bytes_max = 24'000;  // a part has 16'618
  Start("partner");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Checkpoint(5);
  ASSERT_NE(id, 0u);
  ASSERT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
  ASSERT_TRUE(nodes.AdvanceUntil(
      [this] { return nodes[0].Warnings().find("does not become redundant") != std::string::npos; }));
  EXPECT_FALSE(clients[0]->Test(id, local::REDUNDANT).test().reached());
  nodes[2].config.cache.bytes_max = 1 << 30;
  nodes[2].core().Reload(nodes[2].config);
  EXPECT_SAYS(clients[0]->Wait(id, local::REDUNDANT), local::OK, "");
}

TEST_F(RedundancyTest, ANodeThatComesBackEmptyIsMadeGoodAtOnce) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  ASSERT_NO_FATAL_FAILURE(KillNode(3));
  ASSERT_OK(nodes[3].LoseParts(id));
  nodes[3].Start();
  ASSERT_NO_FATAL_FAILURE(ComeAgain(3));
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  Lose({4});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  EXPECT_EQ(back.ranks[4].tier, local::TIER_REBUILT);
}

// What comes from one node takes 10 ms for each KiB, and each word from it or to it 100 ms more.
TEST_F(RedundancyTest, ASlowPeerHoldsNothingUpForGood) {
  Start("rs");
  std::uint64_t slow_bytes = 0;
  nodes.files.on_read = [&](const std::string& address, std::uint64_t bytes) {
    if (address != nodes[3].address()) return;
    slow_bytes += bytes;
    SleepFor(std::chrono::milliseconds(10) * (1 + bytes / 1024));
  };
  nodes.network.Slow(nodes[3].address(), std::chrono::milliseconds(100));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  const std::uint64_t before = slow_bytes;
  EXPECT_GT(before, 0u);
  ExpectBackWithout({1}, id, 5);
  EXPECT_GT(slow_bytes, before) << "it was needed, or the test says nothing";
}

// Two nodes do not have what they say, and a third is lost.
class UntrueTest : public RedundancyTest {
 protected:
  // All daemons go on, and their words with them.
  void NothingThere(int node, DatasetId id) { ASSERT_OK(nodes[node].LoseParts(id)); }
  // Its files of `id` are those of `other`.
  void AnothersThere(int node, DatasetId id, DatasetId other) {
    Disk& disk = nodes[node].cache;
    const std::string folder = nodes[node].FolderOf(id), from = nodes[node].FolderOf(other);
    for (const std::string& in : {std::string(), std::string("/.scr")}) {
      ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, disk.List(from + in));
      for (const std::string& name : names) {
        if (name == ".scr") continue;
        std::string here = name;
        const std::string number = fmt::format("Ckpt{}-", other);
        if (here.starts_with(number)) here = fmt::format("Ckpt{}-", id) + here.substr(number.size());
        ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadWhole(disk, from + in + "/" + name, 64 << 20));
        ASSERT_OK(ReplaceFile(disk, folder + in + "/" + here, bytes));
      }
    }
  }
  Back RestoredWithout(int node) {
    Lose({node});
    OpenMany("job.2");
    return RestoreLatest();
  }
  void ExpectMadeAnew(DatasetId id, int lost) {
    const Back back = RestoredWithout(lost);
    EXPECT_EQ(back.id, id);
    EXPECT_EQ(back.step, 5u);
    EXPECT_EQ(back.ranks[static_cast<Rank>(lost)].tier, local::TIER_REBUILT);
    EXPECT_EQ(back.ranks[3].tier, local::TIER_REBUILT);
    EXPECT_THAT(nodes[lost == 0 ? 1 : 0].Warnings(), HasSubstr("has not what it says of rank 3"));
  }
};

// The home knows from before where all was, or it is lost, and another has to believe the nodes.
class UntrueOfTwoTest : public UntrueTest, public ::testing::WithParamInterface<int> {};

TEST_P(UntrueOfTwoTest, WhatANodeHasNotIsMadeAnewLikeWhatIsLost) {
  Start("rs");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  NothingThere(3, id);
  ExpectMadeAnew(id, GetParam());
}

TEST_P(UntrueOfTwoTest, FilesOfAnotherDatasetAreNotTaken) {
  Start("rs");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId other = Redundant(4), id = Redundant(5);
  AnothersThere(3, id, other);
  ExpectMadeAnew(id, GetParam());
}

INSTANTIATE_TEST_SUITE_P(TheHomeOrAnotherIsLost, UntrueOfTwoTest, ::testing::Values(0, 1));

// Nobody is lost, and a restore by another node's daemon finds it: nothing is there, or other bytes.
class UntrueToARestoreTest : public UntrueTest, public ::testing::WithParamInterface<bool> {};

TEST_P(UntrueToARestoreTest, ItIsMadeAnewAndAskedForAgain) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  if (GetParam()) {
    NothingThere(3, id);
  } else {
    ASSERT_NO_FATAL_FAILURE(Damage(nodes[3], FindFile(nodes[3], id, fmt::format("Ckpt{}-Rank3.fti", id))));
  }
  Close();
  moved_to[3] = 4;  // an image of it may still be with its daemon
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  RestoreInVain(id, 5);
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  EXPECT_EQ(back.ranks[3].tier, local::TIER_REBUILT);
}

INSTANTIATE_TEST_SUITE_P(NothingOrOtherBytes, UntrueToARestoreTest, ::testing::Bool());

TEST_F(UntrueTest, WhereNothingElseIsLeftItIsSaidAndAnOlderOneIsTaken) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId older = Redundant(4), id = Redundant(5);
  NothingThere(3, id);
  const Back back = RestoredWithout(1);
  EXPECT_EQ(back.id, older);
  EXPECT_EQ(back.step, 4u);
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("too many parts are not where nodes say"));
}

// --- By hand ---

class RebuildCommandTest : public RedundancyTest {
 protected:
  admin::RebuildReply Rebuild(int node, DatasetId id) {
    admin::RebuildRequest request;
    request.set_run(SimulatedNodes::kPrefix);
    request.set_dataset(id);
    std::optional<admin::RebuildReply> answer;
    nodes[node].core().Rebuild(request, [&answer](admin::RebuildReply reply) { answer = std::move(reply); });
    EXPECT_TRUE(nodes.AdvanceUntil([&answer] { return answer.has_value(); }));
    return answer.value_or(admin::RebuildReply());
  }
  static void ExpectRefused(const admin::RebuildReply& reply, local::Code code, const std::string& part) {
    EXPECT_EQ(reply.status().code(), code) << reply.status().message();
    EXPECT_THAT(reply.status().message(), HasSubstr(part));
    EXPECT_EQ(reply.ranks_size(), 0);
  }
};

// An older one, which no launch would have asked for.
TEST_F(RebuildCommandTest, WhatIsLostIsMadeAnewAndSaysOfWhat) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(4);
  Redundant(5);
  admin::RebuildReply reply = Rebuild(0, id);
  EXPECT_EQ(reply.status().code(), local::OK) << reply.status().message();
  EXPECT_EQ(reply.ranks_size(), 0) << "nothing is lost";
  ExpectRefused(Rebuild(2, id), local::FAILED_PRECONDITION, "it is for that one to do");
  Lose({3});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  RestoreLatest();
  reply = Rebuild(0, id);
  EXPECT_EQ(reply.status().code(), local::OK) << reply.status().message();
  ASSERT_EQ(reply.ranks_size(), 1);
  EXPECT_EQ(reply.ranks(0).rank(), 3u);
  EXPECT_GT(reply.ranks(0).bytes(), 10'000u);
  EXPECT_EQ(reply.ranks(0).set().ranks_size(), 6);
  EXPECT_THAT(reply.ranks(0).nodes(), ::testing::ElementsAre("n1", "n2", "n3", "n5", "n6"));
  EXPECT_EQ(Rebuild(0, id).ranks_size(), 0);
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
}

TEST_F(RebuildCommandTest, WhatCannotBeDoneIsSaid) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(4);
  const DatasetId newest = Redundant(5);
  Lose({3, 4});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectRefused(Rebuild(0, id), local::DATA_LOSS, "no node has ranks 3-4 of dataset");
  ExpectRefused(Rebuild(0, newest + 7), local::NOT_FOUND, "no node that answers");
}

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
