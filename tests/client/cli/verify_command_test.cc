// `cairn verify` on files as a user runs it. On prefixes: file_commands_test.cc.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "storage/format/kvtree/tree.h"
#include "tests/client/cli/file_fixture.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;
using testing::MakeCheckpoint;
using testing::MakeCodeFile;
using testing::Pattern;

class VerifyCommandTest : public testing::FileFixture {
 protected:
  std::string WriteRank(const std::string& folder, std::int32_t id, int rank) {
    std::filesystem::create_directories(Path(folder));
    return Write(folder + "/Ckpt" + std::to_string(id) + "-Rank" + std::to_string(rank) + ".fti",
                 MakeCheckpoint({{{1, Pattern(rank, 50)}}}, {.header = {.checkpoint_id = id}}));
  }
};

TEST_F(VerifyCommandTest, WholeFilesOfAnyKindAreOk) {
  const std::string checkpoint = Write("Ckpt17-Rank0.fti", MakeCheckpoint({{{5, Pattern(5, 3000)}}}));
  ExpectSaid(Run({"verify", checkpoint}), 0,
             "ok       " + checkpoint + ": FTI-FF layout F, checkpoint 17, 1 container, 3.1 KiB\n");
  const std::string a = Write("a.fti", MakeCheckpoint({{{5, "x"}}}, {.letter = ftiff::Letter::kA}));
  ExpectSaid(Run({"verify", a}), 0, "FTI-FF layout A, 1 container");
  const std::string code = Write("Ckpt3-RSed0.fti", MakeCodeFile(Pattern(1, 70'001), 3));
  ExpectSaid(Run({"verify", code}), 0, "ok       " + code + ": FTI-FF code file of level 3, 68.4 KiB");
  kvtree::Tree tree;
  tree.At("DSET").Set("NAME", std::string_view("x"));
  ExpectSaid(Run({"verify", Write("index.scr", kvtree::Encode(tree))}), 0, "kvtree");
}

TEST_F(VerifyCommandTest, EveryDamagedContainerIsNamed) {
  std::string bytes =
      MakeCheckpoint({{{1, Pattern(1, 1000)}, {2, Pattern(2, 2000)}}, {{1, Pattern(1, 1000)}, {2, Pattern(2, 5000)}}});
  bytes[10] ^= 1;      // variable 1
  bytes[3500] ^= 128;  // variable 2, its second container
  const std::string path = Write("data.fti", bytes);
  const CairnRun run = Run({"verify", path});
  ExpectSaid(run, 5, "DAMAGED  " + path + ": 2 of 3 containers damaged\n");
  ExpectSaid(run, 5, "\n           variable 1, container 0: offset 0: MD5 of the 1000 bytes");
  ExpectSaid(run, 5, "\n           variable 2, container 1: offset 3000: MD5 of the 3000 bytes");
  EXPECT_EQ(run.out.find("variable 2, container 0"), std::string::npos) << run.out;
  const json report = RunJson({"verify", path}, 5);
  EXPECT_EQ(report["ok"], false);
  const json& row = report["targets"][0];
  EXPECT_EQ(row["target"], path);
  EXPECT_EQ(row["ok"], false);
  ASSERT_EQ(row["bad"].size(), 2u);
  EXPECT_EQ(row["bad"][1]["id"], 2);
  EXPECT_EQ(row["bad"][1]["containerid"], 1);
  EXPECT_EQ(row["bad"][1]["dptr"], 2000);
  EXPECT_EQ(row["bad"][1]["fptr"], 3000);
  EXPECT_EQ(row["bad"][1]["chunksize"], 3000);
}

TEST_F(VerifyCommandTest, ManyDamagedContainersAreCountedAndInJsonListed) {
  testing::Contents contents;
  for (std::int32_t id = 0; id < 25; ++id) contents.emplace_back(id, Pattern(id, 64));
  std::string bytes = MakeCheckpoint({contents});
  for (std::size_t i = 0; i < 25; ++i) bytes[i * 64] ^= 1;
  const std::string path = Write("data.fti", bytes);
  ExpectSaid(Run({"verify", path}), 5, "           and 15 containers more\n");
  EXPECT_EQ(RunJson({"verify", path}, 5)["targets"][0]["bad"].size(), 25u);
}

TEST_F(VerifyCommandTest, InLayoutAAByteOutsideOfAllChunksCountsToo) {
  const testing::Contents large = {{1, Pattern(1, 100)}}, small = {{1, Pattern(1, 40)}};
  std::string bytes = MakeCheckpoint({large, small}, {.letter = ftiff::Letter::kA});
  const std::string good = Write("good.fti", bytes);
  ExpectSaid(Run({"verify", good}), 0, "ok");
  bytes[bytes.size() - 1] ^= 1;  // the tail of the container
  const std::string path = Write("tail.fti", bytes);
  ExpectSaid(Run({"verify", path}), 5, "DAMAGED  " + path + ": offset 0: checksum is");
}

TEST_F(VerifyCommandTest, DamagedMetadataIsFoundWhateverItIs) {
  const std::string whole = MakeCheckpoint({{{5, Pattern(5, 3000)}}});
  std::string bytes = whole;
  bytes[bytes.size() - 5] ^= 1;
  ExpectSaid(Run({"verify", Write("metadata.fti", bytes)}), 5, "DAMAGED  " + Path("metadata.fti"));
  ExpectSaid(Run({"verify", Write("cut.fti", whole.substr(0, 3100))}), 5, "DAMAGED");
  ExpectSaid(Run({"verify", Write("longer.fti", whole + "x")}), 5, "DAMAGED");
  ExpectSaid(Run({"verify", Write("empty", "")}), 5, "empty");
  kvtree::Tree tree;
  tree.At("DSET").At("17").Set("NAME", std::string_view("ckpt.17"));
  bytes = kvtree::Encode(tree);
  bytes[30] ^= 1;
  ExpectSaid(Run({"verify", Write("bad.scr", bytes)}), 5, "DAMAGED");
}

TEST_F(VerifyCommandTest, DamagedCodeBytesAreFound) {
  for (const std::size_t place : {0u, 69'999u, 40'000u}) {
    std::string bytes = MakeCodeFile(Pattern(1, 70'000), 3);
    bytes[place] ^= 4;
    ExpectSaid(Run({"verify", Write("Ckpt3-RSed0.fti", bytes)}), 5, "MD5 of the 70000 code bytes is");
  }
}

TEST_F(VerifyCommandTest, ARedundancyFileHasThePayloadThatItsHeaderSays) {
  const auto root = testing::VectorsPath("scr");
  if (!root.has_value()) return;
  std::size_t checked = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*root)) {
    const std::string name = entry.path().filename();
    const std::string scheme = name.find(".xor.") != name.npos       ? "XOR"
                               : name.find(".partner.") != name.npos ? "PARTNER"
                               : name.find(".rs.") != name.npos      ? "RS"
                                                                     : "";
    if (!name.ends_with(".redset") || scheme.empty()) continue;
    ++checked;
    const std::string whole = Read(entry.path());
    ExpectSaid(Run({"verify", entry.path()}), 0,
               "sizes only " + entry.path().string() + ": redundancy file of SCR's, " + scheme);
    if (checked % 8 != 1) continue;
    // Also under a name that says nothing.
    for (const std::string& copy : {name, std::string("file")}) {
      ExpectSaid(Run({"verify", Write(copy, whole.substr(0, whole.size() - 1))}), 5,
                 "bytes behind the header, expected");
    }
  }
  EXPECT_GT(checked, 20u);
}

TEST_F(VerifyCommandTest, ARunMayHaveFilesThatAreCalledAsFtisAre) {
  std::filesystem::create_directories(Path("heat/.scr"));
  kvtree::Tree index;
  index.Set("VERSION", "2");
  Write("heat/.scr/index.scr", kvtree::Encode(index));
  Write("heat/Ckpt3-Rank0.fti", "the application's own");
  ExpectSaid(Run({"verify", Path("heat")}), 0, "no dataset is committed there");
  std::filesystem::create_directories(Path("l1/Ckpt4-Rank0.fti"));
  WriteRank("l1", 3, 0);
  const CairnRun run = Run({"verify", Path("l1")});
  ExpectSaid(run, 0, "Ckpt3-Rank0.fti: FTI-FF");
  EXPECT_EQ(run.out.find("Ckpt4"), std::string::npos) << run.out;
}

TEST_F(VerifyCommandTest, ADirectoryOfBp5IsForAnotherCommand) {
  std::filesystem::create_directories(Path("fields.bp"));
  Write("fields.bp/md.idx", "x");
  ExpectSaid(Run({"verify", Path("fields.bp")}), 1, "`cairn vars " + Path("fields.bp") + "`");
}

TEST_F(VerifyCommandTest, TheNumberInTheNameIsThatInTheFile) {
  const std::string bytes = MakeCheckpoint({{{5, "x"}}});  // checkpoint 17
  for (const std::string name : {"Ckpt18-Rank0.fti", "Ckpt18-Pcof0.fti"}) {
    ExpectSaid(Run({"verify", Write(name, bytes)}), 5, "ckptId is 17, expected 18, which the name says");
  }
  for (const std::string name : {"Ckpt17-Rank0.fti", "Ckpt17-Pcof3.fti", "dCPFile-Rank0.fti", "heat.fti"}) {
    ExpectSaid(Run({"verify", Write(name, bytes)}), 0, "ok");
  }
  // Layout A does not hold it; that of a code file may be arbitrary after a repair.
  ExpectSaid(Run({"verify", Write("Ckpt18-Rank0.fti", MakeCheckpoint({{{5, "x"}}}, {.letter = ftiff::Letter::kA}))}), 0,
             "ok");
  ExpectSaid(Run({"verify", Write("Ckpt4-RSed0.fti", MakeCodeFile(Pattern(9, 200), 3))}), 0, "ok");
}

TEST_F(VerifyCommandTest, ANameOfAnotherKindOfFileIsDamage) {
  ExpectSaid(Run({"verify", Write("Ckpt17-RSed0.fti", MakeCheckpoint({{{5, "x"}}}))}), 5,
             "the name is that of a code file, the content that of a checkpoint file");
  ExpectSaid(Run({"verify", Write("Ckpt3-Rank0.fti", MakeCodeFile(Pattern(9, 200), 3))}), 5,
             "the name is that of a checkpoint file, the content that of a code file");
}

TEST_F(VerifyCommandTest, RanksOfSeveralCheckpointsAreNoCheckpoint) {
  const std::string a = WriteRank("l1", 5, 0), b = WriteRank("l1", 6, 1), c = WriteRank("l1", 6, 2);
  const CairnRun run = Run({"verify", a, b, c});
  ExpectSaid(run, 5, "ok       " + a);
  ExpectSaid(run, 5, "DAMAGED  " + Path("l1") + ": the checkpoint files given are of 2 checkpoints");
  ExpectSaid(run, 5, "\n           checkpoint 5: rank 0\n           checkpoint 6: ranks 1 to 2\n");
  EXPECT_EQ(RunJson({"verify", a, b}, 5)["targets"].size(), 3u);
  ExpectSaid(Run({"verify", b, c}), 0, "ok");
}

TEST_F(VerifyCommandTest, SeveralWholeCheckpointsInAFolderAreRight) {
  const std::string a = WriteRank("l1", 5, 0), b = WriteRank("l1", 5, 1), c = WriteRank("l1", 6, 0),
                    d = WriteRank("l1", 6, 1);
  ExpectSaid(Run({"verify", a, b, c, d}), 0, "ok       " + Path("l1") + ": the checkpoint files given are of 2");
  ExpectSaid(Run({"verify", a, b, c}), 0, "           checkpoint 6: rank 0\n");  // of 5 there are all
}

TEST_F(VerifyCommandTest, RanksOfDifferentFoldersAreNotCompared) {
  ExpectSaid(Run({"verify", WriteRank("node0", 5, 0), WriteRank("node1", 6, 1)}), 0, "ok");
}

TEST_F(VerifyCommandTest, OfAFolderOfFtiAllFilesAreLookedAt) {
  const std::string a = WriteRank("l1", 5, 0), b = WriteRank("l1", 6, 1);
  Write("l1/notes.txt", "not FTI's");
  const CairnRun run = Run({"verify", Path("l1")});
  ExpectSaid(run, 5, "ok       " + a);
  ExpectSaid(run, 5, "ok       " + b);
  ExpectSaid(run, 5, "the checkpoint files given are of 2 checkpoints");
  EXPECT_EQ(run.out.find("notes"), std::string::npos) << run.out;
}

TEST_F(VerifyCommandTest, DifferentialFilesAreComparedByTheNumberInThem) {
  const std::string a = Write("dCPFile-Rank0.fti", MakeCheckpoint({{{1, "x"}}}, {.header = {.checkpoint_id = 5}}));
  const std::string b = Write("dCPFile-Rank1.fti", MakeCheckpoint({{{1, "x"}}}, {.header = {.checkpoint_id = 6}}));
  ExpectSaid(Run({"verify", a, b}), 5, "the differential files given are of 2 checkpoints");
}

TEST_F(VerifyCommandTest, SeveralTargetsAreAllLookedAt) {
  std::string bytes = MakeCheckpoint({{{5, Pattern(5, 3000)}}});
  const std::string good = Write("good.fti", bytes);
  bytes[0] ^= 1;
  const std::string bad = Write("bad.fti", bytes);
  const CairnRun run = Run({"verify", Path("nothing"), bad, good});
  ExpectSaid(run, 5, "ok       " + good);
  ExpectSaid(run, 5, "DAMAGED  " + bad);
  ExpectSaid(run, 5, "FAILED   " + Path("nothing"));
  ExpectSaid(Run({"verify", good, Path("nothing")}), 4, "FAILED");
}

TEST_F(VerifyCommandTest, WhatIsNotThereIsNotFound) {
  ExpectSaid(Run({"verify", Path("nothing")}), 4, "FAILED");
  ExpectSaid(Run({"verify", "nobody"}), 4, "no daemon that may know it as a run");
}

TEST_F(VerifyCommandTest, DamagedFilesOfTheReferenceAreToldFromWholeOnes) {
  const auto root = testing::VectorsPath("ftiff/corrupt");
  if (!root.has_value()) return;
  const json known = json::parse(testing::ReadVector(*root + "/corrupt.json"));
  std::vector<std::string> arguments = {"verify"};
  for (const json& file : known["files"]) arguments.push_back(*root + "/" + file["name"].get<std::string>());
  const json report = RunJson(arguments, 5);
  ASSERT_EQ(report["targets"].size(), known["files"].size());
  for (std::size_t i = 0; i < known["files"].size(); ++i) {
    const json& file = known["files"][i];
    EXPECT_EQ(report["targets"][i]["ok"], file["must_accept"]) << file << report["targets"][i];
    EXPECT_EQ(report["targets"][i]["error"] == "", file["must_accept"]) << file;
  }
}

TEST_F(VerifyCommandTest, AllThatTheReferenceWroteIsWhole) {
  const auto root = testing::VectorsPath("ftiff");
  if (!root.has_value()) return;
  std::vector<std::string> arguments = {"verify"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*root)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".fti") || path.find("/corrupt/") != std::string::npos) continue;
    if (path.find("/text-samples/") != std::string::npos || path.find("/dcp-then-full-F/") != std::string::npos)
      continue;
    arguments.push_back(path);
  }
  EXPECT_GT(arguments.size(), 100u);
  const CairnRun run = Run(arguments);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out.find("DAMAGED"), std::string::npos) << run.out;
}

// FTI-FF specification, section 11: such a file has only what changed since the differential checkpoint before it.
TEST_F(VerifyCommandTest, AFullCheckpointOfTheReferenceThatIsNotFullIsDamage) {
  const auto root = testing::VectorsPath("ftiff/dcp-then-full-F");
  if (!root.has_value()) return;
  ExpectSaid(Run({"verify", *root + "/Ckpt2-Rank0.fti"}), 5, "DAMAGED");
}

}  // namespace
}  // namespace cairn
