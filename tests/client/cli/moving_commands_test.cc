// `cairn adopt` and `cairn export` as a user runs them.
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "storage/base/unique_fd.h"
#include "storage/file/fti/execution.h"
#include "storage/io/posix_disk.h"
#include "tests/client/cli/run_cairn.h"
#include "tests/storage/file/fti/sample_export.h"
#include "tests/storage/file/redundancy/scr_cache.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;
using testing::RunCairn;
using testing::SampleExport;

class MovingCommandsTest : public ::testing::Test {
 protected:
  MovingCommandsTest() : disk_(MakePosixDisk()) {
    std::string name = ::testing::TempDir() + "cairn-moving-XXXXXX";
    folder_ = std::filesystem::canonical(mkdtemp(name.data())).string();
    PutSample("fti", 5);
  }
  ~MovingCommandsTest() override { std::filesystem::remove_all(folder_); }

  // An execution of two nodes, two ranks each.
  void PutSample(const std::string& name, std::int32_t id, fti::Level level = fti::Level::kPartner) {
    SampleExport sample({.ranks = 4, .node_size = 2, .group_size = 2, .heads = false}, level, ftiff::Letter::kF, id);
    sample.what.folder = Path(name);
    EXPECT_OK(fti::Write(*disk_, sample.what));
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  // Without a daemon, whoever else may run one here.
  CairnRun Run(const std::vector<std::string>& arguments) const {
    return RunCairn(arguments, {{"CAIRN_ADMIN_ADDRESS", folder_ + "/none.sock"}});
  }
  CairnRun Adopt(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"adopt",     Path("heat"), "--fti",
                                          Path("fti"), "--config",   Path("fti/config.fti")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
  static void ExpectSaid(const CairnRun& run, int exit_code, std::string_view part) {
    EXPECT_EQ(run.exit_code, exit_code) << run.out << run.err;
    EXPECT_NE((run.out + run.err).find(part), std::string::npos) << part << "\n--\n" << run.out << run.err;
  }
  static json ParsedOf(const CairnRun& run) {
    EXPECT_EQ(run.exit_code, 0) << run.err;
    json parsed = json::parse(run.out, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << run.out;
    return parsed;
  }

  std::string folder_;
  std::unique_ptr<Disk> disk_;
};

TEST_F(MovingCommandsTest, AdoptMakesTheRunAndSaysWhatItTook) {
  const CairnRun run = Adopt();
  ExpectSaid(run, 0, "adopted checkpoint 5 (level 2)");
  ExpectSaid(run, 0, "as dataset 1 (step 5)");
  ExpectSaid(run, 0, "CAIRN_PREFIX=" + Path("heat") + " and 4 ranks");
  ExpectSaid(Run({"verify", Path("heat")}), 0, "dataset 1: 4 ranks, 4 files");
  ExpectSaid(Run({"show", Path("heat"), "1"}), 0, "unknown[");
  ExpectSaid(Adopt(), 0, "was adopted before: it is dataset 1");
}

TEST_F(MovingCommandsTest, AdoptAnswersInJson) {
  std::filesystem::remove_all(Path("fti/Local/node1"));
  const json adopted = ParsedOf(Adopt({"--json"}));
  EXPECT_EQ(adopted["prefix"], Path("heat"));
  EXPECT_EQ(adopted["dataset"], 1);
  EXPECT_EQ(adopted["adopted_before"], false);
  EXPECT_EQ(adopted["checkpoint"], 5);
  EXPECT_EQ(adopted["step"], 5);
  EXPECT_EQ(adopted["level"], 2);
  EXPECT_EQ(adopted["ranks"], 4);
  EXPECT_FALSE(adopted["notes"].empty()) << "the lost node is worth a note";
  EXPECT_EQ(ParsedOf(Adopt({"--json"}))["adopted_before"], true);
}

TEST_F(MovingCommandsTest, AdoptTakesSeveralDirectoriesAndAnOlderCheckpointIfNeedBe) {
  PutSample("newer", 9, fti::Level::kLocal);
  std::filesystem::remove(Path("newer/Local/node0/cairn/l1/Ckpt9-Rank1.fti"));
  const CairnRun run =
      Run({"adopt", "--fti", Path("fti"), "--fti", Path("newer"), Path("heat"), "--config", Path("fti/config.fti")});
  ExpectSaid(run, 0, "adopted checkpoint 5");
  ExpectSaid(run, 0, "cairn: note: checkpoint 9 (level 1) is not whole");
}

TEST_F(MovingCommandsTest, AdoptRefusesWhileAnotherOneIsUnderWay) {
  ExpectSaid(Adopt(), 0, "adopted");
  PutSample("more", 6);
  const UniqueFd lock(open(Path("heat/.cairn/adopt.lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(lock.valid());
  ASSERT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  const std::vector<std::string> more = {"adopt",      Path("heat"), "--fti",
                                         Path("more"), "--config",   Path("more/config.fti")};
  ExpectSaid(Run(more), 1, "another adopt is under way");
  ASSERT_EQ(flock(lock.get(), LOCK_UN), 0);
  ExpectSaid(Run(more), 0, "adopted checkpoint 6");
}

TEST_F(MovingCommandsTest, AdoptRefusesWhereNoLockCanBeHad) {
  ExpectSaid(Adopt(), 0, "adopted");
  std::filesystem::remove(Path("heat/.cairn/adopt.lock"));
  std::filesystem::create_directory(Path("heat/.cairn/adopt.lock"));  // stands for a file system without locks
  ExpectSaid(Adopt(), 1, "the file system of " + Path("heat") + " gives no lock, so nothing was adopted");
}

TEST_F(MovingCommandsTest, AdoptRefusesAPrefixOfAnotherUserOrOpenToOthers) {
  ExpectSaid(Adopt(), 0, "adopted");
  ASSERT_EQ(chmod(Path("heat/.cairn").c_str(), 0755), 0);
  ExpectSaid(Adopt(), 1, "0700");
  ASSERT_EQ(chmod(Path("heat/.cairn").c_str(), 0700), 0);
  if (geteuid() != 0) return;  // only root gives files away
  ASSERT_EQ(chown(Path("heat/.cairn").c_str(), 12345, 12345), 0);
  ExpectSaid(Adopt(), 1, "belongs to user 12345");
}

TEST_F(MovingCommandsTest, AdoptMakesNothingForAWrongCommandLine) {
  ExpectSaid(Run({"adopt", Path("heat"), "--fti", Path("nowhere")}), 4, "nowhere");
  ExpectSaid(
      Run({"adopt", Path("heat"), "--fti", Path("fti"), "--execution", "other", "--config", Path("fti/config.fti")}), 4,
      "other");
  ExpectSaid(Run({"adopt", Path("heat")}), 2, "--fti");
  ExpectSaid(Run({"adopt", "heat", "--fti", Path("fti"), "--config", Path("fti/config.fti")}), 4, "./heat");
  EXPECT_FALSE(std::filesystem::exists(Path("heat")));
  ExpectSaid(Adopt({"--id", "4"}), 4, "no checkpoint 4");
}

TEST_F(MovingCommandsTest, AdoptSaysThatNoCheckpointIsWhole) {
  std::filesystem::remove_all(Path("fti/Local/node0"));
  std::filesystem::remove_all(Path("fti/Local/node1/cairn/l2/Ckpt5-Pcof2.fti"));
  ExpectSaid(Adopt(), 5, "checkpoint 5 (level 2) is not whole");
}

TEST_F(MovingCommandsTest, AdoptTakesAnScrCacheAndSaysWhatItTook) {
  if (!testing::PutScenario(*disk_, "xor_np4", "nodes", Path("nodes"))) return;
  std::filesystem::remove_all(Path("nodes/node1"));
  const CairnRun run = Run({"adopt", Path("heat"), "--scr", Path("nodes"), "--unverified"});
  ExpectSaid(run, 0, "adopted dataset 1 (step_000010) of SCR's job 4242 as dataset 1 (step 1) of " + Path("heat"));
  ExpectSaid(run, 0, "4 ranks, 7 files");
  ExpectSaid(run, 0, "NOT VERIFIED: as found; 1 file rebuilt\n    verified by nothing: step_000010/");
  ExpectSaid(run, 0, "cairn: note: rank 1: ");
  ExpectSaid(run, 0, "CAIRN_PREFIX=" + Path("heat") + " and 4 ranks");
  EXPECT_TRUE(std::filesystem::exists(Path("heat/step_000010/sub1/extra_0_1.dat")));
  ExpectSaid(Run({"verify", Path("heat")}), 0, "dataset 1: 4 ranks, 7 files");
  ExpectSaid(Run({"adopt", "--scr", Path("nodes/node0"), "--scr", Path("nodes"), Path("heat")}), 0,
             "was adopted before: it is dataset 1");
}

TEST_F(MovingCommandsTest, AdoptSaysByWhatTheBytesWereVerified) {
  for (const auto& [scenario, by] : {std::pair{"xor_np4", "parity"}, {"partner_np3", "a second copy"}}) {
    if (!testing::PutScenario(*disk_, scenario, "nodes", Path(scenario))) return;
    const std::string heat = Path(std::string("heat_") + scenario);
    ExpectSaid(Run({"adopt", heat, "--scr", Path(scenario)}), 0, std::string("every byte verified by ") + by + "\n");
    const CairnRun verified = Run({"verify", heat});
    ExpectSaid(verified, 0, "ok       " + heat + ": dataset 1: ");
    EXPECT_EQ(verified.out.find("as adopted"), std::string::npos) << verified.out;
    ExpectSaid(Run({"show", heat, "1"}), 0, std::string("rank_0.ckpt  (adopted, verified by ") + by + ")\n");
  }
}

TEST_F(MovingCommandsTest, WhatNothingVerifiesIsRefusedAndAskedForIsToldEverywhere) {
  if (!testing::PutScenario(*disk_, "partner_np3", "nodes", Path("nodes"))) return;
  std::filesystem::remove_all(Path("nodes/node1"));
  const CairnRun refused = Run({"adopt", Path("heat"), "--scr", Path("nodes")});
  ExpectSaid(refused, 1, "cairn: dataset 2 (step_000020): nothing verifies the bytes of 3 of 6 files (");
  ExpectSaid(refused, 1, "since rank 1 lacked data or copies; --unverified takes them as they are");
  EXPECT_FALSE(std::filesystem::exists(Path("heat/step_000020")));
  ExpectSaid(Run({"verify", Path("heat")}), 0, "no dataset is committed there");

  const json adopted = ParsedOf(Run({"adopt", Path("heat"), "--scr", Path("nodes"), "--unverified", "--json"}));
  const json& dataset = adopted["datasets"][0];
  EXPECT_EQ(dataset["verified"], false);
  EXPECT_EQ(dataset["verified_by"], json::parse(R"({"copy": 2, "nothing": 3})"));
  EXPECT_EQ(dataset["unverified"].size(), 3u);
  EXPECT_EQ(dataset["unverified"][0], "step_000020/sub1/extra_0_1.dat");

  const CairnRun verified = Run({"verify", Path("heat")});
  ExpectSaid(verified, 0, "as adopted " + Path("heat") + ": dataset 1: 3 ranks, 6 files, ");
  ExpectSaid(verified, 0, "; 3 files are as adopted: nothing could verify the bytes then\n           step_000020/");
  ExpectSaid(verified, 0, "cairn: note: as adopted: ");
  EXPECT_EQ(verified.out.find("ok "), std::string::npos) << verified.out;
  const json row = ParsedOf(Run({"verify", Path("heat"), "--json"}))["targets"][0];
  EXPECT_EQ(row["verdict"], "as adopted");
  EXPECT_EQ(row["unverified"], dataset["unverified"]);

  const CairnRun shown = Run({"show", Path("heat"), "1"});
  ExpectSaid(shown, 0, "whole, unverified, in prefix");
  ExpectSaid(shown, 0, "  3 files are as adopted: nothing could verify the bytes then\n");
  ExpectSaid(shown, 0, "step_000020/rank_1.ckpt  (adopted, verified by nothing)\n");
  const json ranks = ParsedOf(Run({"show", Path("heat"), "1", "--json"}))["ranks"];
  EXPECT_EQ(ranks[1]["verified_by"][0], "nothing");
  ExpectSaid(Run({"ls", Path("heat")}), 0, "whole, unverified");
  EXPECT_EQ(ParsedOf(Run({"ls", Path("heat"), "--json"}))["datasets"][0]["unverified_files"], 3);
  ExpectSaid(Run({"inspect", Path("heat/ckpt.1/rank_1.cat")}), 0, ", adopted, verified by nothing");
  ExpectSaid(Run({"adopt", Path("heat"), "--scr", Path("nodes")}), 0,
             "was adopted before: it is dataset 1 of " + Path("heat") + "; 3 files are as adopted: nothing could");
}

TEST_F(MovingCommandsTest, AdoptOfAnScrCacheAnswersInJson) {
  if (!testing::PutScenario(*disk_, "crash_before_flush_np3", "nodes", Path("nodes"))) return;
  ASSERT_TRUE(testing::PutScenario(*disk_, "crash_before_flush_np3", "pfs", Path("pfs")));
  const json adopted = ParsedOf(Run({"adopt", Path("pfs/demo"), "--scr", Path("nodes"), "--all", "--json"}));
  EXPECT_EQ(adopted["prefix"], Path("pfs/demo"));
  EXPECT_EQ(adopted["job"], "4242");
  ASSERT_EQ(adopted["datasets"].size(), 3u);
  EXPECT_EQ(adopted["datasets"][1]["on_prefix"], true);
  EXPECT_EQ(adopted["datasets"][1]["dataset"], 2);
  const json& newest = adopted["datasets"][2];
  EXPECT_EQ(newest["scr_dataset"], 3);
  EXPECT_EQ(newest["name"], "step_000020");
  EXPECT_EQ(newest["step"], 2);
  EXPECT_EQ(newest["checkpoint"], true);
  EXPECT_EQ(newest["output"], false);
  EXPECT_EQ(newest["ranks"], 3);
  EXPECT_EQ(newest["files"], 4);
  EXPECT_EQ(newest["rebuilt"], 0);
  EXPECT_EQ(newest["verified"], true);
  EXPECT_EQ(newest["verified_by"].size(), 1u);
  EXPECT_TRUE(newest["unverified"].empty());
  EXPECT_EQ(adopted["datasets"][1]["verified"], false) << "SCR's own, which nobody has read";
  EXPECT_EQ(newest["bytes"], 7239) << "as SCR counts them";
  EXPECT_EQ(newest["adopted_before"], false);
  EXPECT_TRUE(adopted["notes"].empty()) << adopted["notes"];
}

TEST_F(MovingCommandsTest, AdoptOfAnScrCacheSaysWhyNot) {
  if (!testing::PutScenario(*disk_, "xor_np4", "nodes", Path("nodes"))) return;
  ExpectSaid(Run({"adopt", Path("heat"), "--scr", Path("nodes"), "--id", "7"}), 4, "has no dataset 7");
  ExpectSaid(Run({"adopt", Path("other"), "--scr", Path("fti")}), 4, "no cache of SCR below");
  ExpectSaid(Run({"adopt", Path("other"), "--scr", Path("nodes"), "--job", "1"}), 4, "job 1");
  ExpectSaid(Run({"adopt", Path("other"), "--scr", Path("nodes"), "--fti", Path("fti")}), 2, "--fti");
  ExpectSaid(Run({"adopt", Path("other"), "--scr", Path("nodes"), "--heads"}), 2, "--fti");
  ExpectSaid(Run({"adopt", Path("other"), "--fti", Path("fti"), "--all"}), 2, "--scr");
  ExpectSaid(Run({"adopt", Path("other"), "--fti", Path("fti"), "--unverified"}), 2, "--scr");
  ExpectSaid(Run({"adopt", Path("other"), "--scr", Path("nodes"), "--prefix-was", "demo"}), 2, "not an absolute path");
  EXPECT_FALSE(std::filesystem::exists(Path("other")));
  ExpectSaid(Run({"adopt", Path("heat"), "--scr", Path("nodes"), "--prefix-was", "/mnt/other"}), 1,
             "which is not below /mnt/other");
  std::filesystem::remove_all(Path("nodes/node1"));
  std::filesystem::remove_all(Path("nodes/node2"));
  ExpectSaid(Run({"adopt", Path("heat"), "--scr", Path("nodes")}), 5, "dataset 1 (step_000010) is not whole");
}

TEST_F(MovingCommandsTest, NamesMayBeKeptBelowAnotherDirectory) {
  if (!testing::PutScenario(*disk_, "xor_np4", "nodes", Path("nodes"))) return;
  ExpectSaid(Run({"adopt", Path("heat"), "--scr", Path("nodes"), "--prefix-was", "/mnt/pfs/"}), 0, "adopted dataset 1");
  EXPECT_TRUE(std::filesystem::exists(Path("heat/demo/step_000010/rank_0.ckpt")));
}

TEST_F(MovingCommandsTest, ExportSaysWhatRemainsToBeDone) {
  ExpectSaid(Adopt(), 0, "adopted");
  const CairnRun run =
      Run({"export", Path("heat"), "--fti", Path("out"), "--level", "1", "--node-size", "2", "--layout", "A"});
  ExpectSaid(run, 0, "exported dataset 1 (step 5)");
  for (const char* part :
       {"as FTI's checkpoint 5, level 1, layout A", "/out/config.fti", "start 4 processes, 2 on each node",
        "local_test = 0", "use FTI 1.1", "in exactly this order", "reports nothing: 1, 40\n"}) {
    ExpectSaid(run, 0, part);
  }
  EXPECT_TRUE(std::filesystem::exists(Path("out/Local/node1/cairn/l1/Ckpt5-Rank3.fti")));
}

TEST_F(MovingCommandsTest, ExportAnswersInJsonAndRoundTrips) {
  ExpectSaid(Adopt(), 0, "adopted");
  const json exported =
      ParsedOf(Run({"export", Path("heat"), "1", "--fti", Path("out"), "--packing", "keep", "--id", "8", "--json"}));
  EXPECT_EQ(exported["dataset"], 1);
  EXPECT_EQ(exported["checkpoint"], 8);
  EXPECT_EQ(exported["level"], 4);
  EXPECT_EQ(exported["layout"], "F");
  EXPECT_EQ(exported["ranks"], 4);
  EXPECT_EQ(exported["config"], Path("out/config.fti"));
  EXPECT_FALSE(exported["to_do"].empty());
  EXPECT_TRUE(exported["protect_order"].empty()) << "layout F goes by ids";
  const json adopted =
      ParsedOf(Run({"adopt", Path("other"), "--fti", Path("out"), "--config", Path("out/config.fti"), "--json"}));
  EXPECT_EQ(adopted["checkpoint"], 8);
  const CairnRun same = Run({"diff", Path("heat/ckpt.1/Ckpt1-Rank2.fti"), Path("other/ckpt.1/Ckpt1-Rank2.fti")});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
}

TEST_F(MovingCommandsTest, ExportRefusesWhatItCannotDo) {
  ExpectSaid(Run({"export", Path("nowhere"), "--fti", Path("out")}), 4, "no such directory");
  ExpectSaid(Adopt(), 0, "adopted");
  ExpectSaid(Run({"export", Path("heat"), "7", "--fti", Path("out")}), 4, "no dataset 7");
  ExpectSaid(Run({"export", Path("heat"), "--fti", Path("out"), "--level", "5"}), 2, "--level");
  ExpectSaid(Run({"export", Path("heat"), "--fti", Path("out"), "--layout", "E"}), 2, "--layout");
  ExpectSaid(Run({"export", Path("heat"), "--fti", Path("out"), "--node-size", "3"}), 1, "4 ranks");
  ExpectSaid(Run({"export", Path("heat"), "--fti", Path("fti")}), 1, "not empty");
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
}

TEST_F(MovingCommandsTest, HelpTellsWhatTheyAreFor) {
  ExpectSaid(Run({"adopt", "--help"}), 0, "Nothing is changed in DIR");
  ExpectSaid(Run({"adopt", Path("heat"), "--fti", Path("fti"), "--wait", "soon"}), 2, "--wait");
  ExpectSaid(Run({"export", "--help"}), 0, "flush others first");
  ExpectSaid(Run({"--help"}), 0, "cairn adopt");
  for (const char* command : {"adopt", "scavenge"}) {
    for (const char* part : {"needs no daemon", "Examples:", "Exit codes:"})
      ExpectSaid(Run({command, "--help"}), 0, part);
  }
}

}  // namespace
}  // namespace cairn
