// `cairn index` as a user runs it. What the changes do to a prefix: tests/storage/place/prefix/.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/prefix.h"
#include "tests/client/cli/file_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;

scr::IndexEntry EntryOf(DatasetId id, const std::string& name) {
  scr::IndexEntry entry;
  entry.descriptor.id = id;
  entry.descriptor.name = name;
  entry.descriptor.files = 8;
  entry.descriptor.bytes = 3 << 20;
  entry.descriptor.complete = true;
  entry.complete = true;
  entry.flushed = "2026-11-20T07:37:1" + std::to_string(id % 10);
  return entry;
}

class IndexCommandTest : public testing::FileFixture {
 protected:
  IndexCommandTest() : prefix_(Path("heat")) { std::filesystem::create_directories(prefix_ + "/.scr"); }

  std::string IndexPath() const { return prefix_ + "/.scr/index.scr"; }

  void PutIndex(const std::vector<scr::IndexEntry>& entries, const std::string& current) const {
    kvtree::Tree tree;
    for (const scr::IndexEntry& entry : entries) scr::PutIndexEntry(entry, tree);
    if (!current.empty()) scr::SetCurrent(current, tree);
    Write("heat/.scr/index.scr", kvtree::Encode(tree));
  }

  // Checkpoints 1, 2 (failed), 4 (not complete), 5; output 3.
  void PutSample() const {
    scr::IndexEntry failed = EntryOf(2, "step_2");
    failed.failed = "2026-11-20T08:00:00";
    failed.fetched = {"2026-11-20T07:59:00", "2026-11-20T07:59:59"};
    scr::IndexEntry output = EntryOf(3, "plot");
    output.descriptor.checkpoint = false;
    output.descriptor.output = true;
    scr::IndexEntry begun = EntryOf(4, "step_4");
    begun.complete = false;
    begun.flushed.clear();
    scr::IndexEntry cairns = EntryOf(5, "ckpt.5");
    cairns.descriptor.launch = 2;
    cairns.descriptor.step = 40;
    cairns.descriptor.ranks = 8;
    PutIndex({EntryOf(1, "step_1"), failed, output, begun, cairns}, "step_1");
  }

  // Two datasets that Cairn commits, of one rank and one file each; their ids.
  std::vector<DatasetId> CommitTwo() const {
    const auto disk = MakePosixDisk();
    auto prefix = Prefix::Open(*disk, prefix_);
    EXPECT_OK(prefix);
    const auto ids = (*prefix)->ReserveIds(0);
    EXPECT_OK(ids);
    for (DatasetId id = ids->first; id < ids->first + 2; ++id) Commit(**prefix, id);
    return {ids->first, ids->first + 1};
  }

  std::string FileOf(DatasetId id) const {
    return prefix_ + "/ckpt." + std::to_string(id) + "/" + CheckpointFileName(id, 0);
  }

  // Text of `cairn index RUN`, without the head.
  std::string Listed() const {
    const std::string text = Run({"index", prefix_}).out;
    return text.substr(std::min(text.find('\n') + 1, text.size()));
  }

  std::string prefix_;

 private:
  void Commit(Prefix& prefix, DatasetId id) const {
    const std::string name = "ckpt." + std::to_string(id), bytes(3000, 'd');
    catalogue::Catalogue catalogue;
    catalogue.set_run(prefix.run().Hex());
    catalogue.set_launch(1);
    catalogue.set_dataset(id);
    catalogue.set_step(id);
    catalogue.set_nranks(1);
    catalogue::FileEntry& file = *catalogue.add_file();
    file.set_name(CheckpointFileName(id, 0));
    file.set_prefix_name(name + "/" + file.name());
    file.set_bytes(bytes.size());
    file.add_crc32c(Crc32c(std::as_bytes(std::span(bytes))));
    std::filesystem::create_directories(prefix_ + "/" + name);
    Write("heat/" + file.prefix_name(), bytes);
    scr::Descriptor descriptor;
    descriptor.id = id;
    descriptor.name = name;
    descriptor.created_us = 1'700'000'000'000'000;
    descriptor.launch = 1;
    descriptor.step = id;
    descriptor.ranks = 1;
    descriptor.complete = true;
    EXPECT_OK(prefix.Commit(descriptor, {catalogue}));
  }
};

// --- list ---

TEST_F(IndexCommandTest, CheckpointsAreListedNewestFirstInScrsColumns) {
  PutSample();
  const CairnRun run = Run({"index", "list", prefix_});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out,
            "DSET  VALID  FLUSHED              CUR  NAME\n"
            "   5  YES    2026-11-20T07:37:15       ckpt.5\n"
            "   4  NO     -                         step_4\n"
            "   2  NO     2026-11-20T07:37:12       step_2\n"
            "   1  YES    2026-11-20T07:37:11  *    step_1\n");
  EXPECT_EQ(run.err, "cairn: note: not listed: 1 dataset that is no checkpoint; --all lists all\n");
}

TEST_F(IndexCommandTest, ListIsWhatIsDoneWithARunAlone) {
  PutSample();
  EXPECT_EQ(Run({"index", prefix_}).out, Run({"index", "list", prefix_}).out);
  EXPECT_EQ(Run({"index", prefix_, "--all"}).out, Run({"index", "list", prefix_, "-a"}).out);
}

TEST_F(IndexCommandTest, AllListsOutputsTooAndWhyADatasetIsNotValid) {
  PutSample();
  const CairnRun run = Run({"index", prefix_, "--all"});
  EXPECT_EQ(run.err, "");
  ExpectSaid(run, 0, "   3  YES    2026-11-20T07:37:13       output      complete ");
  ExpectSaid(run, 0, "failed 2026-11-20T08:00:00  2026-11-20T07:59:59  SCR ");
  ExpectSaid(run, 0, "not complete");
  ExpectSaid(run, 0, "Cairn      8  3.0 MiB  ckpt.5\n");
}

TEST_F(IndexCommandTest, JsonHasAllThatTheIndexSays) {
  PutSample();
  const json list = RunJson({"index", prefix_});
  EXPECT_EQ(list["prefix"], prefix_);
  EXPECT_EQ(list["current"], 1);
  ASSERT_EQ(list["datasets"].size(), 5u);
  const json& newest = list["datasets"][0];
  EXPECT_EQ(newest["dataset"], 5);
  EXPECT_EQ(newest["name"], "ckpt.5");
  EXPECT_EQ(newest["valid"], true);
  EXPECT_EQ(newest["current"], false);
  EXPECT_EQ(newest["by_cairn"], true);
  EXPECT_EQ(newest["launch"], 2);
  EXPECT_EQ(newest["step"], 40);
  EXPECT_EQ(newest["nranks"], 8);
  EXPECT_EQ(newest["files"], 8);
  EXPECT_EQ(newest["bytes"], 3 << 20);
  EXPECT_EQ(list["datasets"][1]["complete"], false);
  EXPECT_EQ(list["datasets"][2]["checkpoint"], false);
  EXPECT_EQ(list["datasets"][2]["output"], true);
  EXPECT_EQ(list["datasets"][3]["failed"], "2026-11-20T08:00:00");
  EXPECT_EQ(list["datasets"][3]["fetched"], (json{"2026-11-20T07:59:00", "2026-11-20T07:59:59"}));
  EXPECT_EQ(list["datasets"][3]["valid"], false);
  EXPECT_EQ(list["datasets"][4]["current"], true);
  EXPECT_FALSE(list["datasets"][4].contains("launch"));
}

TEST_F(IndexCommandTest, NamesWithControlCharactersArePrintedClean) {
  PutIndex({EntryOf(1, "two\nlines \x1b[31m")}, "two\nlines \x1b[31m");
  EXPECT_EQ(Listed(), "   1  YES    2026-11-20T07:37:11  *    two?lines ?[31m\n");
  EXPECT_EQ(RunJson({"index", prefix_})["datasets"][0]["name"], "two\nlines \x1b[31m");
  const CairnRun dropped = Run({"index", "drop", prefix_, "1"});
  ExpectSaid(dropped, 0, "dataset 1 (two?lines ?[31m) dropped");
}

TEST_F(IndexCommandTest, ARunWithoutAnIndexHasNoDatasets) {
  EXPECT_EQ(Run({"index", prefix_}).out, "DSET  VALID  FLUSHED  CUR  NAME\n");
  std::filesystem::remove(prefix_ + "/.scr");
  std::filesystem::create_directory(prefix_ + "/.cairn");
  const json list = RunJson({"index", prefix_});
  EXPECT_EQ(list["datasets"], json::array());
  EXPECT_EQ(list["current"], json(nullptr));
}

TEST_F(IndexCommandTest, AnEmptyIndexCountsAsMissingAndThatIsSaid) {
  Write("heat/.scr/index.scr", "");
  const CairnRun run = Run({"index", prefix_});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_NE(run.err.find("counts as missing: `cairn index add RUN NAME`"), std::string::npos) << run.err;
  EXPECT_EQ(RunJson({"index", prefix_})["datasets"], json::array());
}

TEST_F(IndexCommandTest, WhatIsNoRunsDirectoryIsNotFound) {
  std::filesystem::remove(prefix_ + "/.scr");
  for (const char* action : {"list", "current", "drop", "drop-after", "remove", "add", "build"}) {
    std::vector<std::string> arguments = {"index", action, prefix_};
    if (std::string(action) != "list") arguments.emplace_back("1");
    ExpectSaid(Run(arguments), 4, prefix_ + ": not a run's directory");
  }
  ExpectSaid(Run({"index", Path("nothing")}), 4, "no such directory");
  ExpectSaid(Run({"index", "nothing"}), 4, "no such directory, and no daemon");
  EXPECT_EQ(Names(), std::vector<std::string>{"heat"});
  EXPECT_TRUE(std::filesystem::is_empty(prefix_));
}

TEST_F(IndexCommandTest, ADamagedIndexIsNamedAndStaysAsItIs) {
  PutSample();
  std::string bytes = Read(IndexPath());
  bytes[100] ^= 1;
  Write("heat/.scr/index.scr", bytes);
  for (const char* action : {"list", "current", "drop", "drop-after", "remove"}) {
    std::vector<std::string> arguments = {"index", action, prefix_};
    if (std::string(action) != "list") arguments.emplace_back("1");
    const CairnRun run = Run(arguments);
    ExpectSaid(run, 5, IndexPath());
    ExpectSaid(run, 5, "offset ");
    EXPECT_EQ(run.out, "");
  }
  EXPECT_EQ(Read(IndexPath()), bytes);
}

TEST_F(IndexCommandTest, AnIndexOfAnotherVersionIsRefused) {
  PutSample();
  auto tree = kvtree::Decode("index", Read(IndexPath()));
  ASSERT_OK(tree);
  tree->Set("VERSION", "3");
  const std::string bytes = kvtree::Encode(*tree);
  Write("heat/.scr/index.scr", bytes);
  ExpectSaid(Run({"index", prefix_}), 1, "VERSION");
  ExpectSaid(Run({"index", "drop", prefix_, "1"}), 1, "VERSION");
  EXPECT_EQ(Read(IndexPath()), bytes);
}

// --- changes ---

TEST_F(IndexCommandTest, CurrentIsSetByNameOrNumber) {
  PutSample();
  const CairnRun run = Run({"index", "current", prefix_, "5"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "dataset 5 (ckpt.5) is current: a restart begins there, or before it\n");
  EXPECT_EQ(RunJson({"index", prefix_})["current"], 5);
  const json changed = RunJson({"index", "current", prefix_, "step_1"});
  EXPECT_EQ(changed["change"], "current");
  EXPECT_EQ(changed["current"], 1);
  EXPECT_EQ(changed["datasets"][0]["name"], "step_1");
}

TEST_F(IndexCommandTest, CurrentIsACheckpointThatARestartCanUse) {
  PutSample();
  const std::string before = Read(IndexPath());
  ExpectSaid(Run({"index", "current", prefix_, "plot"}), 1, "dataset 3 is no checkpoint");
  ExpectSaid(Run({"index", "current", prefix_, "step_2"}), 1, "dataset 2 failed");
  ExpectSaid(Run({"index", "current", prefix_, "step_4"}), 1, "dataset 4 is not complete");
  ExpectSaid(Run({"index", "current", prefix_, "step_9"}), 4, "step_9");
  EXPECT_EQ(Read(IndexPath()), before);
}

TEST_F(IndexCommandTest, ADroppedDatasetKeepsItsFilesAndCanBeAdded) {
  const std::vector<DatasetId> ids = CommitTwo();
  const std::string name = "ckpt." + std::to_string(ids[1]);
  const std::string listed = Listed();
  const CairnRun dropped = Run({"index", "drop", prefix_, name});
  EXPECT_EQ(dropped.exit_code, 0) << dropped.err;
  EXPECT_TRUE(dropped.out.starts_with("dataset " + std::to_string(ids[1]) + " (" + name + ") dropped from the index"));
  ExpectSaid(dropped, 0, "current is now dataset " + std::to_string(ids[0]) + " (ckpt." + std::to_string(ids[0]));
  EXPECT_TRUE(std::filesystem::exists(FileOf(ids[1])));
  EXPECT_EQ(RunJson({"index", prefix_})["datasets"].size(), 1u);
  ExpectSaid(Run({"index", "drop", prefix_, name}), 4, name);
  const json added = RunJson({"index", "add", prefix_, name});
  EXPECT_EQ(added["change"], "add");
  EXPECT_EQ(added["datasets"][0]["dataset"], ids[1]);
  EXPECT_EQ(RunJson({"index", prefix_})["datasets"].size(), 2u);
}

TEST_F(IndexCommandTest, WhatHasLostFilesIsNotAdded) {
  const std::vector<DatasetId> ids = CommitTwo();
  const std::string name = "ckpt." + std::to_string(ids[1]);
  EXPECT_EQ(Run({"index", "drop", prefix_, name}).exit_code, 0);
  std::filesystem::remove(FileOf(ids[1]));
  ExpectSaid(Run({"index", "add", prefix_, name}), 5, CheckpointFileName(ids[1], 0));
  ExpectSaid(Run({"index", "add", prefix_, "ckpt.4711"}), 4, "ckpt.4711");
  EXPECT_EQ(RunJson({"index", prefix_})["datasets"].size(), 1u);
}

TEST_F(IndexCommandTest, DropAfterDropsAllThatAreNewer) {
  PutSample();
  const json dropped = RunJson({"index", "drop-after", prefix_, "step_2"});
  ASSERT_EQ(dropped["datasets"].size(), 3u);
  EXPECT_EQ(dropped["datasets"][0]["dataset"], 5);
  EXPECT_EQ(dropped["datasets"][2]["dataset"], 3);
  EXPECT_EQ(RunJson({"index", prefix_})["datasets"].size(), 2u);
  EXPECT_EQ(Run({"index", "drop-after", prefix_, "2"}).out, "nothing is newer than 2\n");
  ExpectSaid(Run({"index", "drop-after", prefix_, "77"}), 4, "77");
}

TEST_F(IndexCommandTest, ARemovedDatasetIsGoneWithItsFilesAndThatIsSaid) {
  const std::vector<DatasetId> ids = CommitTwo();
  const CairnRun removed = Run({"index", "remove", prefix_, std::to_string(ids[1])});
  EXPECT_EQ(removed.exit_code, 0) << removed.err;
  ExpectSaid(removed, 0, "removed: its entry, its records and its ");
  ExpectSaid(removed, 0, "current is now dataset " + std::to_string(ids[0]));
  EXPECT_FALSE(std::filesystem::exists(FileOf(ids[1])));
  EXPECT_TRUE(std::filesystem::exists(FileOf(ids[0])));
  ExpectSaid(Run({"index", "remove", prefix_, std::to_string(ids[1])}), 4, std::to_string(ids[1]));
  const json last = RunJson({"index", "remove", prefix_, std::to_string(ids[0])});
  EXPECT_EQ(last["current"], json(nullptr));
  EXPECT_EQ(RunJson({"index", prefix_})["datasets"].size(), 0u);
}

TEST_F(IndexCommandTest, BuildSaysWhatItDoesNotFind) {
  const std::vector<DatasetId> ids = CommitTwo();
  ExpectSaid(Run({"index", "build", prefix_, "4711"}), 4, "4711");
  ExpectSaid(Run({"index", "build", prefix_, std::to_string(ids[0])}), 1, std::to_string(ids[0]));
}

// What SCR's scavenge left of four ranks, without what indexes it.
TEST_F(IndexCommandTest, BuildCompletesWhatAScavengeSavedOrNamesTheRanksThatAreMissing) {
  const auto root = testing::VectorsPath("scr/scavenge_xor_np4/pfs/demo");
  if (!root.has_value()) return;
  std::filesystem::copy(*root, prefix_,
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  const std::string records = prefix_ + "/.scr/scr.dataset.1/";
  for (const std::string& path :
       {IndexPath(), records + "summary.scr", records + "rank2file", records + "rank2file.0.0"}) {
    ASSERT_TRUE(std::filesystem::remove(path)) << path;
  }
  std::filesystem::rename(records + "filemap_1", records + "aside");
  const CairnRun missing = Run({"index", "build", prefix_, "1"});
  ExpectSaid(missing, 7, "dataset 1 is not whole, so nothing was written: 1 of 4 ranks missing: 1\n  rank 1: ");
  const json answer = RunJson({"index", "build", prefix_, "1"}, 7);
  EXPECT_EQ(answer["whole"], false);
  EXPECT_EQ(answer["missing"], json{1});
  EXPECT_EQ(answer["nranks"], 4);
  EXPECT_EQ(Listed(), "");
  std::filesystem::rename(records + "filemap_3", records + "another");
  ExpectSaid(Run({"index", "build", prefix_, "1"}), 7, "2 of 4 ranks missing: 1, 3\n");
  std::filesystem::rename(records + "filemap_2", records + "third");
  ExpectSaid(Run({"index", "build", prefix_, "1"}), 7, "3 of 4 ranks missing: 1-3\n");
  std::filesystem::rename(records + "third", records + "filemap_2");
  std::filesystem::rename(records + "another", records + "filemap_3");
  std::filesystem::rename(records + "aside", records + "filemap_1");
  ExpectSaid(Run({"index", "build", prefix_, "1"}), 0, "dataset 1 is whole: 4 ranks, and is in the index now\n");
  const json list = RunJson({"index", prefix_});
  ASSERT_EQ(list["datasets"].size(), 1u);
  EXPECT_EQ(list["datasets"][0]["name"], "step_000010");
  EXPECT_EQ(list["datasets"][0]["valid"], true);
}

TEST_F(IndexCommandTest, AReadOnlyPrefixCanBeListed) {
  PutSample();
  const std::string before = Read(IndexPath());
  if (geteuid() != 0) {
    ASSERT_EQ(chmod((prefix_ + "/.scr").c_str(), 0500), 0);
  } else if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
             mount(prefix_.c_str(), prefix_.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
             mount(nullptr, prefix_.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) {
    GTEST_SKIP() << "root writes everywhere, and may not mount here";
  }
  EXPECT_EQ(RunJson({"index", prefix_})["datasets"].size(), 5u);
  ExpectSaid(Run({"index", "drop", prefix_, "1"}), 1, prefix_ + "/.scr");
  ExpectSaid(Run({"halt", prefix_}), 1, prefix_ + "/.scr");
  EXPECT_EQ(Read(IndexPath()), before);
  if (geteuid() == 0) umount(prefix_.c_str());
  chmod((prefix_ + "/.scr").c_str(), 0700);
}

TEST_F(IndexCommandTest, WrongCommandsAreToldApart) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"index"},
                                                {"index", "list"},
                                                {"index", "current", prefix_},
                                                {"index", "current", prefix_, ""},
                                                {"index", "list", prefix_, "more"},
                                                {"index", "drop", prefix_, "1", "2"},
                                                {"index", "build", prefix_, "ckpt.1"},
                                                {"index", "build", prefix_, "0"},
                                                {"index", "build", prefix_, "4294967296"},
                                                {"index", prefix_, "paint"},
                                                {"index", "list", prefix_, "--none"}}) {
    EXPECT_EQ(Run(wrong).exit_code, 2) << json(wrong);
  }
  ExpectSaid(Run({"index", prefix_, "drop", "1"}), 2, "cairn index drop RUN");
}

TEST_F(IndexCommandTest, HelpSaysHowAndWhatTheExitCodesMean) {
  ExpectSaid(Run({"index", "--help"}), 0, "Exit codes:");
  for (const char* action : {"list", "current", "drop", "drop-after", "remove", "add", "build"}) {
    ExpectSaid(Run({"index", "--help"}), 0, std::string("\n  ") + action);
    ExpectSaid(Run({"index", action, "--help"}), 0, "RUN");
  }
}

// --- SCR's own ---

TEST_F(IndexCommandTest, ScrsIndexesAreListed) {
  struct Known {
    const char* scenario;
    const char* rows;
  };
  for (const auto& [scenario, rows] : {Known{"prefix_lifecycle_np2",
                                             "   4  YES    2026-11-20T07:37:21       step_000040\n"
                                             "   3  YES    2026-11-20T07:37:15       step_000020\n"
                                             "   1  YES    2026-11-20T07:37:12  *    step_000010\n"},
                                       Known{"index_failed_np2",
                                             "   2  NO     2026-11-20T07:46:41       step_000020\n"
                                             "   1  YES    2026-11-20T07:46:41  *    step_000010\n"}}) {
    const auto root = testing::VectorsPath(std::string("scr/") + scenario);
    if (!root.has_value()) return;
    const std::string listed = Run({"index", *root + "/pfs/demo"}).out;
    EXPECT_EQ(listed.substr(listed.find('\n') + 1), rows) << scenario;
  }
}

}  // namespace
}  // namespace cairn
