// Parts of redundant datasets that are damaged, or are not where nodes say; slow nodes; and `cairn rebuild`.
// README.md of daemon/core, "Redundancy".
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/io/disk.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundancy_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

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
  // A part has 16'618 bytes, and what is to be kept is counted as 147'894: there is room for either, not for both.
  nodes[2].config.cache.bytes_max = 150'000;
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

// All but the home's node were away when the user removed it: what they have would be enough.
TEST_F(RebuildCommandTest, WhatTheUserHasRemovedIsNotMadeAnew) {
  Start("rs");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  clients.clear();
  for (int node = 1; node < nodes.count(); ++node) nodes[node].Kill();
  nodes.Pass(std::chrono::minutes(1));
  const local::Status removed = nodes[0].Remove(id);
  EXPECT_EQ(removed.code(), local::OK) << removed.message();
  nodes[0].Kill();
  for (int node = 1; node < nodes.count(); ++node) nodes[node].Start();
  for (Rank rank = 0; rank < kMany; ++rank) moved_to[rank] = 1 + static_cast<int>(rank) % (nodes.count() - 1);
  nodes.Pass(std::chrono::minutes(5));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_EQ(CodeOfReply(clients[0]->Latest()), local::NOT_FOUND);
  ExpectRefused(Rebuild(1, id), local::NOT_FOUND, "");
}

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

// It may come back; the user does not want to wait for it.
TEST_F(RebuildCommandTest, APartOnANodeThatIsMissingIsMadeAnew) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(4);
  Redundant(5);
  nodes.network.Vanish(nodes[3].address());
  nodes.Pass(std::chrono::seconds(20));
  const admin::RebuildReply reply = Rebuild(0, id);
  EXPECT_EQ(reply.status().code(), local::OK) << reply.status().message();
  ASSERT_EQ(reply.ranks_size(), 1);
  EXPECT_EQ(reply.ranks(0).rank(), 3u);
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

}  // namespace
}  // namespace cairn
