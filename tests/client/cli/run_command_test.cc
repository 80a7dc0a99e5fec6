// `cairn run` as a user runs it, without any daemon.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "storage/base/ids.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/prefix.h"
#include "tests/client/cli/run_cairn.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;
using testing::RunCairn;

class RunCommandTest : public ::testing::Test {
 protected:
  RunCommandTest() : disk_(MakePosixDisk()) {
    std::string name = ::testing::TempDir() + "cairn-run-XXXXXX";
    folder_ = std::filesystem::canonical(mkdtemp(name.data())).string();
  }
  ~RunCommandTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::unique_ptr<Prefix> Open(const std::string& name) {
    auto prefix = Prefix::Open(*disk_, Path(name));
    EXPECT_OK(prefix.status());
    return prefix.ok() ? *std::move(prefix) : nullptr;
  }
  void Copy(const std::string& from, const std::string& to) {
    std::filesystem::copy(Path(from), Path(to), std::filesystem::copy_options::recursive);
  }
  // Where inodes say nothing, only a path that the node has noted makes a branch, which this command does not see.
  bool InodesCountHere() {
    Open("probe");
    Copy("probe", "probe2");
    return Open("probe2")->run() != Open("probe")->run();
  }
  static void ExpectSaid(const CairnRun& run, int exit_code, std::string_view part) {
    EXPECT_EQ(run.exit_code, exit_code) << run.out << run.err;
    EXPECT_NE((run.out + run.err).find(part), std::string::npos) << part << "\n--\n" << run.out << run.err;
  }

  const std::unique_ptr<Disk> disk_;
  std::string folder_;
};

TEST_F(RunCommandTest, ShowTellsIdentityLaunchHolderAndIds) {
  const auto prefix = Open("heat");
  ExpectSaid(RunCairn({"run", "show", Path("heat")}), 0, prefix->run().Hex() + ", since 20");
  ExpectSaid(RunCairn({"run", "show", Path("heat")}), 0, "launch    none");
  ASSERT_OK_AND_ASSIGN(const LaunchRecord launch,
                       prefix->MakeLaunch({.key = "k", .nranks = 8, .run = {}, .maker = {"", "node7", 42}}));
  ExpectSaid(RunCairn({"run", "show", Path("heat")}), 0, "works     nobody has said so");
  LeaseRecord lease;
  lease.launch = launch.id;
  lease.host = "node7";
  lease.pid = 42;
  lease.term_ms = 120'000;
  lease.what = "8 ranks of job 17";
  ASSERT_OK_AND_ASSIGN(lease, prefix->MakeLease(lease));
  ASSERT_OK(prefix->ReserveIds(0, 100));
  const CairnRun shown = RunCairn({"run", "show", Path("heat")});
  ExpectSaid(shown, 0, "launch    1 on node7, 8 ranks");
  ExpectSaid(shown, 0, "works     process 42 on node7 (8 ranks of job 17), unless its lease has not changed for 2 m");
  ExpectSaid(shown, 0, "reserved up to 100");
  const json told = json::parse(RunCairn({"run", "show", Path("heat"), "--json"}).out);
  EXPECT_EQ(told["run"], prefix->run().Hex());
  EXPECT_TRUE(told["parent"].is_null());
  EXPECT_EQ(told["newest"]["launch"], 1);
  EXPECT_EQ(told["lease"]["state"], "live");
  EXPECT_EQ(told["lease"]["own"], true);
  EXPECT_EQ(told["id_highest"], 100);
  lease.state = LeaseRecord::State::kEnded;
  ++lease.counter;
  ASSERT_OK(prefix->WriteLease(lease));
  ExpectSaid(RunCairn({"run", "show", Path("heat")}), 0, "nobody: it has ended");
}

TEST_F(RunCommandTest, ShowChangesNothingAndSaysWhatIsNotThere) {
  std::filesystem::create_directory(Path("empty"));
  ExpectSaid(RunCairn({"run", "show", Path("empty")}), 4, Path("empty"));
  EXPECT_TRUE(std::filesystem::is_empty(Path("empty")));
  ExpectSaid(RunCairn({"run", "show", Path("nowhere")}), 4, "no such directory");
  EXPECT_EQ(RunCairn({"run"}).exit_code, 2);
  EXPECT_EQ(RunCairn({"run", "nonsense", folder_}).exit_code, 2);
}

TEST_F(RunCommandTest, ADamagedRecordIsNamed) {
  const auto prefix = Open("heat");
  ASSERT_OK(prefix->MakeLaunch({.key = "k", .nranks = 8, .run = {}, .maker = {}}));
  std::filesystem::resize_file(Path("heat/.cairn/launch.1"), 50);
  ExpectSaid(RunCairn({"run", "show", Path("heat")}), 5, "DAMAGED");
}

TEST_F(RunCommandTest, ARunThatHasMovedIsTakenBackAndTheBranchIsNamed) {
  if (!InodesCountHere()) GTEST_SKIP() << "inodes say nothing here";
  const RunId run = Open("old")->run();
  Copy("old", "new");
  const RunId branch = Open("new")->run();
  const CairnRun shown = RunCairn({"run", "show", Path("new")});
  ExpectSaid(shown, 0, "branch of " + run.Hex());
  ExpectSaid(RunCairn({"run", "moved", Path("new")}), 1, "still lives in " + Path("old"));
  std::filesystem::remove_all(Path("old"));
  const CairnRun moved = RunCairn({"run", "moved", Path("new")});
  ExpectSaid(moved, 0, Path("new") + " is run " + run.ShortHex() + " again; it had become branch " + branch.ShortHex());
  EXPECT_EQ(moved.err, "");
  EXPECT_EQ(Open("new")->run(), run);
  ExpectSaid(RunCairn({"run", "moved", Path("new")}), 1, "nothing to take back");
}

TEST_F(RunCommandTest, ARunThatNobodyHasOpenedSinceItMovedIsTakenBack) {
  if (!InodesCountHere()) GTEST_SKIP() << "inodes say nothing here";
  const RunId run = Open("old")->run();
  Copy("old", "new");
  std::filesystem::remove_all(Path("old"));
  ExpectSaid(RunCairn({"run", "show", Path("new")}), 0, "once somebody opens it");
  const json told = json::parse(RunCairn({"run", "moved", Path("new"), "--json"}).out);
  EXPECT_EQ(told["run"], run.Hex());
  EXPECT_EQ(told["prefix"], Path("new"));
  EXPECT_TRUE(told["branch"].is_null());
}

TEST_F(RunCommandTest, TheArbiterIsShownAndChangedWhenNobodyWorksThere) {
  const auto prefix = Open("heat");
  ExpectSaid(RunCairn({"run", "arbiter", Path("heat")}), 0, Path("heat") + ": the arbiter is prefix\n");
  ExpectSaid(RunCairn({"run", "arbiter", Path("heat"), "etcd"}), 1, "arbiter.endpoints: not set");
  EXPECT_EQ(RunCairn({"run", "arbiter", Path("heat"), "raft"}).exit_code, 2);
  ExpectSaid(RunCairn({"run", "arbiter", Path("nowhere"), "prefix"}), 4, "no such directory");
  LeaseRecord over;
  over.launch = prefix->MakeLaunch({.key = "k", .nranks = 8, .run = {}, .maker = {}})->id;
  over.term_ms = 120'000;
  over.state = LeaseRecord::State::kEnded;
  ASSERT_OK(prefix->MakeLease(over));
  std::ofstream(Path("cairnd.toml")) << "[arbiter]\nkind = \"etcd\"\nendpoints = \"http://127.0.0.1:1\"\n";
  const std::map<std::string, std::string> settings = {{"CAIRN_CONFIG", Path("cairnd.toml")}};
  const CairnRun changed = RunCairn({"run", "arbiter", Path("heat"), "etcd"}, settings);
  ExpectSaid(changed, 0, Path("heat") + ": the arbiter is etcd (http://127.0.0.1:1) from now on\n");
  const json told = json::parse(RunCairn({"run", "arbiter", Path("heat"), "--json"}).out);
  EXPECT_EQ(told["arbiter"], "etcd");
  EXPECT_EQ(told["changed"], false);
  const CairnRun shown = RunCairn({"run", "show", Path("heat")});
  ExpectSaid(shown, 0, "arbiter   etcd (http://127.0.0.1:1)");
  // Nobody is there to be asked: only who says that it is gone for good goes on without.
  ExpectSaid(RunCairn({"run", "arbiter", Path("heat"), "prefix"}, settings), 1, "127.0.0.1:1");
  ExpectSaid(RunCairn({"run", "arbiter", Path("heat"), "prefix", "--force"}, settings), 0, "prefix from now on");
}

TEST_F(RunCommandTest, WaitIsUntilNobodyWorksThere) {
  ExpectSaid(RunCairn({"run", "wait", Path("nowhere")}), 4, "no such directory");
  std::filesystem::create_directory(Path("empty"));
  ExpectSaid(RunCairn({"run", "wait", Path("empty")}), 4, Path("empty"));
  const auto prefix = Open("heat");
  ExpectSaid(RunCairn({"run", "wait", Path("heat")}), 0, "nobody works there; no checkpoint is on the prefix");
  LeaseRecord lease;
  lease.launch = prefix->MakeLaunch({.key = "slurm:17.0.0", .nranks = 8, .run = {}, .maker = {}})->id;
  lease.host = "node7";
  lease.pid = 42;
  lease.term_ms = 120'000;
  lease.state = LeaseRecord::State::kDraining;
  ASSERT_OK_AND_ASSIGN(lease, prefix->MakeLease(lease));
  ExpectSaid(RunCairn({"run", "wait", Path("heat"), "--timeout", "50ms"}), 6, "cairnd 42 on node7");
  ExpectSaid(RunCairn({"run", "wait", Path("heat"), "--timeout", "50ms", "--job", "17"}), 6, "is not over");
  ExpectSaid(RunCairn({"run", "wait", Path("heat"), "--timeout", "50ms", "--job", "16"}), 0, "nothing of job 16");
  lease.state = LeaseRecord::State::kEnded;
  ASSERT_OK(prefix->WriteLease(lease));
  const json told = json::parse(RunCairn({"run", "wait", Path("heat"), "--json"}).out);
  EXPECT_EQ(told["launch"], 1);
  EXPECT_TRUE(told["dataset"].is_null());
}

TEST_F(RunCommandTest, HelpSaysWhenARunHasMovedAndWhenNot) {
  const CairnRun help = RunCairn({"run", "moved", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* part : {"rsync", "lfs migrate", "tape", "mv to another file system", "cp -a", "Exit codes:"}) {
    EXPECT_NE(help.out.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace cairn
