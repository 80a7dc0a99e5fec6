// All ranks' files out of what is left of FTI's own checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "storage/file/fti/code.h"
#include "storage/file/fti/execution.h"
#include "storage/format/ftiff/layout.h"
#include "tests/storage/file/fti/fti_tree.h"
#include "tests/storage/file/fti/fti_vectors.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn::fti {
namespace {

using testing::VectorFile;
using testing::VectorRun;

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;

// A run's folders on a disk, what was found there, and a scratch folder.
class Tree {
 public:
  explicit Tree(const VectorRun& run) : run_(run) {
    testing::PutRun(disk, "/job", run);
    testing::PutConfig(disk, "/job", run);
    testing::PutTopology(disk, "/job", run);
    EXPECT_OK(MakeDirectories(disk, "/scratch"));
    absl::StatusOr<Execution> found = Find(disk, {.roots = {"/job"}, .config = "/job/config.fti"});
    EXPECT_OK(found);
    if (found.ok()) execution = *std::move(found);
  }

  const Checkpoint& At(Level level) const {
    for (const Checkpoint& checkpoint : execution.checkpoints) {
      if (checkpoint.level == level) return checkpoint;
    }
    ADD_FAILURE() << "no checkpoint of level " << static_cast<int>(level);
    static const Checkpoint none;
    return none;
  }

  absl::StatusOr<Recovered> Get(const Checkpoint& checkpoint) {
    return Recover(disk, execution.topology, checkpoint, "/scratch");
  }

  // Each rank's file is there and is the one that FTI wrote.
  void ExpectWhole(const Checkpoint& checkpoint, const std::string& what) {
    const absl::StatusOr<Recovered> recovered = Get(checkpoint);
    ASSERT_OK(recovered) << what;
    std::uint32_t writers = 0;
    for (std::uint32_t rank = 0; rank < execution.topology.ranks; ++rank) {
      if (!execution.topology.writes(rank)) continue;
      ASSERT_LT(writers, recovered->files.size()) << what;
      const RankFile& file = recovered->files[writers++];
      const std::string name = "Ckpt" + std::to_string(checkpoint.id) + "-Rank" + std::to_string(rank) + ".fti";
      ASSERT_EQ(file.rank, rank) << what;
      EXPECT_EQ(testing::Md5Of(disk, file.path), run_.Named(name).md5) << what << ": " << file.path;
      EXPECT_EQ(file.rebuilt, file.path == "/scratch/" + name) << what;
      EXPECT_EQ(file.metadata.file_bytes, run_.Named(name).bytes.size()) << what;
    }
    EXPECT_EQ(recovered->files.size(), writers) << what;
  }

  FakeDisk disk;
  Execution execution;

 private:
  const VectorRun& run_;
};

// Without the files of the nodes in the bit set `nodes`.
Checkpoint Without(Checkpoint checkpoint, const Topology& topology, std::uint32_t nodes) {
  const auto lost = [&](const auto& entry) { return (nodes >> (entry.first / topology.node_size) & 1) != 0; };
  std::erase_if(checkpoint.files, lost);
  std::erase_if(checkpoint.copies, lost);
  std::erase_if(checkpoint.codes, lost);
  return checkpoint;
}

class RecoverTest : public ::testing::TestWithParam<const char*> {};

std::string NameOf(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
}

TEST_P(RecoverTest, WhatIsWholeIsTakenAsItIs) {
  const auto run = testing::LoadRun(GetParam());
  if (!run) return;
  Tree tree(*run);
  ASSERT_FALSE(tree.execution.checkpoints.empty());
  for (const Checkpoint& checkpoint : tree.execution.checkpoints) {
    if (checkpoint.level == Level::kDifferential) continue;
    tree.ExpectWhole(checkpoint, "checkpoint " + std::to_string(checkpoint.id));
    const absl::StatusOr<Recovered> recovered = tree.Get(checkpoint);
    ASSERT_OK(recovered);
    EXPECT_TRUE(recovered->warnings.empty());
  }
}

TEST_P(RecoverTest, Levels1And4NeedEachFile) {
  const auto run = testing::LoadRun(GetParam());
  if (!run) return;
  Tree tree(*run);
  for (Checkpoint checkpoint : tree.execution.checkpoints) {
    if (checkpoint.level != Level::kLocal && checkpoint.level != Level::kGlobal) continue;
    checkpoint.copies.clear();
    const std::uint32_t rank = checkpoint.files.rbegin()->first;
    checkpoint.files.erase(rank);
    EXPECT_STATUS(kDataLoss, tree.Get(checkpoint), "rank " + std::to_string(rank) + ": its file is not there");
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecoverTest,
                         ::testing::Values("levels-n1g4-A", "levels-n1g4-F", "levels-n2g2-F", "levels-n4g1-F",
                                           "heads-F", "rs-odd-F", "rs-g3-E"),
                         NameOf);

class PartnerTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PartnerTest, AnyLossWithoutTwoNeighboursIsMadeGood) {
  const auto run = testing::LoadRun(GetParam());
  if (!run) return;
  Tree tree(*run);
  const Topology& topology = tree.execution.topology;
  const std::uint32_t nodes = topology.nodes();
  for (std::uint32_t lost = 1; lost < (1u << nodes); ++lost) {
    bool neighbours = false;
    for (std::uint32_t node = 0; node < nodes; ++node) {
      const std::uint32_t left = topology.LeftOf(node * topology.node_size) / topology.node_size;
      neighbours = neighbours || ((lost >> node & 1) != 0 && (lost >> left & 1) != 0);
    }
    const Checkpoint checkpoint = Without(tree.At(Level::kPartner), topology, lost);
    const std::string what = "without nodes " + std::to_string(lost);
    if (neighbours) {
      EXPECT_STATUS(kDataLoss, tree.Get(checkpoint), "its file is not there") << what;
    } else {
      tree.ExpectWhole(checkpoint, what);
    }
  }
}

TEST_P(PartnerTest, ADamagedFileIsALostOne) {
  const auto run = testing::LoadRun(GetParam());
  if (!run) return;
  Tree tree(*run);
  const Checkpoint& checkpoint = tree.At(Level::kPartner);
  tree.disk.FlipBit(checkpoint.files.at(1), 8 * 700);  // in its data
  tree.ExpectWhole(checkpoint, "one damaged file");
  ASSERT_OK_AND_ASSIGN(const Recovered recovered, tree.Get(checkpoint));
  ASSERT_EQ(recovered.warnings.size(), 1u);
  EXPECT_NE(recovered.warnings[0].find("rank 1: " + checkpoint.files.at(1)), std::string::npos);
  for (const auto& [holder, path] : checkpoint.copies) {
    if (tree.execution.topology.LeftOf(holder) == 1) tree.disk.FlipBit(path, 8 * 700);
  }
  EXPECT_STATUS(kDataLoss, tree.Get(checkpoint), "rank 1: ");
}

TEST_P(PartnerTest, CopiesAreNotTakenForThoseOfAnotherRing) {
  const auto run = testing::LoadRun(GetParam());
  if (!run) return;
  Tree tree(*run);
  Checkpoint checkpoint = tree.At(Level::kPartner);
  checkpoint.files.erase(1);
  tree.execution.topology = {.ranks = run->ranks, .node_size = 1, .group_size = run->ranks, .heads = false};
  if (run->node_size == 1) {  // as if ranks had been dealt out the other way round
    std::swap(checkpoint.copies.at(0), checkpoint.copies.at(2));
  }
  EXPECT_STATUS(kDataLoss, tree.Get(checkpoint), "no copies are taken");
}

INSTANTIATE_TEST_SUITE_P(All, PartnerTest,
                         ::testing::Values("levels-n1g4-A", "levels-n1g4-F", "levels-n2g2-F", "rs-g3-E"), NameOf);

class EncodedTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EncodedTest, AnyLossOfUpToHalfAGroupsFilesIsMadeGood) {
  const auto run = testing::LoadRun(GetParam());
  if (!run) return;
  Tree tree(*run);
  const Topology& topology = tree.execution.topology;
  const std::vector<std::uint32_t> group = topology.GroupOf(topology.ranks - 1);
  const std::uint32_t k = topology.group_size;
  for (std::uint32_t lost = 1; lost < (1u << (2 * k)); ++lost) {
    Checkpoint checkpoint = tree.At(Level::kEncoded);
    for (std::uint32_t i = 0; i < k; ++i) {
      if ((lost >> i & 1) != 0) checkpoint.files.erase(group[i]);
      if ((lost >> (k + i) & 1) != 0) checkpoint.codes.erase(group[i]);
    }
    const std::string what = "without files " + std::to_string(lost);
    if (static_cast<std::uint32_t>(std::popcount(lost)) <= k) {
      tree.ExpectWhole(checkpoint, what);
    } else if (lost % (1u << k) != 0) {
      EXPECT_STATUS(kDataLoss, tree.Get(checkpoint), "are needed") << what;
    }
  }
}

TEST_P(EncodedTest, ADamagedFileIsALostOne) {
  const auto run = testing::LoadRun(GetParam());
  if (!run) return;
  Tree tree(*run);
  const Topology& topology = tree.execution.topology;
  const std::vector<std::uint32_t> group = topology.GroupOf(0);
  const Checkpoint& checkpoint = tree.At(Level::kEncoded);
  tree.disk.FlipBit(checkpoint.files.at(group[1]), 8 * 700);
  tree.ExpectWhole(checkpoint, "a damaged file");
  tree.disk.FlipBit(checkpoint.codes.at(group[0]), 8 * 3);
  tree.ExpectWhole(checkpoint, "a damaged code file, too");
  ASSERT_OK_AND_ASSIGN(const Recovered recovered, tree.Get(checkpoint));
  EXPECT_EQ(recovered.warnings.size(), 2u);
}

TEST_P(EncodedTest, AFileWithoutItsTrailerIsALostOne) {
  const auto run = testing::LoadRun(GetParam());
  if (!run) return;
  Tree tree(*run);
  const Checkpoint& checkpoint = tree.At(Level::kEncoded);
  const std::string& path = checkpoint.files.at(0);
  const std::string whole = testing::GetFile(tree.disk, path);
  testing::PutFile(tree.disk, path, whole.substr(0, whole.size() / 2));
  tree.ExpectWhole(checkpoint, "half a file");
  testing::PutFile(tree.disk, path, "");
  tree.ExpectWhole(checkpoint, "an empty file");
}

INSTANTIATE_TEST_SUITE_P(All, EncodedTest,
                         ::testing::Values("levels-n1g4-A", "levels-n1g4-F", "levels-n2g2-F", "rs-odd-F", "rs-g3-E"),
                         NameOf);

TEST(RecoverVectorsTest, HeadsWriteNoFilesAndKeepReplicasOfLevel4) {
  const auto run = testing::LoadRun("heads-F");
  if (!run) return;
  Tree tree(*run);
  Checkpoint checkpoint = tree.At(Level::kGlobal);
  ASSERT_EQ(checkpoint.copies.size(), 2u);
  checkpoint.files.clear();
  tree.ExpectWhole(checkpoint, "replicas alone");
  checkpoint.copies.erase(3);
  EXPECT_STATUS(kDataLoss, tree.Get(checkpoint), "1 of 2 ranks' files are lost\nrank 3: ");
}

TEST(RecoverVectorsTest, AFileOfAnotherCheckpointIsALostOne) {
  const auto run = testing::LoadRun("levels-n1g4-F");
  if (!run) return;
  Tree tree(*run);
  Checkpoint checkpoint = tree.At(Level::kGlobal);
  checkpoint.files[2] = tree.At(Level::kLocal).files.at(2);  // of the same rank, but of checkpoint 1
  EXPECT_STATUS(kDataLoss, tree.Get(checkpoint), "its ckptId is 1, expected 4");
}

TEST(RecoverVectorsTest, DifferentialFilesAreOrdinaryOnes) {
  for (const char* scenario : {"dcp-md5-F", "dcp-crc-F", "dcp-2rank-E"}) {
    const auto run = testing::LoadRun(scenario);
    if (!run) return;
    Tree tree(*run);
    const Checkpoint& checkpoint = tree.At(Level::kDifferential);
    ASSERT_OK_AND_ASSIGN(const Recovered recovered, tree.Get(checkpoint));
    ASSERT_EQ(recovered.files.size(), run->ranks);
    for (const VectorFile& file : run->files) {
      if (file.id != checkpoint.id) continue;
      EXPECT_EQ(testing::Md5Of(tree.disk, recovered.files[file.rank].path), file.md5);
    }
  }
}

// Section 11: FTI's full checkpoint after a differential one holds the changed blocks alone.
TEST(RecoverVectorsTest, AFullCheckpointWithHolesIsRefusedAndTheDifferentialOneBeforeItTaken) {
  const auto run = testing::LoadRun("dcp-then-full-F");
  if (!run) return;
  Tree tree(*run);
  ASSERT_EQ(tree.execution.checkpoints.size(), 2u);
  EXPECT_EQ(tree.execution.checkpoints[0].id, 2);
  EXPECT_STATUS(kDataLoss, tree.Get(tree.execution.checkpoints[0]), "container");
  EXPECT_EQ(tree.execution.checkpoints[1].level, Level::kDifferential);
  EXPECT_OK(tree.Get(tree.execution.checkpoints[1]));
}

TEST(RecoverVectorsTest, ErrorsOfTheScratchFolderPassThrough) {
  const auto run = testing::LoadRun("levels-n1g4-F");
  if (!run) return;
  Tree tree(*run);
  Checkpoint checkpoint = tree.At(Level::kEncoded);
  checkpoint.files.erase(2);
  tree.disk.FailOn({.op = FakeOp::kWrite, .path_part = "/scratch", .status = absl::ResourceExhaustedError("full")});
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, tree.Get(checkpoint), "full");
}

TEST(RecoverRefusalsTest, ManyLostRanksAreCountedNotListed) {
  FakeDisk disk;
  ASSERT_OK(MakeDirectories(disk, "/scratch"));
  const Topology topology = {.ranks = 1000, .node_size = 10, .group_size = 4, .heads = false};
  EXPECT_STATUS(kDataLoss, Recover(disk, topology, {.level = Level::kEncoded, .id = 7}, "/scratch"),
                "1000 of 1000 ranks' files are lost\nrank 0: ");
  EXPECT_STATUS(kDataLoss, Recover(disk, topology, {.level = Level::kLocal, .id = 7}, "/scratch"), "and 992 more");
  // What is to be said of a group is said once, not of each of its ranks.
  const absl::Status lost = Recover(disk, topology, {.level = Level::kEncoded, .id = 7}, "/scratch").status();
  EXPECT_LT(lost.message().size(), 4096u) << lost;
  EXPECT_NE(lost.message().find("\nnot rebuilt: of the group of ranks 0, 10, 20, 30 "), lost.message().npos) << lost;
}

// The lists of each lost rank's group would have 69 billion numbers.
TEST(RecoverRefusalsTest, HugeGroupsAreSurvived) {
  FakeDisk disk;
  ASSERT_OK(MakeDirectories(disk, "/scratch"));
  const Topology topology = {.ranks = 262140, .node_size = 1, .group_size = 262140, .heads = false};
  EXPECT_STATUS(kDataLoss, Recover(disk, topology, {.level = Level::kEncoded, .id = 7}, "/scratch"),
                "groups of 262140 nodes, at most 31 are encoded");
  Checkpoint copies = {.level = Level::kPartner, .id = 7};
  for (std::uint32_t rank = 0; rank < topology.ranks; ++rank) copies.copies[rank] = "/none";
  EXPECT_STATUS(kDataLoss, Recover(disk, topology, copies, "/scratch"), "262140 of 262140");
}

TEST(RecoverRefusalsTest, TheLeftNeighbourOfTheFirstIsTheLastOfItsGroup) {
  const Topology topology = {.ranks = 12, .node_size = 2, .group_size = 3, .heads = false};
  for (std::uint32_t rank = 0; rank < topology.ranks; ++rank) {
    const std::vector<std::uint32_t> group = topology.GroupOf(rank);
    EXPECT_EQ(topology.LeftOf(rank), group[(topology.group_rank(rank) + 2) % 3]) << rank;
  }
}

TEST(RecoverRefusalsTest, NumbersThatDoNotFitAreRefused) {
  FakeDisk disk;
  for (const Topology& topology :
       {Topology{.ranks = 0}, Topology{.ranks = 5, .node_size = 2},
        Topology{.ranks = 6, .node_size = 2, .group_size = 2}, Topology{.ranks = 2, .node_size = 0},
        Topology{.ranks = 2, .group_size = 0}, Topology{.ranks = 2, .heads = true}}) {
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Recover(disk, topology, {}, "/scratch"), "");
  }
}

}  // namespace
}  // namespace cairn::fti
