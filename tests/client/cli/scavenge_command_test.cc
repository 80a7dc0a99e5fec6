// `cairn scavenge` as a user runs it, without any daemon.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "storage/base/unique_fd.h"
#include "storage/io/posix_disk.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/prefix/prefix.h"
#include "tests/client/cli/run_cairn.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;
using testing::RunCairn;

class ScavengeCommandTest : public ::testing::Test {
 protected:
  ScavengeCommandTest() : disk_(MakePosixDisk()) {
    std::string name = ::testing::TempDir() + "cairn-scavenge-XXXXXX";
    folder_ = std::filesystem::canonical(mkdtemp(name.data())).string();
    std::filesystem::create_directory(Cache());
  }
  ~ScavengeCommandTest() override { std::filesystem::remove_all(folder_); }

  std::string Cache() const { return folder_ + "/cache"; }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // A run with dataset 1, of two ranks; the last of them only if `whole`.
  RunId PutRun(const std::string& name, bool whole = true) {
    const auto prefix = Prefix::Open(*disk_, Path(name));
    EXPECT_OK(prefix.status());
    const RunId run = (*prefix)->run();
    const auto folder = CacheFolder::Open(*disk_, Cache(), User(), name, run, Path(name));
    EXPECT_OK(folder.status());
    EXPECT_OK((*folder)->Begin(TestDescriptor(1, 2)));
    for (Rank rank = 0; rank < (whole ? 2u : 1u); ++rank) {
      const std::string content = TestContent(rank, 5000);
      const std::string work = (*folder)->WorkPath(1, rank);
      EXPECT_OK(WriteTestFile(*disk_, work, content));
      EXPECT_OK((*folder)->CommitRank(TestCatalogue(run, 1, rank, 2, content), work));
    }
    if (whole) {
      EXPECT_OK((*folder)->Complete(TestDescriptor(1, 2)));
    }
    return run;
  }
  // As the daemon names the user's folder.
  static std::string User() {
    const passwd* const entry = getpwuid(geteuid());
    return entry != nullptr ? entry->pw_name : "uid-" + std::to_string(geteuid());
  }
  CairnRun Run(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"scavenge", "--cache", Cache()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunCairn(arguments);
  }
  static void ExpectSaid(const CairnRun& run, int exit_code, std::string_view part) {
    EXPECT_EQ(run.exit_code, exit_code) << run.out << run.err;
    EXPECT_NE((run.out + run.err).find(part), std::string::npos) << part << "\n--\n" << run.out << run.err;
  }

  std::string folder_;
  std::unique_ptr<Disk> disk_;
};

TEST_F(ScavengeCommandTest, SavesAllRunsOfTheCacheAndSaysSo) {
  PutRun("heat");
  PutRun("ice");
  const CairnRun run = Run();
  ExpectSaid(run, 0, Path("heat") + " (run ");
  ExpectSaid(run, 0, Path("ice") + " (run ");
  ExpectSaid(run, 0, "dataset 1 (checkpoint, step 10): saved: 2 ranks");
  ExpectSaid(RunCairn({"verify", Path("heat")}), 0, "dataset 1: 2 ranks");
  ExpectSaid(Run(), 0, "nothing to save");
  ExpectSaid(Run({"heat", "--dataset", "1"}), 0, "is on the prefix already");
}

TEST_F(ScavengeCommandTest, ARunIsNamedByPrefixIdentityOrName) {
  const RunId heat = PutRun("heat");
  PutRun("ice");
  for (const std::string& name : {Path("heat"), heat.Hex(), heat.ShortHex(), std::string("heat")}) {
    const CairnRun run = Run({name, "--dataset", "1"});
    ExpectSaid(run, 0, "dataset 1");
    EXPECT_EQ(run.out.find("ice"), std::string::npos);
  }
  ExpectSaid(Run({"snow"}), 4, "has nothing of a run snow");
  ExpectSaid(Run({"heat", "--dataset", "7"}), 4, "dataset 7 is not in this cache");
  ExpectSaid(Run({"--dataset", "1"}), 1, "of which run?");
  ExpectSaid(Run({"--dataset", "1", "--all"}), 2, "--all");
}

TEST_F(ScavengeCommandTest, ListsTheRanksThatAreMissing) {
  PutRun("heat", /*whole=*/false);
  const CairnRun text = Run();
  ExpectSaid(text, 7, "INCOMPLETE: 1 of 2 ranks are missing");
  ExpectSaid(text, 7, "rank 1: is neither in this cache nor on the prefix");
  ExpectSaid(text, 7, "rank 0 of this node");
  const CairnRun run = Run({"--json"});
  EXPECT_EQ(run.exit_code, 7);
  const json said = json::parse(run.out, nullptr, false);
  ASSERT_TRUE(said.is_object()) << run.out;
  ASSERT_EQ(said["runs"].size(), 1u);
  ASSERT_EQ(said["runs"][0]["datasets"].size(), 1u);
  const json& dataset = said["runs"][0]["datasets"][0];
  EXPECT_EQ(dataset["state"], "incomplete");
  EXPECT_EQ(dataset["saved_ranks"], json::array({0}));
  EXPECT_EQ(dataset["missing"][0]["rank"], 1);
  EXPECT_EQ(dataset["missing"][0]["damaged"], false);
}

TEST_F(ScavengeCommandTest, ADamagedFileIsNamed) {
  PutRun("heat");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Cache())) {
    if (entry.path().filename() != "Ckpt1-Rank1.fti") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4000);
    file.put('x');
  }
  ExpectSaid(Run(), 5, "Ckpt1-Rank1.fti");
}

TEST_F(ScavengeCommandTest, AnotherRunsPrefixOrNoneIsNotWrittenTo) {
  PutRun("heat");
  PutRun("ice");
  std::filesystem::remove_all(Path("heat"));
  CairnRun run = Run();
  ExpectSaid(run, 4, "FAILED");  // the other run's datasets are saved all the same
  ExpectSaid(run, 4, "saved: 2 ranks");
  EXPECT_FALSE(std::filesystem::exists(Path("heat")));
  ASSERT_OK(Prefix::Open(*disk_, Path("heat")).status());
  ExpectSaid(Run(), 1, "the prefix is run");
  EXPECT_FALSE(std::filesystem::exists(Path("heat/ckpt.1")));
  ExpectSaid(Run({Path("heat")}), 4, "has nothing of " + Path("heat"));
}

TEST_F(ScavengeCommandTest, ItsPlaceMayBeAnotherByNow) {
  PutRun("heat");
  std::filesystem::rename(Path("heat"), Path("moved"));
  ExpectSaid(Run({Path("moved")}), 0, "saved: 2 ranks");
  ExpectSaid(RunCairn({"verify", Path("moved")}), 0, "dataset 1: 2 ranks");
}

TEST_F(ScavengeCommandTest, ADaemonThatHoldsTheCacheIsLeftToItsWork) {
  PutRun("heat");
  const std::string lock = Cache() + "/cairnd." + std::to_string(geteuid()) + ".lock";
  const UniqueFd held(open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(held.get(), LOCK_EX | LOCK_NB), 0);
  ExpectSaid(Run(), 1, "cairn flush");
  EXPECT_FALSE(std::filesystem::exists(Path("heat/ckpt.1")));
}

TEST_F(ScavengeCommandTest, ACacheThatIsNotThereIsSaid) {
  ExpectSaid(RunCairn({"scavenge", "--cache", Path("none")}), 4, Path("none"));
  ExpectSaid(RunCairn({"scavenge"}, {{"CAIRN_CACHE", Cache()}}), 0, "no run of yours");
}

TEST_F(ScavengeCommandTest, WhatANewerLaunchHasFencedIsSaidAndIsNoFailure) {
  const RunId run = PutRun("heat");
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(*disk_, Path("heat")));
  for (int i = 0; i < 2; ++i) ASSERT_OK(prefix->MakeLaunch({.key = "k", .nranks = 2, .run = {}, .maker = {}}));
  ASSERT_OK_AND_ASSIGN(const auto folder, CacheFolder::Open(*disk_, Cache(), User(), "heat", run, Path("heat")));
  ASSERT_OK(folder->ChangeRecord([](RunRecord& record) { record.served = 1; }));
  ExpectSaid(Run(), 0, "is on the prefix, but a newer launch had begun: it can be restored by its number only");
  const json told = json::parse(Run({"--json"}).out);
  EXPECT_EQ(told["runs"][0]["datasets"][0]["state"], "fenced");
  EXPECT_NE(told["runs"][0]["datasets"][0]["why"], "");
}

}  // namespace
}  // namespace cairn
