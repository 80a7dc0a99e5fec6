// FTI's executions found in all the forms that their folders come in, and hostile trees survived.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "storage/file/fti/execution.h"
#include "tests/storage/file/fti/fti_tree.h"
#include "tests/storage/file/fti/fti_vectors.h"
#include "tests/storage/file/fti/sample_export.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::fti {
namespace {

using testing::kExecution;
using testing::SampleExport;

constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

std::string TextOf(const Topology& topology) {
  return fmt::format("{}/{}/{}{}", topology.ranks, topology.node_size, topology.group_size,
                     topology.heads ? " heads" : "");
}

// "<id>@<level>" of each checkpoint, in order.
std::string TextOf(const std::vector<Checkpoint>& checkpoints) {
  std::vector<std::string> texts;
  for (const Checkpoint& checkpoint : checkpoints) {
    texts.push_back(fmt::format("{}@{}", checkpoint.id, static_cast<int>(checkpoint.level)));
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

bool Mentions(const std::vector<std::string>& warnings, std::string_view text) {
  for (const std::string& warning : warnings) {
    if (warning.find(text) != std::string::npos) return true;
  }
  return false;
}

constexpr Topology kFourNodes = {.ranks = 4, .node_size = 1, .group_size = 4, .heads = false};
constexpr Topology kTwoByTwo = {.ranks = 8, .node_size = 2, .group_size = 2, .heads = false};

class FindTest : public ::testing::Test {
 protected:
  // An execution written by Cairn below `folder`.
  void Put(const std::string& folder, const Topology& topology, Level level, std::int32_t id) {
    const SampleExport sample(topology, level, ftiff::Letter::kF, id);
    Export what = sample.what;
    what.folder = folder;
    ASSERT_OK(Write(disk_, what));
  }

  FakeDisk disk_;
};

TEST_F(FindTest, ConfigurationAndTopologyFileTellAll) {
  Put("/job", kTwoByTwo, Level::kPartner, 7);
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job"}, .config = "/job/config.fti"}));
  EXPECT_EQ(found.id, "cairn");
  EXPECT_EQ(TextOf(found.topology), "8/2/2");
  EXPECT_EQ(TextOf(found.checkpoints), "7@2");
  EXPECT_EQ(found.checkpoints[0].files.size(), 8u);
  EXPECT_EQ(found.checkpoints[0].copies.at(3), "/job/Local/node1/cairn/l2/Ckpt7-Pcof3.fti");
  EXPECT_TRUE(found.warnings.empty());
}

TEST_F(FindTest, WithoutAConfigurationTheFilesTellWhatTheTopologyFileDoesNot) {
  for (const Level level : {Level::kPartner, Level::kEncoded}) {
    const std::string folder = fmt::format("/job{}", static_cast<int>(level));
    Put(folder, kTwoByTwo, level, 7);
    ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {folder}}));
    EXPECT_EQ(TextOf(found.topology), "8/2/2") << folder;
  }
}

TEST_F(FindTest, AGatheredFolderOfEachNodeIsEnough) {
  for (const Level level : {Level::kPartner, Level::kEncoded}) {
    const std::string from = fmt::format("/job{}", static_cast<int>(level));
    const std::string to = fmt::format("/gathered{}", static_cast<int>(level));
    Put(from, kFourNodes, level, 7);
    ASSERT_OK(MakeDirectories(disk_, to));
    for (int node = 0; node < 4; ++node) {
      ASSERT_OK(disk_.Rename(fmt::format("{}/Local/node{}", from, node), fmt::format("{}/host-{}", to, node)));
    }
    ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {to}}));
    EXPECT_EQ(TextOf(found.topology), "4/1/4") << to;
    EXPECT_EQ(found.checkpoints[0].files.size(), 4u);
    EXPECT_TRUE(Mentions(found.warnings, "the number of ranks is not told: 4"));
  }
}

TEST_F(FindTest, TheConfigurationSaysWhereTheTopologyFileIs) {
  Put("/job", kFourNodes, Level::kLocal, 7);
  ASSERT_OK(RemoveTree(disk_, "/job/Local/node3"));
  ASSERT_OK_AND_ASSIGN(Execution found, Find(disk_, {.roots = {"/job/Local"}, .config = "/job/config.fti"}));
  EXPECT_EQ(TextOf(found.topology), "4/1/4");
  EXPECT_TRUE(found.warnings.empty());
  testing::PutFile(disk_, "/job/other.fti",
                   "[basic]\nnode_size = 1\ngroup_size = 1\nmeta_dir = Meta\n[restart]\nexec_id = cairn\n");
  ASSERT_OK_AND_ASSIGN(found, Find(disk_, {.roots = {"/job/Local"}, .config = "/job/other.fti"}));
  EXPECT_EQ(TextOf(found.topology), "4/1/1");
  EXPECT_TRUE(found.warnings.empty());
}

TEST_F(FindTest, WithoutGroupsTheNumberOfRanksMustBeTold) {
  for (const Level level : {Level::kLocal, Level::kGlobal}) {
    const std::string folder = fmt::format("/job{}", static_cast<int>(level));
    Put(folder, kFourNodes, level, 7);
    ASSERT_OK(RemoveTree(disk_, folder + "/Meta"));
    EXPECT_STATUS(kFailedPrecondition, Find(disk_, {.roots = {folder}}), "say --ranks 4");
    ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {folder}, .ranks = 4}));
    EXPECT_EQ(found.topology.ranks, 4u);
  }
}

// Nodes alone say nothing about the last place in each of them.
TEST_F(FindTest, TheNumberOfNodesDoesNotTellThatOfRanks) {
  constexpr Topology kTwoByFour = {.ranks = 8, .node_size = 4, .group_size = 1, .heads = false};
  Put("/two", kTwoByFour, Level::kGlobal, 7);
  for (int rank : {6, 7}) ASSERT_OK(disk_.Remove(fmt::format("/two/Global/cairn/l4/Ckpt7-Rank{}.fti", rank)));
  EXPECT_STATUS(kFailedPrecondition, Find(disk_, {.roots = {"/two"}}),
                "Topology.fti tells nodes only (2), and none from rank 6 on has left a file. Say --node-size, or, if "
                "that is all, --ranks 6");
  EXPECT_STATUS(kFailedPrecondition, Find(disk_, {.roots = {"/two"}, .group_size = 1}), "Say --node-size");
  for (const Search& search : {Search{.roots = {"/two"}, .node_size = 4}, Search{.roots = {"/two"}, .ranks = 8},
                               Search{.roots = {"/two"}, .config = "/two/config.fti"}}) {
    ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, search));
    EXPECT_EQ(TextOf(found.topology), "8/4/1");
  }
  constexpr Topology kOneByFour = {.ranks = 4, .node_size = 4, .group_size = 1, .heads = false};
  Put("/one", kOneByFour, Level::kLocal, 7);
  ASSERT_OK(disk_.Remove("/one/Local/node0/cairn/l1/Ckpt7-Rank3.fti"));
  EXPECT_STATUS(kFailedPrecondition, Find(disk_, {.roots = {"/one"}}), "nodes only (1), and none from rank 3 on");
}

TEST_F(FindTest, TheNodesFoldersTellTheirSizeWhereOnlyOneFits) {
  constexpr Topology kTwoByFour = {.ranks = 8, .node_size = 4, .group_size = 1, .heads = false};
  Put("/job", kTwoByFour, Level::kLocal, 7);
  ASSERT_OK(disk_.Remove("/job/Local/node1/cairn/l1/Ckpt7-Rank7.fti"));
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job"}}));
  EXPECT_EQ(TextOf(found.topology), "8/4/1");
}

TEST_F(FindTest, WhereANodeIsLostCodeFilesTellTheGroup) {
  Put("/job", kFourNodes, Level::kEncoded, 7);
  ASSERT_OK(RemoveTree(disk_, "/job/Local/node3"));
  ASSERT_OK(RemoveTree(disk_, "/job/Meta"));
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job"}}));
  EXPECT_EQ(TextOf(found.topology), "4/1/4");
}

TEST_F(FindTest, OnlyTheNewestCheckpointsTellTheGroups) {
  Put("/job1", {.ranks = 4, .node_size = 1, .group_size = 2, .heads = false}, Level::kPartner, 1);
  for (int id = 2; id <= 17; ++id) Put(fmt::format("/job{}", id), kFourNodes, Level::kPartner, id);
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/"}}));
  EXPECT_EQ(TextOf(found.topology), "4/1/4");
}

TEST_F(FindTest, ARingThatIsNotClosedIsNotGuessed) {
  Put("/job", kFourNodes, Level::kPartner, 7);
  ASSERT_OK(RemoveTree(disk_, "/job/Local/node3"));
  ASSERT_OK(RemoveTree(disk_, "/job/Meta"));
  EXPECT_STATUS(kFailedPrecondition, Find(disk_, {.roots = {"/job"}}),
                "--node-size, --group-size, --ranks and --heads");
  ASSERT_OK_AND_ASSIGN(const Execution found,
                       Find(disk_, {.roots = {"/job"}, .node_size = 1, .group_size = 4, .ranks = 4}));
  EXPECT_EQ(TextOf(found.topology), "4/1/4");
}

TEST_F(FindTest, TheExecutionsOwnFoldersAndThoseOfLevelsMayBeRoots) {
  Put("/job", kFourNodes, Level::kLocal, 7);
  std::vector<std::string> roots;
  for (int node = 0; node < 4; ++node) roots.push_back(fmt::format("/job/Local/node{}/cairn", node));
  ASSERT_OK_AND_ASSIGN(Execution found, Find(disk_, {.roots = roots, .ranks = 4}));
  EXPECT_EQ(found.id, "cairn");
  EXPECT_EQ(found.checkpoints[0].files.size(), 4u);
  for (std::string& root : roots) root += "/l1/";
  ASSERT_OK_AND_ASSIGN(found, Find(disk_, {.roots = roots, .ranks = 4}));
  EXPECT_EQ(found.id, "cairn");
  EXPECT_EQ(found.checkpoints[0].files.size(), 4u);
}

TEST_F(FindTest, OverlappingRootsCountOnce) {
  Put("/job", kFourNodes, Level::kLocal, 7);
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job/Local/node1", "/job", "/job/", "/"}}));
  EXPECT_EQ(found.checkpoints[0].files.size(), 4u);
  EXPECT_TRUE(found.warnings.empty());
}

TEST_F(FindTest, TheNewestComesFirstWhateverItsLevel) {
  Put("/a", kFourNodes, Level::kLocal, 3);
  Put("/b", kFourNodes, Level::kGlobal, 9);
  Put("/c", kFourNodes, Level::kPartner, 10);
  Put("/d", kFourNodes, Level::kLocal, 9);
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/"}}));
  EXPECT_EQ(TextOf(found.checkpoints), "10@2 9@1 9@4 3@1");
}

TEST_F(FindTest, OneOfSeveralExecutionsMustBeNamed) {
  Put("/a", kFourNodes, Level::kLocal, 3);
  Put("/b", kFourNodes, Level::kLocal, 4);
  for (int node = 0; node < 4; ++node) {
    ASSERT_OK(disk_.Rename(fmt::format("/b/Local/node{}/cairn", node), fmt::format("/b/Local/node{}/other", node)));
  }
  EXPECT_STATUS(kFailedPrecondition, Find(disk_, {.roots = {"/"}}), "2 executions (cairn, other): say --execution");
  ASSERT_OK_AND_ASSIGN(Execution found, Find(disk_, {.roots = {"/"}, .execution = "other", .ranks = 4}));
  EXPECT_EQ(TextOf(found.checkpoints), "4@1");
  ASSERT_OK_AND_ASSIGN(found, Find(disk_, {.roots = {"/"}, .config = "/a/config.fti"}));
  EXPECT_EQ(TextOf(found.checkpoints), "3@1");
  EXPECT_STATUS(kNotFound, Find(disk_, {.roots = {"/"}, .execution = "third"}), "of the execution third");
}

TEST_F(FindTest, OptionsOverruleTheConfiguration) {
  Put("/job", kFourNodes, Level::kLocal, 3);
  ASSERT_OK_AND_ASSIGN(
      const Execution found,
      Find(disk_, {.roots = {"/job"}, .config = "/job/config.fti", .node_size = 2, .group_size = 1, .ranks = 4}));
  EXPECT_EQ(TextOf(found.topology), "4/2/1");
  EXPECT_TRUE(Mentions(found.warnings, "Topology.fti: 4 nodes, passed over"));
}

TEST_F(FindTest, NumbersThatContradictEachOtherAreRefused) {
  Put("/job", kFourNodes, Level::kLocal, 3);
  EXPECT_STATUS(kInvalidArgument, Find(disk_, {.roots = {"/job"}, .node_size = 3, .ranks = 4}), "no multiple of 3");
  EXPECT_STATUS(kInvalidArgument, Find(disk_, {.roots = {"/job"}, .node_size = 1, .group_size = 3, .ranks = 4}),
                "4 nodes are no multiple of 3 nodes a group");
  EXPECT_STATUS(kInvalidArgument, Find(disk_, {.roots = {"/job"}, .node_size = 0}), "may be 0");
  EXPECT_STATUS(kInvalidArgument, Find(disk_, {.roots = {"/job"}, .node_size = 1, .heads = true}), "heads");
  testing::PutFile(disk_, "/job/config.fti", "[basic]\nnode_size = two\n");
  EXPECT_STATUS(kInvalidArgument, Find(disk_, {.roots = {"/job"}, .config = "/job/config.fti"}), "line 2: node_size");
}

TEST_F(FindTest, FilesOfRanksThatThereAreNotArePassedOver) {
  Put("/job", kFourNodes, Level::kLocal, 3);
  testing::PutFile(disk_, "/job/Local/node0/cairn/l1/Ckpt3-Rank4.fti", "garbage");
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job"}, .config = "/job/config.fti"}));
  EXPECT_EQ(found.checkpoints[0].files.size(), 4u);
  EXPECT_TRUE(Mentions(found.warnings, "Ckpt3-Rank4.fti: of 4 ranks there is none such"));
}

TEST_F(FindTest, NothingOrNowhereIsNotFound) {
  EXPECT_STATUS(kNotFound, Find(disk_, {.roots = {"/none"}}), "/none");
  ASSERT_OK(MakeDirectories(disk_, "/empty/exec/l1"));
  EXPECT_STATUS(kNotFound, Find(disk_, {.roots = {"/empty"}}), "no checkpoint files of FTI below /empty");
  EXPECT_STATUS(kNotFound, Find(disk_, {.roots = {"/empty"}, .config = "/none.fti"}), "/none.fti");
  EXPECT_STATUS(kInvalidArgument, Find(disk_, {.roots = {"empty"}}), "not an absolute path");
  testing::PutFile(disk_, "/file", "x");
  EXPECT_FALSE(Find(disk_, {.roots = {"/file"}}).ok());
}

TEST_F(FindTest, FilesOfOtherModesAreNotTakenForFtiFf) {
  testing::PutFile(disk_, "/job/Local/node0/exec/l1/Ckpt1-Rank0.fti", std::string(4400, 'B'));
  testing::PutFile(disk_, "/job/Meta/exec/l1/sector0-group0.fti", "[ckpt_info]\nckpt_id = 1\n");
  EXPECT_STATUS(kNotFound, Find(disk_, {.roots = {"/job"}}),
                "checkpoint 1 (level 1): none of its files is whole FTI-FF (ckpt_io = 3): they are damaged, or of "
                "another I/O mode (1, POSIX, names them alike, and /job/Meta/exec/l1/sector0-group0.fti is of such");
}

TEST_F(FindTest, UnfinishedCheckpointsAndStashesArePassedOver) {
  Put("/job", kFourNodes, Level::kLocal, 3);
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadWhole(disk_, "/job/Local/node0/cairn/l1/Ckpt3-Rank0.fti", 1 << 20));
  for (const char* folder : {"tmp", "tmp/l1", "stash/l1", "stage/l1"}) {
    testing::PutFile(disk_, fmt::format("/job/Local/node0/cairn/{}/Ckpt4-Rank0.fti", folder), bytes);
  }
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job"}}));
  EXPECT_EQ(TextOf(found.checkpoints), "3@1");
}

TEST_F(FindTest, HostileTreesAreSurvived) {
  Put("/job", kFourNodes, Level::kLocal, 3);
  const std::string level = "/job/Local/node0/cairn/l1/";
  ASSERT_OK(disk_.Symlink("/job", "/job/Local/loop"));
  ASSERT_OK(disk_.Symlink("/job/Local/node1/cairn/l1/Ckpt3-Rank1.fti", level + "Ckpt9-Rank0.fti"));
  ASSERT_OK(MakeDirectories(disk_, level + "Ckpt8-Rank0.fti"));
  for (const char* name : {"Ckpt03-Rank0.fti", "Ckpt3-Rank00.fti", "Ckpt-3-Rank0.fti", "Ckpt3-Rank99999999999.fti",
                           "Ckpt3-Pcof0.fti", "Ckpt3-RSed0.fti", "dCPFile-Rank0.fti", "\xff\xfe.fti", ".fti"}) {
    testing::PutFile(disk_, level + name, "garbage");
  }
  std::string deep = "/job";
  for (int i = 0; i < 12; ++i) deep += "/d";
  testing::PutFile(disk_, deep + "/exec/l1/Ckpt99-Rank0.fti", "garbage");
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job"}}));
  EXPECT_EQ(TextOf(found.checkpoints), "3@1");
  EXPECT_EQ(found.checkpoints[0].files.size(), 4u);
  EXPECT_TRUE(found.checkpoints[0].copies.empty() && found.checkpoints[0].codes.empty());
  EXPECT_TRUE(Mentions(found.warnings, "/job/Local/loop: a symbolic link, not followed"));
  EXPECT_TRUE(Mentions(found.warnings, "Ckpt9-Rank0.fti: not a regular file"));
  EXPECT_TRUE(Mentions(found.warnings, "Ckpt8-Rank0.fti: not a regular file"));
  EXPECT_TRUE(Mentions(found.warnings, "Ckpt3-Pcof0.fti: does not belong into this folder"));
  EXPECT_TRUE(Mentions(found.warnings, "too deep"));
}

TEST_F(FindTest, WarningsAreBounded) {
  Put("/job", kFourNodes, Level::kLocal, 3);
  for (int i = 0; i < 500; ++i) {
    testing::PutFile(disk_, fmt::format("/job/Local/node0/cairn/l1/Ckpt3-Pcof{}.fti", i), "garbage");
  }
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job"}}));
  EXPECT_EQ(found.warnings.size(), 65u);
  EXPECT_TRUE(Mentions(found.warnings, "more of such"));
}

TEST_F(FindTest, HugeAndBrokenTextFilesAreRefusedOrPassedOver) {
  Put("/job", kFourNodes, Level::kLocal, 3);
  testing::PutFile(disk_, "/job/huge.fti", std::string(5 << 20, 'x'));
  EXPECT_FALSE(Find(disk_, {.roots = {"/job"}, .config = "/job/huge.fti"}).ok());
  testing::PutFile(disk_, "/job/Meta/cairn/Topology.fti", std::string(5000, 'x'));
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job"}, .ranks = 4}));
  EXPECT_TRUE(Mentions(found.warnings, "Topology.fti: line 1 has 5000 bytes"));
  EXPECT_EQ(TextOf(found.topology), "4/1/1");
}

TEST_F(FindTest, AFolderThatCannotBeReadIsPassedOverWithAWarning) {
  Put("/job", kFourNodes, Level::kLocal, 3);
  disk_.FailOn({.op = FakeOp::kList, .path_part = "/node2", .status = absl::PermissionDeniedError("no entry")});
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job"}}));
  EXPECT_EQ(found.checkpoints[0].files.size(), 3u);
  EXPECT_TRUE(Mentions(found.warnings, "no entry"));
}

TEST_F(FindTest, DifferentialFilesOfLayoutBDoNotSayTheirId) {
  const std::string file = ftiff::testing::FileOf(ftiff::Letter::kB, ftiff::testing::MixedLayout(), {});
  testing::PutFile(disk_, "/job/Global/exec/dCP/dCPFile-Rank0.fti", file);
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job"}, .ranks = 1}));
  EXPECT_EQ(TextOf(found.checkpoints), "0@8");
  EXPECT_TRUE(Mentions(found.warnings, "it does not say its id, 0 is taken"));
}

TEST_F(FindTest, ADamagedDifferentialFileIsThereAndNotWhole) {
  std::string file = ftiff::testing::FileOf(ftiff::Letter::kF, ftiff::testing::MixedLayout(), {.checkpoint_id = 6});
  testing::PutFile(disk_, "/job/Global/exec/dCP/dCPFile-Rank0.fti", file);
  file.resize(file.size() / 2);
  testing::PutFile(disk_, "/job/Global/exec/dCP/dCPFile-Rank1.fti", file);
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, {.roots = {"/job"}, .ranks = 2}));
  EXPECT_EQ(TextOf(found.checkpoints), "6@8");
  EXPECT_EQ(found.topology.ranks, 2u);
  EXPECT_TRUE(Mentions(found.warnings, "dCPFile-Rank1.fti"));
  ASSERT_OK(MakeDirectories(disk_, "/scratch"));
  const absl::Status lost = Recover(disk_, found.topology, found.checkpoints[0], "/scratch").status();
  EXPECT_STATUS(absl::StatusCode::kDataLoss, lost,
                "1 of 2 ranks' files are lost\nrank 1: /job/Global/exec/dCP/dCPFile-Rank1.fti: ");
}

TEST_F(FindTest, OfFilesOfOneNameTheOneThatIsWholeCounts) {
  ASSERT_OK(MakeDirectories(disk_, "/scratch"));
  for (const Level level : {Level::kLocal, Level::kPartner, Level::kEncoded}) {
    const std::string folder = fmt::format("/job{}", static_cast<int>(level));
    const std::string again = fmt::format("/again{}", static_cast<int>(level));
    Put(folder, kFourNodes, level, 7);
    ASSERT_OK_AND_ASSIGN(Execution found, Find(disk_, {.roots = {folder}}));
    for (const auto* paths : {&found.checkpoints[0].files, &found.checkpoints[0].copies, &found.checkpoints[0].codes}) {
      for (const auto& [rank, path] : *paths) {
        testing::PutFile(disk_, again + path.substr(folder.size()), testing::GetFile(disk_, path));
      }
    }
    ASSERT_OK_AND_ASSIGN(found, Find(disk_, {.roots = {folder, again}}));
    EXPECT_TRUE(Mentions(found.warnings, "passed over, unless"));
    const Checkpoint& checkpoint = found.checkpoints[0];
    for (const auto* paths : {&checkpoint.files, &checkpoint.copies, &checkpoint.codes}) {
      for (const auto& [rank, path] : *paths) disk_.FlipBit(path, 8 * 700);
    }
    ASSERT_OK_AND_ASSIGN(const Recovered recovered, Recover(disk_, found.topology, checkpoint, "/scratch"));
    EXPECT_GE(recovered.warnings.size(), 4u);
    for (const RankFile& file : recovered.files) EXPECT_TRUE(file.path.starts_with(again)) << file.path;
    if (level == Level::kLocal) continue;
    for (const int rank : {1, 3}) {  // made good by copies or code files, of which only the second ones are whole
      disk_.FlipBit(
          fmt::format("{}/Local/node{}/cairn/l{}/Ckpt7-Rank{}.fti", again, rank, static_cast<int>(level), rank),
          8 * 700);
    }
    EXPECT_OK(Recover(disk_, found.topology, checkpoint, "/scratch")) << folder;
  }
}

TEST_F(FindTest, HostsNamedLikeNodesAreNotTakenForThem) {
  Put("/job", kTwoByTwo, Level::kPartner, 7);
  ASSERT_OK(MakeDirectories(disk_, "/gathered"));
  for (int node = 0; node < 4; ++node) {
    ASSERT_OK(disk_.Rename(fmt::format("/job/Local/node{}", node), fmt::format("/gathered/node{}", 11 + node)));
  }
  for (const Search& search : {Search{.roots = {"/gathered"}}, Search{.roots = {"/gathered", "/job"}},
                               Search{.roots = {"/gathered"}, .config = "/job/config.fti"},
                               Search{.roots = {"/gathered"}, .node_size = 2, .group_size = 2}}) {
    ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk_, search));
    EXPECT_EQ(TextOf(found.topology), "8/2/2");
    EXPECT_TRUE(Mentions(found.warnings, "hosts of that name"));
  }
}

// --- FTI's own folders ---

class FindVectorsTest : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(FindVectorsTest, ExecutionsOfFtiAreFound) {
  const auto& [scenario, topology, checkpoints] = GetParam();
  const auto run = testing::LoadRun(scenario);
  if (!run) return;
  FakeDisk disk;
  testing::PutRun(disk, "/job", *run);
  testing::PutConfig(disk, "/job", *run);
  // Without Topology.fti the number of ranks comes from the files.
  for (const bool with_topology_file : {false, true}) {
    if (with_topology_file) testing::PutTopology(disk, "/job", *run);
    ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk, {.roots = {"/job"}, .config = "/job/config.fti"}));
    EXPECT_EQ(found.id, kExecution);
    EXPECT_EQ(TextOf(found.topology), topology);
    EXPECT_EQ(TextOf(found.checkpoints), checkpoints);
    EXPECT_EQ(found.warnings.empty(), with_topology_file);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FindVectorsTest,
    ::testing::Values(std::tuple("levels-n1g4-A", "4/1/4", "4@4 3@3 2@2 1@1"),
                      std::tuple("levels-n1g4-F", "4/1/4", "4@4 3@3 2@2 1@1"),
                      std::tuple("levels-n2g2-F", "4/2/2", "4@4 3@3 2@2 1@1"),
                      std::tuple("levels-n4g1-F", "4/4/1", "4@4 1@1"), std::tuple("heads-F", "4/2/2 heads", "4@4 1@1"),
                      std::tuple("rs-g3-E", "3/1/3", "2@2 1@3"), std::tuple("rs-odd-F", "4/1/4", "1@3"),
                      std::tuple("dcp-md5-F", "1/1/1", "4@8"), std::tuple("dcp-2rank-E", "2/1/1", "3@8"),
                      std::tuple("dcp-then-full-F", "1/1/1", "2@1 1@8")));

TEST(FindVectorsTest, WithoutAnyTextFileFtisOwnFilesTellTheTopology) {
  for (const auto& [scenario, topology] :
       {std::pair("levels-n1g4-A", "4/1/4"), std::pair("levels-n1g4-F", "4/1/4"), std::pair("levels-n2g2-F", "4/2/2"),
        std::pair("rs-g3-E", "3/1/3"), std::pair("rs-odd-F", "4/1/4")}) {
    const auto run = testing::LoadRun(scenario);
    if (!run) return;
    FakeDisk disk;
    testing::PutRun(disk, "/job", *run);
    ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk, {.roots = {"/job"}}));
    EXPECT_EQ(TextOf(found.topology), topology) << scenario;
  }
}

TEST(FindVectorsTest, WhetherThereWereHeadsIsNotGuessed) {
  const auto run = testing::LoadRun("heads-F");
  if (!run) return;
  FakeDisk disk;
  testing::PutRun(disk, "/job", *run);
  EXPECT_STATUS(kFailedPrecondition, Find(disk, {.roots = {"/job"}}), "--heads");
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk, {.roots = {"/job"}, .ranks = 4, .heads = true}));
  EXPECT_EQ(TextOf(found.topology), "4/2/1 heads");
}

TEST(FindVectorsTest, DifferentialFilesOfTwoCheckpointsAreTwoCheckpoints) {
  const auto run = testing::LoadRun("dcp-2rank-E");
  if (!run) return;
  FakeDisk disk;
  testing::PutRun(disk, "/job", *run);
  for (const testing::VectorFile& file : run->files) {
    if (file.id == 2 && file.rank == 1) testing::PutFile(disk, testing::PlaceOf("/job", file), file.bytes);
  }
  ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk, {.roots = {"/job"}, .ranks = 2}));
  EXPECT_EQ(TextOf(found.checkpoints), "3@8 2@8");
  EXPECT_EQ(found.checkpoints[0].files.size(), 1u);
}

TEST(FindVectorsTest, FtisPosixFilesAreNotTakenForFtiFf) {
  const auto folder = testing::VectorsPath("ftiff/text-samples");
  if (!folder) return;
  FakeDisk disk;
  for (const char* rank : {"0", "1"}) {
    testing::PutFile(disk, fmt::format("/job/Local/node{}/exec/l2/Ckpt1-Rank{}.fti", rank, rank),
                     testing::ReadVector(fmt::format("{}/posix-Ckpt1-Rank{}.fti", *folder, rank)));
  }
  testing::PutFile(disk, "/job/Meta/exec/l2/sector0-group0.fti",
                   testing::ReadVector(*folder + "/posix-sector0-group0.fti"));
  EXPECT_STATUS(kNotFound, Find(disk, {.roots = {"/job"}}), "another I/O mode (1, POSIX");
}

}  // namespace
}  // namespace cairn::fti
