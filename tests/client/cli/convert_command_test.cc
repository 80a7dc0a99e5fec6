// `cairn convert` as a user runs it.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/client/cli/file_fixture.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;
using testing::MakeCheckpoint;
using testing::MakeCodeFile;
using testing::Pattern;

class ConvertCommandTest : public testing::FileFixture {
 protected:
  // A growing and a shrinking variable, one that is new, one without bytes; containers that lost their content.
  static std::string Whole(const testing::CheckpointOptions& options = {}) {
    return MakeCheckpoint({{{1, Pattern(1, 300)}, {2, Pattern(2, 2000)}},
                           {{1, Pattern(1, 300)}, {2, Pattern(2, 5000)}, {7, ""}},
                           {{1, Pattern(1, 900)}, {2, Pattern(2, 1500)}, {7, ""}}},
                          options);
  }
  json Convert(const std::string& from, const std::string& to, std::vector<std::string> options) {
    std::vector<std::string> arguments = {"convert", from, "-o", to};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return RunJson(arguments);
  }
};

TEST_F(ConvertCommandTest, FromFToAAndBackIsTheSameFile) {
  const std::string f = Write("Ckpt17-Rank0.fti", Whole());
  const CairnRun run = Run({"convert", f, "--layout", "A", "-o", Path("a.fti")});
  ExpectSaid(run, 0, Path("a.fti") + ": layout A, 5 containers, ");
  ExpectSaid(run, 0, "protect them in that of the new file, 1, 2, 7");
  ExpectSaid(Run({"verify", Path("a.fti")}), 0, "FTI-FF layout A, 5 containers");
  EXPECT_EQ(Read(Path("a.fti")), Whole({.letter = ftiff::Letter::kA}));
  std::filesystem::create_directory(Path("back"));
  std::filesystem::rename(Path("a.fti"), Path("back/Ckpt17-Rank0.fti"));
  Convert(Path("back/Ckpt17-Rank0.fti"), Path("f.fti"), {"--layout", "F"});
  ExpectSaid(Run({"verify", Path("f.fti")}), 0, "FTI-FF layout F, checkpoint 17, 5 containers");
  const json there = RunJson({"inspect", f}), back = RunJson({"inspect", Path("f.fti")});
  EXPECT_EQ(back["variables"], there["variables"]);
  EXPECT_EQ(back["file"]["ckptSize"], there["file"]["ckptSize"]);
}

TEST_F(ConvertCommandTest, TheSameLayoutAgainIsTheSameBytes) {
  const std::string f = Write("Ckpt17-Rank0.fti", Whole());
  const json told = Convert(f, Path("again.fti"), {"--layout", "F", "--packing", "keep"});
  EXPECT_EQ(Read(Path("again.fti")), Whole());
  EXPECT_EQ(told["layout"], "F");
  EXPECT_EQ(told["packing"], "keep");
  EXPECT_EQ(told["containers"], 5);
  EXPECT_EQ(told["ckptId"], 17);
  EXPECT_EQ(told["bytes"], Whole().size());
}

TEST_F(ConvertCommandTest, ExactHasOneContainerAVariableAndNoPadding) {
  const testing::Contents contents = {{1, Pattern(1, 5)}, {2, Pattern(2, 2'500'000)}, {7, ""}};
  const std::string padded = Write("padded.fti", MakeCheckpoint({contents}, {.packing = ftiff::Packing::kAligned}));
  const std::string grown = Write("grown.fti", Whole());
  for (const std::string layout : {"A", "F"}) {
    Convert(padded, Path("exact.fti"), {"--layout", layout, "--packing", "exact", "--force"});
    EXPECT_EQ(Read(Path("exact.fti")), MakeCheckpoint({contents}, {.letter = ftiff::Letter{layout[0]}}));
    Convert(grown, Path("exact.fti"), {"--layout", layout, "--packing", "exact", "--force"});
    EXPECT_EQ(Read(Path("exact.fti")), MakeCheckpoint({{{1, Pattern(1, 900)}, {2, Pattern(2, 1500)}, {7, ""}}},
                                                      {.letter = ftiff::Letter{layout[0]}}));
  }
}

TEST_F(ConvertCommandTest, IdTimestampAndLevelsSizesStay) {
  const ftiff::FileHeader header = {
      .checkpoint_id = 4, .timestamp_ns = 12345, .file_bytes_max = 99'000, .partner_bytes = 88'000};
  const std::string f = Write("f.fti", Whole({.header = header}));
  const CairnRun run = Run({"convert", f, "--layout", "F", "--packing", "exact", "-o", Path("g.fti")});
  ExpectSaid(run, 0, "level 3: the code files of its group fit the old file");
  ExpectSaid(run, 0, "level 2: its copy");
  const json file = RunJson({"inspect", Path("g.fti")})["file"];
  EXPECT_EQ(file["ckptId"], 4);
  EXPECT_EQ(file["timestamp"], 12345);
  EXPECT_EQ(file["maxFs"], 99'000);
  EXPECT_EQ(file["ptFs"], 88'000);
}

TEST_F(ConvertCommandTest, WhereTheLayoutHoldsNoNumberTheNameDoes) {
  const std::string bytes = MakeCheckpoint({{{1, "x"}}}, {.letter = ftiff::Letter::kA});
  EXPECT_EQ(Convert(Write("Ckpt9-Rank1.fti", bytes), Path("f1.fti"), {"--layout", "F"})["ckptId"], 9);
  EXPECT_EQ(Convert(Write("heat.fti", bytes), Path("Ckpt8-Rank0.fti"), {"--layout", "F"})["ckptId"], 8);
  const CairnRun run = Run({"convert", Path("heat.fti"), "--layout", "F", "-o", Path("f3.fti")});
  ExpectSaid(run, 0, "note: layout A holds no checkpoint number, and no name tells it: it is 0");
  ExpectSaid(Run({"convert", Path("Ckpt9-Rank1.fti"), "--layout", "F", "-o", Path("Ckpt5-Rank1.fti")}), 0,
             "note: the name says checkpoint 5, the file 9");
}

TEST_F(ConvertCommandTest, DamageIsNamedAndLeavesNothing) {
  std::string bytes = Whole();
  bytes[310] ^= 1;  // variable 2, container 0
  const std::string path = Write("a.fti", bytes);
  for (const std::string packing : {"keep", "exact"}) {
    const CairnRun run = Run({"convert", path, "--layout", "A", "--packing", packing, "-o", Path("b.fti")});
    ExpectSaid(run, 5, "1 of 5 containers damaged; the first: offset 300: MD5 of the 1500 bytes of container 0 of");
    EXPECT_EQ(Names(), std::vector<std::string>{"a.fti"});
  }
  std::string a = Whole({.letter = ftiff::Letter::kA});
  a[96 + 12 + 4] ^= 1;  // a number in a record: only the checksum of the whole file covers it
  ExpectSaid(Run({"convert", Write("a.fti", a), "--layout", "F", "-o", Path("b.fti")}), 5, "checksum is");
  EXPECT_EQ(Names(), std::vector<std::string>{"a.fti"});
}

TEST_F(ConvertCommandTest, OutputsAndInputsThatCannotBeAreRefused) {
  const std::string path = Write("a.fti", Whole());
  const auto convert = [&](const std::string& from, const std::string& to) {
    return Run({"convert", from, "--layout", "A", "-o", to});
  };
  ExpectSaid(convert(path, path), 1, "is the input itself");
  ExpectSaid(convert(path, folder_), 1, "is a directory");
  ExpectSaid(convert(path, "-"), 1, "cannot go to standard output");
  ExpectSaid(convert(path, Write("there.fti", "before")), 1, "--force replaces it");
  ExpectSaid(convert(path, Path("nowhere/b.fti")), 4, "its directory");
  ExpectSaid(convert(folder_, Path("b.fti")), 1, "is a directory");
  ExpectSaid(convert(Path("nothing"), Path("b.fti")), 4, "No such file");
  ExpectSaid(convert(Write("notes.txt", "some words"), Path("b.fti")), 5, "none that Cairn knows");
  ExpectSaid(convert(Write("Ckpt3-RSed0.fti", MakeCodeFile(Pattern(9, 200), 3)), Path("b.fti")), 1,
             "level 3 code file");
  EXPECT_EQ(Read(Path("there.fti")), "before");
  EXPECT_FALSE(std::filesystem::exists(Path("b.fti")));
}

TEST_F(ConvertCommandTest, OnlyLayoutsThatAreWrittenCanBeAskedFor) {
  const std::string path = Write("a.fti", Whole());
  ExpectSaid(Run({"convert", path, "--layout", "E", "-o", Path("b.fti")}), 2, "--layout");
  ExpectSaid(Run({"convert", path, "-o", Path("b.fti")}), 2, "--layout");
  ExpectSaid(Run({"convert", path, "--layout", "A", "--packing", "tight", "-o", Path("b.fti")}), 2, "--packing");
  ExpectSaid(Run({"convert", "--help"}), 0, "Packing:");
}

TEST_F(ConvertCommandTest, AFullDiskIsAFailureThatLeavesNothing) {
  const std::string path = Write("a.fti", Whole());
  ExpectFailsWhenFilesEndAt(2048, {"convert", path, "--layout", "A", "-o", Path("b.fti")});
}

TEST_F(ConvertCommandTest, WhatAFileClaimsBeyondItsEndIsNotWritten) {
  const std::string path = Write("b.fti", ftiff::testing::FileOfBThatClaims(std::uint64_t{1} << 40));
  ExpectSaid(Run({"verify", path}), 0, "layout B");
  const CairnRun run = Run({"convert", path, "--layout", "F", "-o", Path("f.fti")});
  ExpectSaid(run, 0, "note: " + path + " ends inside a container, after 169 of ");
  EXPECT_LT(std::filesystem::file_size(Path("f.fti")), 1000u);
  ExpectSaid(Run({"diff", path, Path("f.fti")}), 0, "no difference");
  const json told = Convert(path, Path("a.fti"), {"--layout", "A"});
  EXPECT_EQ(told["packing"], "exact");
  EXPECT_EQ(told["containers"], 1);
}

TEST_F(ConvertCommandTest, FilesOfEachReleaseOfFtiBecomeAAndFWithTheSameContent) {
  const auto root = testing::VectorsPath("ftiff");
  if (!root.has_value()) return;
  for (const std::string from : {"restart-A/Ckpt2-Rank0.fti", "seed-k-B/Ckpt7-Rank0.fti", "seed-k-C/Ckpt7-Rank0.fti",
                                 "seed-k-D/Ckpt7-Rank0.fti", "seed-k-E/Ckpt7-Rank0.fti", "zero-F/Ckpt3-Rank0.fti"}) {
    SCOPED_TRACE(from);
    const std::string path = *root + "/" + from;
    ASSERT_TRUE(std::filesystem::exists(path));
    for (const std::string layout : {"A", "F"}) {
      for (const std::string packing : {"keep", "exact"}) {
        const json told = Convert(path, Path("c.fti"), {"--layout", layout, "--packing", packing, "--force"});
        EXPECT_EQ(told["ckptId"], layout == "A" ? told["ckptId"] : json(from[from.find("/Ckpt") + 5] - '0'));
        ExpectSaid(Run({"verify", Path("c.fti")}), 0, "layout " + layout);
        ExpectSaid(Run({"diff", path, Path("c.fti")}), 0, "no difference");
      }
    }
  }
}

}  // namespace
}  // namespace cairn
