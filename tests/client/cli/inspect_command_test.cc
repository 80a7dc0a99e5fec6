// `cairn inspect` as a user runs it. The listing itself: tests/storage/format/ftiff/inspect_test.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "proto/catalogue.pb.h"
#include "storage/base/unique_fd.h"
#include "storage/format/catalogue/catalogue.h"
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

class InspectCommandTest : public testing::FileFixture {};

TEST_F(InspectCommandTest, ACheckpointFileIsExplained) {
  const std::string path = Write("Ckpt17-Rank0.fti", MakeCheckpoint({{{5, Pattern(5, 3000)}}}));
  const CairnRun run = Run({"inspect", path});
  EXPECT_TRUE(run.out.starts_with(path + ": FTI-FF checkpoint file, layout F\n")) << run.out;
  ExpectSaid(run, 0, "FTI after 1.6 (2022), or Cairn");
  ExpectSaid(run, 0, "2.9 KiB of 1 variable, in 1 container of 1 block\n");
  EXPECT_EQ(run.err, "");
  const json inspected = RunJson({"inspect", path});
  EXPECT_EQ(inspected["kind"], "FTI-FF");
  EXPECT_EQ(inspected["path"], path);
  EXPECT_EQ(inspected["layout"], "F");
  EXPECT_EQ(inspected["blocks"].size(), 1u);
}

TEST_F(InspectCommandTest, ContainersThatLostTheirContentAreMarked) {
  const std::string path =
      Write("a.fti", MakeCheckpoint({{{1, Pattern(1, 10)}}, {{1, Pattern(1, 30)}}, {{1, Pattern(1, 4)}}}));
  const CairnRun run = Run({"inspect", path});
  ExpectSaid(run, 0, "1 container is empty\n");
  ExpectSaid(run, 0, "  empty\n");
  ExpectSaid(run, 0, "  partly filled\n");
}

TEST_F(InspectCommandTest, ACodeFileIsExplained) {
  const std::string path = Write("Ckpt3-RSed1.fti", MakeCodeFile(Pattern(1, 5000), 3));
  ExpectSaid(Run({"inspect", path}), 0, "FTI-FF level 3 code file, layout F\n");
  const json inspected = RunJson({"inspect", path});
  EXPECT_EQ(inspected["kind"], "FTI-FF code");
  EXPECT_EQ(inspected["file"]["maxFs"], 5000);
}

TEST_F(InspectCommandTest, TheDataIsNotRead) {
  std::string bytes = MakeCheckpoint({{{5, Pattern(5, 3000)}}});
  bytes[100] ^= 1;
  ExpectSaid(Run({"inspect", Write("data.fti", bytes)}), 0, "FTI-FF");
}

TEST_F(InspectCommandTest, DamagedMetadataIsNamed) {
  std::string bytes = MakeCheckpoint({{{5, Pattern(5, 3000)}}});
  bytes[bytes.size() - 5] ^= 1;
  const std::string path = Write("metadata.fti", bytes);
  const CairnRun run = Run({"inspect", path});
  ExpectSaid(run, 5, "cairn: " + path + ": ");
  EXPECT_EQ(run.out, "");
}

TEST_F(InspectCommandTest, WhatIsNoFileOfCairnsOrFtisIsRefused) {
  ExpectSaid(Run({"inspect", Write("notes.txt", "some words")}), 5, "a damaged file, or none that Cairn knows");
  ExpectSaid(Run({"inspect", Write("empty.fti", "")}), 5, "empty");
  ExpectSaid(Run({"inspect", folder_}), 1, folder_ + " is a directory");
  ExpectSaid(Run({"inspect", Path("nothing")}), 4, Path("nothing") + ": No such file");
  ExpectSaid(Run({"inspect", Write("file", "x") + "/below"}), 4, "Not a directory");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  ExpectSaid(Run({"inspect", Path("pipe")}), 1, "not a regular file");
  ExpectSaid(Run({"inspect", "/dev/null"}), 1, "not a regular file");
}

TEST_F(InspectCommandTest, ANameForATerminalHasNoControlCharacters) {
  const std::string path = Write("odd\x1b[31m.fti", MakeCheckpoint({{{5, "x"}}}));
  const CairnRun run = Run({"inspect", path});
  ExpectSaid(run, 0, "odd?[31m.fti: FTI-FF");
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
}

TEST_F(InspectCommandTest, ASymbolicLinkIsFollowed) {
  const std::string path = Write("Ckpt17-Rank0.fti", MakeCheckpoint({{{5, "x"}}}));
  std::filesystem::create_symlink(path, Path("data.0"));
  ExpectSaid(Run({"inspect", Path("data.0")}), 0, path + ": FTI-FF");
}

TEST_F(InspectCommandTest, AReaderThatGoesAwayEndsItQuietly) {
  const std::string path = Write("a.fti", MakeCheckpoint({{{5, "x"}}}));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[1]);
  close(ends[0]);
  const CairnRun run = testing::RunCairnInto(out.get(), {"inspect", path});
  EXPECT_EQ(run.exit_code, 128 + SIGPIPE);
  EXPECT_EQ(run.err, "");
}

TEST_F(InspectCommandTest, AFullDiskBehindTheOutputIsAFailure) {
  const std::string path = Write("a.fti", MakeCheckpoint({{{5, "x"}}}));
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.valid());
  const CairnRun run = testing::RunCairnInto(full.get(), {"inspect", path});
  ExpectSaid(run, 1, "standard output could not be written whole");
}

TEST_F(InspectCommandTest, KvtreeFilesAreShownAsTheyAre) {
  kvtree::Tree tree;
  tree.At("DSET").At("17").Set("NAME", std::string_view("ckpt.17"));
  tree.At("DSET").At("17").Set("odd\x1b[31m", std::string_view("\xff"));
  const std::string path = Write("index.scr", kvtree::Encode(tree));
  const CairnRun text = Run({"inspect", path});
  EXPECT_TRUE(text.out.starts_with(path + ": kvtree file of SCR\n")) << text.out;
  ExpectSaid(text, 0, "  DSET\n    17\n");
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos);
  const json inspected = RunJson({"inspect", path});
  EXPECT_EQ(inspected["kind"], "kvtree");
  EXPECT_EQ(inspected["tree"]["DSET"]["17"]["NAME"], json({{"ckpt.17", json::object()}}));
  EXPECT_EQ(inspected["tree"]["DSET"]["17"]["odd\x1b[31m"], json({{"hex:ff", json::object()}}));
}

TEST_F(InspectCommandTest, CataloguesAreShown) {
  catalogue::Catalogue catalogue;
  catalogue.set_run(std::string(32, 'a'));
  catalogue.set_launch(1);
  catalogue.set_dataset(17);
  catalogue.set_rank(2);
  catalogue.set_nranks(4);
  catalogue.set_scheme(local::SCHEME_XOR);
  local::Variable& variable = *catalogue.add_variables();
  variable.set_id(7);
  variable.set_kind(local::VALUE);
  variable.set_type(4);
  variable.set_name("loop");
  variable.set_count(1);
  variable.set_bytes(8);
  const std::string path = Write("rank_2.cat", EncodeCatalogue(catalogue));
  ExpectSaid(Run({"inspect", path}), 0, "catalogue of rank 2 of 4: dataset 17");
  ExpectSaid(Run({"inspect", path}), 0, "its application has asked for redundancy xor");
  ExpectSaid(Run({"inspect", path}), 0, "7  int64[1]  value 'loop'  8 B");
  EXPECT_EQ(RunJson({"inspect", path})["variables"][0]["name"], "loop");
}

// What the reference wrote, against what is known of it.
TEST_F(InspectCommandTest, FilesOfEachReleaseOfFtiAreListedWhole) {
  const auto root = testing::VectorsPath("ftiff");
  if (!root.has_value()) return;
  for (const std::string scenario : {"restart-A", "seed-k-B", "seed-k-C", "seed-k-D", "types-E", "zero-F"}) {
    SCOPED_TRACE(scenario);
    const json known = json::parse(testing::ReadVector(*root + "/" + scenario + "/" + scenario + ".json"));
    const json& file = known["files"].back();
    ASSERT_EQ(file["stored_encoding"], "raw");
    const json inspected = RunJson({"inspect", *root + "/" + file["stored"].get<std::string>()});
    EXPECT_EQ(inspected["layout"], known["layout"]);
    json expected = file["file_meta"];
    expected["myHash"] = expected["myhash"];
    expected.erase("myhash");
    EXPECT_EQ(inspected["file"], expected);
    ASSERT_EQ(inspected["blocks"].size(), file["blocks"].size());
    for (std::size_t i = 0; i < file["blocks"].size(); ++i) {
      const json& block = file["blocks"][i];
      EXPECT_EQ(inspected["blocks"][i]["chunks"], block["vars"]);
      EXPECT_EQ(inspected["blocks"][i]["dbsize"], block["dbsize"]);
      EXPECT_EQ(inspected["blocks"][i]["meta_offset"], block["meta_offset"]);
    }
  }
}

TEST_F(InspectCommandTest, CodeFilesOfFtiAreListed) {
  const auto root = testing::VectorsPath("ftiff");
  if (!root.has_value()) return;
  for (const std::string scenario : {"levels-n1g4-A", "rs-g3-E", "levels-n1g4-F"}) {
    SCOPED_TRACE(scenario);
    const json known = json::parse(testing::ReadVector(*root + "/" + scenario + "/" + scenario + ".json"));
    int code_files = 0;
    for (const json& file : known["files"]) {
      if (file["kind"] != "rs") continue;
      const json inspected = RunJson({"inspect", *root + "/" + file["stored"].get<std::string>()});
      EXPECT_EQ(inspected["kind"], "FTI-FF code");
      EXPECT_EQ(inspected["layout"], known["layout"]);
      for (const char* field : {"checksum", "ckptSize", "fs", "maxFs", "ptFs"}) {
        EXPECT_EQ(inspected["file"][field], file["file_meta"][field]) << field;
      }
      EXPECT_EQ(inspected["file"]["myHash"], file["file_meta"]["myhash"]);
      EXPECT_EQ(inspected["file"]["timestamp"], file["file_meta"]["timestamp"]);
      ++code_files;
    }
    EXPECT_GT(code_files, 1);
  }
}

}  // namespace
}  // namespace cairn
