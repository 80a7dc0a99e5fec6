// `cairn diff` as a user runs it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/client/cli/file_fixture.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;
using testing::Contents;
using testing::MakeCheckpoint;
using testing::MakeCodeFile;
using testing::Pattern;

class DiffCommandTest : public testing::FileFixture {
 protected:
  // Fields that differ, by name.
  static std::vector<std::string> FieldsOf(const json& diff) {
    std::vector<std::string> fields;
    for (const json& field : diff["metadata"]) fields.push_back(field["field"]);
    return fields;
  }
};

std::string Changed(std::string bytes, const std::vector<std::size_t>& places) {
  for (const std::size_t place : places) bytes[place] ^= 0x55;
  return bytes;
}

TEST_F(DiffCommandTest, AFileIsTheSameAsItself) {
  const std::string a = Write("a.fti", MakeCheckpoint({{{1, Pattern(1, 500)}, {2, ""}}}));
  const CairnRun run = Run({"diff", a, a});
  ExpectSaid(run, 0, "first   " + a + "\nsecond  " + a + "\n\nno difference in 2 variables\n");
  const json diff = RunJson({"diff", a, a});
  EXPECT_EQ(diff["equal"], true);
  EXPECT_EQ(diff["metadata"], json::array());
  EXPECT_EQ(diff["variables"][0], json::parse(R"({"id": 1, "equal": true, "bytes": [500, 500]})"));
}

TEST_F(DiffCommandTest, LayoutPackingAndOrderDoNotMatter) {
  const std::string one = Pattern(1, 2'500'000), two = Pattern(2, 77);
  const std::string a = Write("a.fti", MakeCheckpoint({{{1, one}, {2, two}}}));
  const std::string b =
      Write("b.fti", MakeCheckpoint({{{2, two}}, {{2, two}, {1, one}}},
                                    {.letter = ftiff::Letter::kA, .header = {.checkpoint_id = 0, .timestamp_ns = 2}}));
  const std::string c =
      Write("c.fti", MakeCheckpoint({{{1, one}, {2, two}}}, {.packing = ftiff::Packing::kAligned,
                                                             .header = {.checkpoint_id = 18, .timestamp_ns = 1}}));
  const json ab = RunJson({"diff", a, b});
  EXPECT_EQ(ab["equal"], true);
  EXPECT_EQ(FieldsOf(ab),
            (std::vector<std::string>{"layout", "ckptId", "ckptSize", "timestamp", "order", "containers"}));
  EXPECT_EQ(ab["metadata"][0]["values"], json::parse(R"(["F", "A"])"));
  EXPECT_EQ(ab["metadata"][1]["values"], json::parse(R"([17, null])"));
  EXPECT_EQ(ab["metadata"][4]["values"], json::parse(R"(["1 2", "2 1"])"));
  const json ac = RunJson({"diff", a, c});
  EXPECT_EQ(ac["equal"], true);
  EXPECT_EQ(FieldsOf(ac), (std::vector<std::string>{"ckptId", "ckptSize", "containers"}));
  ExpectSaid(Run({"diff", a, b}), 0, "metadata (does not count as a difference)\n");
  ExpectSaid(Run({"diff", a, b}), 0, "  ckptId");
}

TEST_F(DiffCommandTest, BytesThatDifferAreCountedAndTheFirstIsPlaced) {
  const std::string before = Pattern(2, 5000);
  const std::string after = Changed(before, {1234, 3333, 4999});
  // In the first file in containers of 2000 and 3000 bytes, in the second in one.
  const std::string a = Write(
      "a.fti", MakeCheckpoint({{{1, Pattern(1, 100)}, {2, Pattern(2, 2000)}}, {{1, Pattern(1, 100)}, {2, before}}}));
  const std::string b = Write("b.fti", MakeCheckpoint({{{1, Pattern(1, 100)}, {2, after}}}));
  const json diff = RunJson({"diff", a, b}, 1);
  EXPECT_EQ(diff["equal"], false);
  EXPECT_EQ(diff["variables"][0]["equal"], true);
  EXPECT_EQ(diff["variables"][1], json::parse(R"({"id": 2, "equal": false, "bytes": [5000, 5000], "differing_bytes": 3,
      "first_offset": 1234, "containers": [[0, 1], [0]], "file_offsets": [1334, 1334]})"));
  const CairnRun run = Run({"diff", a, b});
  ExpectSaid(run, 1, "variable 2: 3 of 5000 bytes (4.9 KiB) differ, the first at 1234 (0x4d2)\n");
  ExpectSaid(run, 1,
             "in the first file containers 0, 1, from offset 1334; in the second container 0, from offset 1334");
  ExpectSaid(run, 1, "\n1 of 2 variables differs\n");
  EXPECT_EQ(run.out.find("variable 1:"), std::string::npos) << run.out;
}

TEST_F(DiffCommandTest, SizesThatDifferAreToldWithWhatBothHave) {
  const std::string bytes = Pattern(1, 5000);
  const std::string a = Write("a.fti", MakeCheckpoint({{{1, bytes}, {2, bytes}, {3, bytes}}}));
  const std::string b =
      Write("b.fti", MakeCheckpoint({{{1, bytes.substr(0, 4000)}, {2, Changed(bytes, {7}).substr(0, 4000)}, {3, ""}}}));
  const json diff = RunJson({"diff", a, b}, 1);
  EXPECT_EQ(diff["variables"][0], json::parse(R"({"id": 1, "equal": false, "bytes": [5000, 4000], "differing_bytes": 0,
      "first_offset": 4000})"));
  EXPECT_EQ(diff["variables"][1]["differing_bytes"], 1);
  EXPECT_EQ(diff["variables"][1]["first_offset"], 7);
  EXPECT_EQ(diff["variables"][2]["first_offset"], 0);
  const CairnRun run = Run({"diff", a, b});
  ExpectSaid(run, 1,
             "variable 1: 5000 bytes (4.9 KiB) in the first file, 4000 bytes (3.9 KiB) in the second; what "
             "both have is the same\n");
  ExpectSaid(run, 1, "; of what both have 1 of 4000 bytes (3.9 KiB) differs, the first at 7 (0x7)\n");
}

TEST_F(DiffCommandTest, VariablesOfOneFileAloneAreTold) {
  const std::string a = Write("a.fti", MakeCheckpoint({{{1, "x"}, {2, "yy"}}}));
  const std::string b = Write("b.fti", MakeCheckpoint({{{2, "yy"}, {9, ""}}}));
  const json diff = RunJson({"diff", a, b}, 1);
  EXPECT_EQ(diff["variables"][0], json::parse(R"({"id": 1, "equal": false, "bytes": [1, null]})"));
  EXPECT_EQ(diff["variables"][2], json::parse(R"({"id": 9, "equal": false, "bytes": [null, 0]})"));
  const CairnRun run = Run({"diff", a, b});
  ExpectSaid(run, 1, "variable 1: only in the first file, 1 byte\n");
  ExpectSaid(run, 1, "variable 9: only in the second file, 0 bytes\n");
  ExpectSaid(run, 1, "2 of 3 variables differ\n");
}

TEST_F(DiffCommandTest, ADamagedFileIsNamedAndComparedNevertheless) {
  std::string bytes = MakeCheckpoint({{{1, Pattern(1, 500)}, {2, Pattern(2, 500)}}});
  const std::string a = Write("a.fti", bytes);
  bytes[707] ^= 1;
  const std::string b = Write("b.fti", bytes);
  const CairnRun run = Run({"diff", a, b});
  ExpectSaid(run, 5, "DAMAGED " + b + ": offset 500: MD5 of the 500 bytes of container 0 of variable 2");
  ExpectSaid(run, 5, "variable 2: 1 of 500 bytes differs, the first at 207 (0xcf)\n");
  const json diff = RunJson({"diff", b, b}, 5);
  EXPECT_EQ(diff["equal"], true);
  EXPECT_EQ(diff["files"][0]["damaged"].size(), 1u);
  bytes[bytes.size() - 5] ^= 1;  // what it says of itself
  ExpectSaid(Run({"diff", a, Write("c.fti", bytes)}), 5, Path("c.fti"));
}

TEST_F(DiffCommandTest, WhatCannotBeComparedIsNotCalledDifferent) {
  const std::string a = Write("a.fti", MakeCheckpoint({{{1, "x"}}}));
  ExpectSaid(Run({"diff", a, folder_}), 2, "is a directory");
  ExpectSaid(Run({"diff", folder_, a}), 2, "is a directory");
  ExpectSaid(Run({"diff", a, Write("Ckpt3-RSed0.fti", MakeCodeFile(Pattern(9, 200), 3))}), 2, "level 3 code file");
  ExpectSaid(Run({"diff", a, Path("nothing")}), 4, "No such file");
  ExpectSaid(Run({"diff", a, Write("notes.txt", "some words")}), 5, "none that Cairn knows");
  ExpectSaid(Run({"diff", a}), 2, "OTHER");
  ExpectSaid(Run({"diff", "--help"}), 0, "1 they differ; 2 the files cannot be compared");
}

TEST_F(DiffCommandTest, CheckpointsOfTheReferenceDifferInWhatTheRunChanged) {
  const auto root = testing::VectorsPath("ftiff");
  if (!root.has_value()) return;
  // From checkpoint 1 to 2 a variable came; the three others stayed.
  const json diff = RunJson({"diff", *root + "/seed-k-A/Ckpt1-Rank0.fti", *root + "/seed-k-F/Ckpt2-Rank0.fti"}, 1);
  EXPECT_EQ(diff["variables"].size(), 4u);
  EXPECT_EQ(diff["variables"][3], json::parse(R"({"id": 4, "equal": false, "bytes": [null, 16000]})"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(diff["variables"][i]["equal"], true);
  ExpectSaid(Run({"diff", *root + "/types-A/Ckpt1-Rank0.fti", *root + "/types-E/Ckpt1-Rank0.fti"}), 0, "no difference");
  ExpectSaid(Run({"diff", *root + "/types-F/Ckpt1-Rank0.fti", *root + "/types-E/Ckpt1-Rank0.fti"}), 0, "no difference");
}

}  // namespace
}  // namespace cairn
