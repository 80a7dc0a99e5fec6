// What Cairn writes for FTI: names, records, text files; and that it reads it back, with losses, too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "storage/file/fti/execution.h"
#include "storage/file/fti/ini.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/ftiff/variables.h"
#include "tests/storage/file/fti/fti_tree.h"
#include "tests/storage/file/fti/sample_export.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn::fti {
namespace {

using testing::SampleExport;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

constexpr Topology kThreeNodes = {.ranks = 3, .node_size = 1, .group_size = 3, .heads = false};
constexpr Topology kTwoGroups = {.ranks = 12, .node_size = 2, .group_size = 3, .heads = false};
constexpr Topology kWithHeads = {.ranks = 9, .node_size = 3, .group_size = 3, .heads = true};

// All files below a folder, by their paths in it.
std::set<std::string> FilesBelow(Disk& disk, const std::string& folder, const std::string& prefix = "") {
  std::set<std::string> files;
  const auto names = disk.List(folder);
  EXPECT_OK(names);
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    const auto info = disk.Info(folder + "/" + name);
    EXPECT_OK(info);
    if (info.ok() && info->is_directory()) {
      files.merge(FilesBelow(disk, folder + "/" + name, prefix + name + "/"));
    } else {
      files.insert(prefix + name);
    }
  }
  return files;
}

// Each rank's variables have the bytes that were given.
void ExpectContents(Disk& disk, const Recovered& recovered, const SampleExport& sample) {
  ASSERT_EQ(recovered.files.size(), sample.what.ranks.size());
  for (std::size_t index = 0; index < recovered.files.size(); ++index) {
    const RankFile& file = recovered.files[index];
    const std::string bytes = testing::GetFile(disk, file.path);
    const ftiff::ReadAt read = [&bytes](std::uint64_t offset, std::span<std::byte> target) -> absl::Status {
      if (offset + target.size() > bytes.size()) return DataLoss("beyond the end");
      std::memcpy(target.data(), bytes.data() + offset, target.size());
      return absl::OkStatus();
    };
    const ftiff::Variables variables(file.metadata.layout);
    EXPECT_EQ(variables.sizes(), ftiff::Variables(sample.what.ranks[index].layout).sizes());
    for (const ftiff::VariableSize& variable : variables.sizes()) {
      std::vector<std::byte> found(variable.bytes), expected(variable.bytes);
      ASSERT_OK(variables.Read(file.path, variable.id, 0, found, read));
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = SampleExport::ByteOf(index, variable.id, i);
      EXPECT_TRUE(found == expected) << file.path << ", variable " << variable.id;
    }
  }
}

class WriteTest : public ::testing::Test {
 protected:
  WriteTest() { EXPECT_OK(MakeDirectories(disk_, "/scratch")); }

  Export At(SampleExport sample, const std::string& folder = "/out") {
    sample.what.folder = folder;
    return std::move(sample.what);
  }

  absl::StatusOr<Execution> FindIn(const std::string& folder) {
    return Find(disk_, {.roots = {folder}, .config = folder + "/config.fti"});
  }

  FakeDisk disk_;
};

TEST_F(WriteTest, WhatIsWrittenIsFoundAndRecovered) {
  for (const ftiff::Letter letter : {ftiff::Letter::kA, ftiff::Letter::kF}) {
    for (const Topology& topology : {kThreeNodes, kTwoGroups, kWithHeads}) {
      for (const Level level : {Level::kLocal, Level::kPartner, Level::kEncoded, Level::kGlobal}) {
        const std::string folder = fmt::format("/{}{}{}{}", static_cast<char>(letter), topology.ranks,
                                               topology.heads ? "h" : "", static_cast<int>(level));
        SCOPED_TRACE(folder);
        const SampleExport sample(topology, level, letter, 42);
        ASSERT_OK(Write(disk_, At(sample, folder)));
        ASSERT_OK_AND_ASSIGN(const Execution found, FindIn(folder));
        EXPECT_EQ(found.id, "cairn");
        EXPECT_TRUE(found.warnings.empty());
        EXPECT_EQ(found.topology.ranks, topology.ranks);
        EXPECT_EQ(found.topology.node_size, topology.node_size);
        EXPECT_EQ(found.topology.group_size, topology.group_size);
        EXPECT_EQ(found.topology.heads, topology.heads);
        ASSERT_EQ(found.checkpoints.size(), 1u);
        EXPECT_EQ(found.checkpoints[0].level, level);
        EXPECT_EQ(found.checkpoints[0].id, 42);
        ASSERT_OK_AND_ASSIGN(const Recovered whole, Recover(disk_, found.topology, found.checkpoints[0], "/scratch"));
        EXPECT_TRUE(whole.warnings.empty());
        ExpectContents(disk_, whole, sample);
        for (const RankFile& file : whole.files) EXPECT_EQ(file.metadata.letter, letter);
        if (level != Level::kPartner && level != Level::kEncoded) continue;
        Checkpoint torn = found.checkpoints[0];  // the second node is gone
        const auto lost = [&](const auto& entry) { return entry.first / topology.node_size == 1; };
        std::erase_if(torn.files, lost);
        std::erase_if(torn.copies, lost);
        std::erase_if(torn.codes, lost);
        ASSERT_OK_AND_ASSIGN(const Recovered mended, Recover(disk_, found.topology, torn, "/scratch"));
        EXPECT_FALSE(mended.warnings.empty());
        ExpectContents(disk_, mended, sample);
      }
    }
  }
}

TEST_F(WriteTest, FilesLieWhereFtiLooksForThem) {
  ASSERT_OK(Write(disk_, At(SampleExport(kWithHeads, Level::kPartner, ftiff::Letter::kF, 5))));
  EXPECT_EQ(FilesBelow(disk_, "/out"),
            (std::set<std::string>{"config.fti", "Meta/cairn/Topology.fti", "Local/node0/cairn/l2/Ckpt5-Rank1.fti",
                                   "Local/node0/cairn/l2/Ckpt5-Rank2.fti", "Local/node1/cairn/l2/Ckpt5-Rank4.fti",
                                   "Local/node1/cairn/l2/Ckpt5-Rank5.fti", "Local/node2/cairn/l2/Ckpt5-Rank7.fti",
                                   "Local/node2/cairn/l2/Ckpt5-Rank8.fti", "Local/node0/cairn/l2/Ckpt5-Pcof1.fti",
                                   "Local/node0/cairn/l2/Ckpt5-Pcof2.fti", "Local/node1/cairn/l2/Ckpt5-Pcof4.fti",
                                   "Local/node1/cairn/l2/Ckpt5-Pcof5.fti", "Local/node2/cairn/l2/Ckpt5-Pcof7.fti",
                                   "Local/node2/cairn/l2/Ckpt5-Pcof8.fti"}));
  ASSERT_OK(Write(disk_, At(SampleExport(kThreeNodes, Level::kGlobal, ftiff::Letter::kF, 0), "/global")));
  EXPECT_EQ(FilesBelow(disk_, "/global"),
            (std::set<std::string>{"config.fti", "Meta/cairn/Topology.fti", "Global/cairn/l4/Ckpt0-Rank0.fti",
                                   "Global/cairn/l4/Ckpt0-Rank1.fti", "Global/cairn/l4/Ckpt0-Rank2.fti"}));
  EXPECT_OK(disk_.Info("/global/Local"));
  EXPECT_OK(disk_.Info("/out/Global"));
}

ftiff::FileMetadata MetadataOf(Disk& disk, const std::string& path) {
  const std::string bytes = testing::GetFile(disk, path);
  const auto metadata =
      ftiff::DecodeMetadata(path, bytes.size(), [&bytes](std::uint64_t offset, std::span<std::byte> target) {
        std::memcpy(target.data(), bytes.data() + offset, target.size());
        return absl::OkStatus();
      });
  EXPECT_OK(metadata);
  return metadata.ok() ? *metadata : ftiff::FileMetadata();
}

TEST_F(WriteTest, Level2RecordsHaveTheSizeOfTheCopyThatTheRankHolds) {
  ASSERT_OK(Write(disk_, At(SampleExport(kThreeNodes, Level::kPartner, ftiff::Letter::kF, 5))));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto path = [rank](const char* kind) {
      return fmt::format("/out/Local/node{}/cairn/l2/Ckpt5-{}{}.fti", rank, kind, rank);
    };
    const std::uint32_t left = (rank + 2) % 3;
    const std::string copy = testing::GetFile(disk_, path("Pcof"));
    EXPECT_TRUE(copy ==
                testing::GetFile(disk_, fmt::format("/out/Local/node{}/cairn/l2/Ckpt5-Rank{}.fti", left, left)));
    const ftiff::FileMetadata metadata = MetadataOf(disk_, path("Rank"));
    EXPECT_EQ(metadata.header.partner_bytes, static_cast<std::int64_t>(copy.size()));
    EXPECT_EQ(metadata.header.file_bytes_max, -1);
    EXPECT_EQ(metadata.header.checkpoint_id, 5);
  }
}

TEST_F(WriteTest, Levels1And4HaveNeitherSize) {
  for (const Level level : {Level::kLocal, Level::kGlobal}) {
    const std::string folder = fmt::format("/out{}", static_cast<int>(level));
    ASSERT_OK(Write(disk_, At(SampleExport(kThreeNodes, level, ftiff::Letter::kA, 5), folder)));
    ASSERT_OK_AND_ASSIGN(const Execution found, FindIn(folder));
    for (const auto& [rank, path] : found.checkpoints[0].files) {
      EXPECT_EQ(MetadataOf(disk_, path).header.partner_bytes, -1);
      EXPECT_EQ(MetadataOf(disk_, path).header.file_bytes_max, -1);
    }
  }
}

TEST_F(WriteTest, Level3RecordsHaveTheGroupsMaximum) {
  for (const ftiff::Letter letter : {ftiff::Letter::kA, ftiff::Letter::kF}) {
    const std::string folder = fmt::format("/out{}", static_cast<char>(letter));
    ASSERT_OK(Write(disk_, At(SampleExport(kThreeNodes, Level::kEncoded, letter, 5), folder)));
    std::uint64_t most = 0;
    for (int rank = 0; rank < 3; ++rank) {
      const auto info = disk_.Info(fmt::format("{}/Local/node{}/cairn/l3/Ckpt5-Rank{}.fti", folder, rank, rank));
      ASSERT_OK(info);
      most = std::max(most, info->bytes);
    }
    // Odd, so that layout A shows that its maximum is made even.
    ASSERT_EQ(letter == ftiff::Letter::kA ? most % 2 : 1, 1u);
    const std::uint64_t expected = letter == ftiff::Letter::kA ? most + 1 : most + 8;
    for (int rank = 0; rank < 3; ++rank) {
      const std::string own = fmt::format("{}/Local/node{}/cairn/l3/Ckpt5-Rank{}.fti", folder, rank, rank);
      const ftiff::FileMetadata metadata = MetadataOf(disk_, own);
      EXPECT_EQ(metadata.header.file_bytes_max, static_cast<std::int64_t>(expected));
      EXPECT_EQ(metadata.header.partner_bytes, -1);
      const std::string path = fmt::format("{}/Local/node{}/cairn/l3/Ckpt5-RSed{}.fti", folder, rank, rank);
      const std::string code = testing::GetFile(disk_, path);
      const auto record = ftiff::DecodeEncoded(path, code.size(), [&](std::uint64_t offset, std::span<std::byte> to) {
        std::memcpy(to.data(), code.data() + offset, to.size());
        return absl::OkStatus();
      });
      ASSERT_OK(record);
      EXPECT_EQ(record->letter, letter);
      EXPECT_EQ(record->code_bytes, expected);
      EXPECT_EQ(record->checkpoint_bytes, metadata.file_bytes);
      EXPECT_EQ(record->checkpoint_id, letter == ftiff::Letter::kA ? 0 : 5);
    }
  }
}

TEST_F(WriteTest, TheConfigurationIsThatOfARestart) {
  ASSERT_OK(Write(disk_, At(SampleExport(kWithHeads, Level::kPartner, ftiff::Letter::kF, 5))));
  ASSERT_OK_AND_ASSIGN(const Ini config, Ini::Parse("config.fti", testing::GetFile(disk_, "/out/config.fti")));
  const auto value = [&config](std::string_view section, std::string_view key) {
    const Ini::Entry* const entry = config.Find(section, key);
    return entry == nullptr ? "(none)" : entry->value;
  };
  EXPECT_EQ(value("basic", "head"), "1");
  EXPECT_EQ(value("basic", "node_size"), "3");
  EXPECT_EQ(value("basic", "group_size"), "3");
  EXPECT_EQ(value("basic", "ckpt_io"), "3");
  EXPECT_EQ(value("basic", "ckpt_dir"), "/out/Local");
  EXPECT_EQ(value("basic", "glbl_dir"), "/out/Global");
  EXPECT_EQ(value("basic", "meta_dir"), "/out/Meta");
  EXPECT_EQ(value("restart", "failure"), "1");
  EXPECT_EQ(value("restart", "exec_id"), "cairn");
  EXPECT_EQ(value("advanced", "local_test"), "1");
  EXPECT_EQ(testing::GetFile(disk_, "/out/Meta/cairn/Topology.fti"),
            "\n[topology]\n0                              = node0\n1                              = node1\n"
            "2                              = node2\n\n");
}

TEST_F(WriteTest, AnIdAboveFtisDefaultIsAllowedInTheConfiguration) {
  for (const std::int32_t id : {102400, 102401}) {
    Export what = At(SampleExport(kThreeNodes, Level::kGlobal, ftiff::Letter::kF, 5), fmt::format("/out{}", id));
    const std::vector<ftiff::VariableSize> variables = {{.id = 7, .bytes = 10}, {.id = id, .bytes = 10}};
    ASSERT_OK_AND_ASSIGN(what.ranks[1].layout, ftiff::PlanFresh(variables, ftiff::Packing::kExact));
    ASSERT_OK(Write(disk_, what));
    const std::string path = what.folder + "/config.fti";
    ASSERT_OK_AND_ASSIGN(const Ini config, Ini::Parse(path, testing::GetFile(disk_, path)));
    const Ini::Entry* const most = config.Find("basic", "max_var_id");
    EXPECT_EQ(most == nullptr ? "" : most->value, id > 102400 ? "102401" : "");
  }
}

// FTI recovers level 4 through the nodes' folders, too, whose paths are longer.
TEST_F(WriteTest, TheLongestPathOfARestartMustFit) {
  for (const Level level : {Level::kLocal, Level::kEncoded, Level::kGlobal}) {
    const std::size_t rest = std::string("/Local/node2/cairn/tmp/Ckpt5-Rank2.fti").size();
    const std::string most = fmt::format("/{}{}", static_cast<int>(level), std::string(255 - rest - 2, 'x'));
    EXPECT_OK(Write(disk_, At(SampleExport(kThreeNodes, level, ftiff::Letter::kF, 5), most)));
    EXPECT_STATUS(kInvalidArgument,
                  Write(disk_, At(SampleExport(kThreeNodes, level, ftiff::Letter::kF, 5), most + "x")),
                  "256 bytes, but FTI's paths have at most 255");
  }
}

TEST_F(WriteTest, NumbersThatDoNotFitAreRefusedAndNothingIsWritten) {
  const auto refused = [&](std::string_view why, const std::function<void(Export&)>& change) {
    Export what = At(SampleExport(kThreeNodes, Level::kEncoded, ftiff::Letter::kF, 5));
    change(what);
    EXPECT_STATUS(kInvalidArgument, Write(disk_, what), why);
    EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info("/out"), "");
  };
  refused("3 ranks' variables for 4", [](Export& what) { what.topology = {.ranks = 4, .group_size = 2}; });
  refused("3 ranks' variables for 2",
          [](Export& what) { what.topology = {.ranks = 4, .node_size = 2, .group_size = 2, .heads = true}; });
  refused("no multiple", [](Export& what) { what.topology.group_size = 2; });
  refused("groups of 2 to 31 nodes, not of 1", [](Export& what) { what.topology.group_size = 1; });
  refused("negative", [](Export& what) { what.id = -1; });
  refused("level 8", [](Export& what) { what.level = Level::kDifferential; });
  refused("layout E", [](Export& what) { what.letter = ftiff::Letter::kE; });
  for (const char* id : {"", ".", "..", "a/b", "a;b", "a#b", " a"}) {
    refused("execution's id", [id](Export& what) { what.execution = id; });
  }
  refused("execution's id", [](Export& what) { what.execution = std::string(201, 'x'); });
  refused("has no variables", [](Export& what) { what.ranks[1].layout = {}; });
  refused("not absolute", [](Export& what) { what.folder = "out"; });
  refused("configuration", [](Export& what) { what.folder = "/out#1"; });
  refused("at most 255", [](Export& what) { what.folder = "/out/" + std::string(230, 'x'); });
}

TEST_F(WriteTest, LayoutANeedsGroupsOfThree) {
  const Topology two = {.ranks = 2, .node_size = 1, .group_size = 2, .heads = false};
  EXPECT_STATUS(kInvalidArgument, Write(disk_, At(SampleExport(two, Level::kPartner, ftiff::Letter::kA, 5))),
                "level 2 in layout A needs groups of 3 to 31 nodes");
  EXPECT_OK(Write(disk_, At(SampleExport(two, Level::kPartner, ftiff::Letter::kF, 5))));
}

TEST_F(WriteTest, AFolderWithSomethingInItIsLeftAlone) {
  testing::PutFile(disk_, "/out/mine", "text");
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists,
                Write(disk_, At(SampleExport(kThreeNodes, Level::kLocal, ftiff::Letter::kF, 5))), "there is mine");
  EXPECT_EQ(FilesBelow(disk_, "/out"), std::set<std::string>{"mine"});
  ASSERT_OK(disk_.Remove("/out/mine"));
  EXPECT_OK(Write(disk_, At(SampleExport(kThreeNodes, Level::kLocal, ftiff::Letter::kF, 5))));
}

TEST_F(WriteTest, ErrorsPassThroughAndWhatWasBegunIsRemoved) {
  Export what = At(SampleExport(kThreeNodes, Level::kEncoded, ftiff::Letter::kF, 5));
  disk_.FailOn({.op = FakeOp::kSync, .path_part = "RSed1", .status = absl::UnavailableError("no sync")});
  EXPECT_STATUS(absl::StatusCode::kUnavailable, Write(disk_, what), "no sync");
  EXPECT_TRUE(FilesBelow(disk_, "/out").empty());
  disk_.FailOn({.op = FakeOp::kWrite, .path_part = "Rank2", .status = absl::ResourceExhaustedError("full")});
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, Write(disk_, what), "full");
  EXPECT_TRUE(FilesBelow(disk_, "/out").empty());
  what.ranks[1].read = [](std::int32_t, std::uint64_t, std::span<std::byte>) { return DataLoss("no bytes"); };
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Write(disk_, what), "rank 1: no bytes");
  EXPECT_TRUE(FilesBelow(disk_, "/out").empty());
}

TEST_F(WriteTest, APowerFailureAfterwardsTakesNothingAway) {
  for (const Level level : {Level::kPartner, Level::kEncoded, Level::kGlobal}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const std::string folder = fmt::format("/out{}-{}", static_cast<int>(level), seed);
      const SampleExport sample(kThreeNodes, level, ftiff::Letter::kF, 5);
      ASSERT_OK(Write(disk_, At(sample, folder)));
      const std::set<std::string> files = FilesBelow(disk_, folder);
      disk_.Restart(seed);
      EXPECT_EQ(FilesBelow(disk_, folder), files);
      ASSERT_OK_AND_ASSIGN(const Execution found, FindIn(folder));
      ASSERT_OK_AND_ASSIGN(const Recovered recovered, Recover(disk_, found.topology, found.checkpoints[0], "/scratch"));
      EXPECT_TRUE(recovered.warnings.empty());
      ExpectContents(disk_, recovered, sample);
    }
  }
}

TEST_F(WriteTest, APowerFailureWhileWritingLeavesNoConfigurationWithoutItsFiles) {
  const SampleExport sample(kThreeNodes, Level::kEncoded, ftiff::Letter::kF, 5);
  std::uint64_t operations = 0;
  {
    FakeDisk whole;
    ASSERT_OK(Write(whole, At(sample)));
    operations = whole.operations();
  }
  for (std::uint64_t n = 1; n <= operations; n += 3) {
    FakeDisk disk;
    disk.CrashAt(n);
    EXPECT_FALSE(Write(disk, At(sample)).ok());
    disk.Restart(n);
    if (!disk.Info("/out/config.fti").ok()) continue;
    ASSERT_OK(MakeDirectories(disk, "/scratch"));
    ASSERT_OK_AND_ASSIGN(const Execution found, Find(disk, {.roots = {"/out"}, .config = "/out/config.fti"}));
    ASSERT_OK_AND_ASSIGN(const Recovered recovered, Recover(disk, found.topology, found.checkpoints[0], "/scratch"));
    ExpectContents(disk, recovered, sample);
  }
}

}  // namespace
}  // namespace cairn::fti
