// `cairn print` as a user runs it. The codec itself: tests/storage/format/kvtree/.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "storage/format/kvtree/tree.h"
#include "tests/client/cli/file_fixture.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;

class PrintCommandTest : public testing::FileFixture {
 protected:
  std::string WriteTree(const std::string& name, const kvtree::Tree& tree, const std::string& payload = {}) const {
    return Write(name, kvtree::Encode(tree) + payload);
  }
};

kvtree::Tree SampleTree() {
  kvtree::Tree tree;
  tree.Set("A", "1");
  tree.Set("B", "2");
  tree.At("RANK").Set("10", "x");
  tree.At("RANK").Set("2", "y");
  return tree;
}

// Whatever a tree's keys are, from its JSON.
std::string KeyOf(const std::string& text) {
  if (!text.starts_with("hex:")) return text;
  std::string key;
  for (std::size_t at = 4; at < text.size(); at += 2) {
    key.push_back(static_cast<char>(std::stoi(text.substr(at, 2), nullptr, 16)));
  }
  return key;
}

kvtree::Tree TreeOf(const json& pairs) {
  kvtree::Tree tree;
  // A new key goes to the front.
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    tree.At(KeyOf((*pair)[0].get<std::string>())) = TreeOf((*pair)[1]);
  }
  return tree;
}

TEST_F(PrintCommandTest, KeysAreShownOnALineEachInTheOrderOfTheFile) {
  const CairnRun run = Run({"print", WriteTree("tree", SampleTree())});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, "  RANK\n    2\n      y\n    10\n      x\n  B\n    2\n  A\n    1\n");
  EXPECT_EQ(run.err, "");
}

TEST_F(PrintCommandTest, SortedIsByKeyAsTextOnAllLevels) {
  const CairnRun run = Run({"print", "--sort", WriteTree("tree", SampleTree())});
  EXPECT_EQ(run.out, "  A\n    1\n  B\n    2\n  RANK\n    10\n      x\n    2\n      y\n");
}

TEST_F(PrintCommandTest, AnEmptyTreePrintsNothing) {
  const CairnRun run = Run({"print", WriteTree("tree", kvtree::Tree())});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, "");
}

TEST_F(PrintCommandTest, AHaltFileMayHaveNothingInItYet) {
  const CairnRun run = Run({"print", Write("halt.scr", "")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "");
}

TEST_F(PrintCommandTest, WhatIsBehindTheTreeIsToldOnStandardError) {
  const CairnRun run = Run({"print", WriteTree("redset", SampleTree(), std::string(1000, 'p'))});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, kvtree::Print(SampleTree()));
  EXPECT_EQ(run.err, "cairn: note: 1000 bytes behind the tree are not shown\n");
  EXPECT_EQ(RunJson({"print", Path("redset")})["payload_bytes"], 1000);
}

// A sparse one: nobody reads what is behind the tree.
TEST_F(PrintCommandTest, APayloadMayBeLargerThanAnyTree) {
  const std::string path = WriteTree("redset", SampleTree());
  const std::uint64_t tree_bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, std::uint64_t{3} << 30);
  const json printed = RunJson({"print", path});
  EXPECT_EQ(printed["payload_bytes"], (std::uint64_t{3} << 30) - tree_bytes);
}

TEST_F(PrintCommandTest, JsonHasEveryByteOfEveryKey) {
  kvtree::Tree tree;
  tree.At("").At("");
  tree.At("tab\there").At("line\nbreak \x1b[31m");
  tree.At("\xff\xfe bytes").At("\xed\xa0\x80 surrogate").At("\xc0\xaf overlong").At("cut \xe2\x82");
  tree.At("hex:41").At("äöü €");
  tree.At("\xf4\x90\x80\x80 beyond").At("\xf0\x9f\x98\x80 face");
  const json printed = RunJson({"print", WriteTree("tree", tree)});
  EXPECT_EQ(printed["kind"], "kvtree");
  EXPECT_EQ(printed["path"], Path("tree"));
  EXPECT_EQ(kvtree::Encode(TreeOf(printed["tree"])), Read(Path("tree")));
  EXPECT_EQ(printed["tree"][1][0], "hex:" + std::string("6865783a3431"));
  EXPECT_EQ(printed["tree"][1][1][0][0], "äöü €");
}

TEST_F(PrintCommandTest, ATerminalGetsNoControlCharactersButAPipeGetsAll) {
  kvtree::Tree tree;
  tree.At("red \x1b[31m").At("two\nlines");
  const std::string path = WriteTree("tree", tree);
  EXPECT_EQ(Run({"print", path}).out, "  red \x1b[31m\n    two\nlines\n");
  const CairnRun shown = testing::RunCairnOnTerminal({"print", path});
  EXPECT_EQ(shown.out, "  red ?[31m\r\n    two\r\nlines\r\n");
}

TEST_F(PrintCommandTest, DamageIsNamedByFileSectionAndOffset) {
  const std::string whole = kvtree::Encode(SampleTree());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    // Flags but bit 0 are ignored by readers, though not by the CRC.
    std::string flipped = whole;
    flipped[at] ^= 1;
    const std::string path = Write("flipped", flipped);
    const CairnRun run = Run({"print", path});
    EXPECT_EQ(run.exit_code, 5) << "offset " << at << "\n" << run.out << run.err;
    EXPECT_TRUE(run.err.starts_with("cairn: " + path + ": kvtree")) << run.err;
    EXPECT_NE(run.err.find("offset "), std::string::npos) << run.err;
    EXPECT_EQ(run.out, "");
  }
  ExpectSaid(Run({"print", Write("cut", whole.substr(0, whole.size() - 1))}), 5, "declared size");
  ExpectSaid(Run({"print", Write("header", whole.substr(0, 19))}), 5, "offset 19");
}

TEST_F(PrintCommandTest, WhatIsNoKvtreeFileIsRefused) {
  ExpectSaid(Run({"print", Write("notes.txt", "some words that are no tree")}), 5, "no kvtree file");
  ExpectSaid(Run({"print", Write("empty", "")}), 5, "empty");
  ExpectSaid(Run({"print", folder_}), 1, folder_ + " is a directory");
  ExpectSaid(Run({"print", Path("nothing")}), 4, "No such file");
  EXPECT_EQ(Run({"print"}).exit_code, 2);
  EXPECT_EQ(Run({"print", "a", "b"}).exit_code, 2);
  ExpectSaid(Run({"print", "--help"}), 0, "Exit codes:");
}

TEST_F(PrintCommandTest, ScrsFilesAreShownAsScrShowsThem) {
  const auto root = testing::VectorsPath("scr");
  if (!root.has_value()) return;
  const json manifest = json::parse(testing::ReadVector(*root + "/manifest.json"));
  int files = 0;
  for (const json& entry : manifest["scenarios"]) {
    const std::string scenario = entry["scenario"];
    const json known = json::parse(testing::ReadVector(*root + "/" + scenario + "/scenario.json"));
    for (const json& file : known["files"]) {
      if (!file.contains("kvtree")) continue;
      const json& expected = file["kvtree"];
      const std::string path = *root + "/" + file["path"].get<std::string>();
      SCOPED_TRACE(path);
      const CairnRun run = Run({"print", path});
      EXPECT_EQ(run.exit_code, 0) << run.err;
      EXPECT_EQ(run.out, expected["print"]);
      EXPECT_EQ(run.err.empty(), expected["payload_bytes_after_tree"] == 0) << run.err;
      if (expected.contains("tree")) {
        EXPECT_EQ(RunJson({"print", path})["tree"], expected["tree"]);
      }
      ++files;
    }
  }
  EXPECT_GT(files, 200);
}

TEST_F(PrintCommandTest, MalformedFilesAreRefusedAndBorderlineOnesShown) {
  const auto root = testing::VectorsPath("scr/kvtree_robustness");
  if (!root.has_value()) return;
  const json known = json::parse(testing::ReadVector(*root + "/scenario.json"));
  for (const json& file : known["files"]) {
    const std::string path = *root + "/../" + file["file"].get<std::string>();
    SCOPED_TRACE(path);
    const std::string verdict = file["recommended_for_cairn"];
    const CairnRun run = Run({"print", path});
    if (verdict.starts_with("reject") || file["size"] == 0) {
      EXPECT_EQ(run.exit_code, 5) << run.out;
      EXPECT_EQ(run.out, "");
    } else {
      EXPECT_EQ(run.exit_code, 0) << run.err;
      // The trees of equal keys are merged, in whatever order.
      const bool merged = path.ends_with("duplicate_keys.kvt");
      EXPECT_EQ(merged ? Run({"print", "--sort", path}).out : run.out,
                file["reference_print"].get<std::string>() + "\n");
    }
  }
}

}  // namespace
}  // namespace cairn
