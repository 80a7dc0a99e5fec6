// Prolog, epilog, plug-in and burst_buffer.lua under a real Slurm: what they do when all is well, and that no node is
// lost whatever is wrong on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "client/cairn.h"
#include "storage/base/clock.h"
#include "tests/slurm/slurm_fixture.h"

namespace cairn::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class NodesTest : public SlurmTest {
 protected:
  static constexpr int kNode = 4;  // where things go wrong
  int Run(const std::string& options, const std::string& script) {
    jobs_.push_back(site().Submit("alice", options + " " + script));
    return jobs_.back();
  }
  int RunThere(const std::string& options, const std::string& script) {
    return Run("-N1 -n1 -w n" + std::to_string(kNode) + " " + options, script);
  }
  std::string Solves(const std::string& more, const std::string& prefix = "") {
    return Script("export CAIRN_PREFIX=" + (prefix.empty() ? PrefixOf() : prefix) + "\nsrun solver --log " + LogOf() +
                  " " + more);
  }
  void ExpectNodeStays() {
    EXPECT_TRUE(site().AwaitIdle(kNode, seconds(60))) << site().NodeState(kNode);
    std::cout << "  n" << kNode << " is " << site().NodeState(kNode) << "\n";
  }
  // What the log has that it had not.
  std::string NewLog() { return site().LogOf(kNode).substr(log_before_); }
  void SetUp() override {
    SlurmTest::SetUp();
    log_before_ = site().LogOf(kNode).size();
  }
  void Plugin(const std::string& arguments) {
    const std::string line = "optional " + site().scripts() + "/cairn_spank.so " + arguments + "\n";
    std::ofstream(site().folder() + "/etc/slurm/plugstack.conf") << line;
    for (int node = SlurmSite::kController; node <= SlurmSite::kLast; ++node) {
      site().AsRoot(node, "cp " + site().folder() + "/etc/slurm/plugstack.conf /etc/slurm/plugstack.conf");
    }
  }

  std::size_t log_before_ = 0;
};

// Figures for tests/bench/README.md; nothing is asserted of them.
TEST_F(NodesTest, PrologAndEpilogAreShortWhenAllIsWell) {
  site().ForgetTimes();
  constexpr int kJobs = 20;
  for (int i = 0; i < kJobs; ++i) {
    EXPECT_EQ(site().As("alice", "srun -N1 -n1 -w n4 true").exit_code, 0);
    ASSERT_TRUE(site().AwaitIdle(kNode));
  }
  site().ShowTimes();
  EXPECT_EQ(site().TimesOf("prolog").size(), static_cast<std::size_t>(kJobs));
  EXPECT_EQ(site().TimesOf("epilog").size(), static_cast<std::size_t>(kJobs));
  EXPECT_EQ(NewLog(), "") << "all is well";
}

TEST_F(NodesTest, APrologStartsADaemonThatIsDead) {
  site().KillDaemon(kNode);
  const int job = RunThere("", Solves("--steps 3"));
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED", "FAILED"}), "COMPLETED");
  Show("alice", job, {kNode});
  EXPECT_THAT(NewLog(), HasSubstr("prolog job " + std::to_string(job) + ": the daemon was not there, and was started"));
  ExpectNodeStays();
}

TEST_F(NodesTest, AnEpilogStartsADaemonThatIsDeadAndWhatItsCacheHoldsGoesToThePrefix) {
  const int job = RunThere("", Solves("--steps 5 --linger"));
  ASSERT_TRUE(AwaitEvent(LogOf(), "done"));
  const Event newest = EventsNamed(LogOf(), "captured").back();
  ASSERT_TRUE(
      site()
          .As("alice", "cairn wait " + PrefixOf() + " " + std::to_string(newest.numbers.at(1)) + " local", kNode)
          .exit_code == 0);
  site().KillDaemon(kNode);
  site().As("alice", "scancel " + std::to_string(job));
  EXPECT_EQ(site().AwaitState(job, {"CANCELLED"}), "CANCELLED");
  ExpectNodeStays();
  Show("alice", job, {kNode});
  EXPECT_THAT(NewLog(), HasSubstr("epilog job " + std::to_string(job) + ": the daemon was not there, and was started"));
  EXPECT_TRUE(Within([&] { return IsOnPrefix(newest.numbers.at(1), PrefixOf()); }, seconds(30)));
}

TEST_F(NodesTest, AFullDiskIsToldToUserAndOperatorAndTheNodeStays) {
  site().KillDaemon(kNode);
  const std::string cache = site().folder() + "/cache";
  ASSERT_EQ(
      site()
          .AsRoot(kNode, "mount -t tmpfs -o mode=0755,size=64k full " + cache + " && cat /dev/zero >" + cache + "/zero")
          .exit_code,
      1);
  const int job = RunThere("", Solves("--steps 3 --deadline 2000"));
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED", "FAILED"}), "FAILED") << "by itself: it has no daemon";
  Show("alice", job, {kNode});
  EXPECT_THAT(NewLog(), HasSubstr("a daemon runs, but has no worker for user 2001"));
  EXPECT_THAT(site().OutputOf("alice", job), HasSubstr("cairn on n4: a daemon runs, but has no worker for user 2001"));
  ExpectNodeStays();
  site().KillDaemon(kNode);
  EXPECT_EQ(site().AsRoot(kNode, "umount " + cache).exit_code, 0);
  EXPECT_TRUE(site().StartDaemon(kNode));
}

TEST_F(NodesTest, APrefixThatIsNotMountedIsToldToUserAndOperatorAndTheNodeStays) {
  site().Configure("MOUNTS=/lustre\n");
  const int job = RunThere("--cairn=/lustre/scratch/run", Script("srun solver --log " + LogOf() + " --steps 1"));
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED", "FAILED"}), "FAILED");
  Show("alice", job, {kNode});
  EXPECT_THAT(NewLog(), HasSubstr("/lustre is not mounted on this node"));
  EXPECT_THAT(NewLog(), HasSubstr("/lustre/scratch/run: neither this folder nor the one above it is there"));
  EXPECT_THAT(site().OutputOf("alice", job), HasSubstr("cairn on n4: /lustre/scratch/run: neither"));
  ExpectNodeStays();
}

TEST_F(NodesTest, OnlyIfItIsAskedToAPrologDrainsANodeWithoutADaemon) {
  site().Configure("NODE_FAULT=drain\nSTART=false\n");
  site().KillDaemon(kNode);
  const int job = RunThere("", Solves("--steps 1"));
  EXPECT_TRUE(Within([&] { return site().NodeState(kNode).starts_with("drain"); }, seconds(30)))
      << site().NodeState(kNode);
  Show("alice", job, {kNode});
  std::cout << "  n" << kNode << " is " << site().NodeState(kNode) << ": " << site().NodeReason(kNode) << "\n";
  site().As("alice", "scancel " + std::to_string(job));
  EXPECT_TRUE(site().StartDaemon(kNode));
  site().AsRoot(1, "scontrol update NodeName=n4 State=RESUME");
  ExpectNodeStays();
}

TEST_F(NodesTest, AUserWithoutAWorkerIsNoFaultOfTheNode) {
  // As if the daemon ran, and had nothing for this user: cairnd ends with 3 then.
  site().Configure("NODE_FAULT=drain\nSTART=sh -c 'exit 3'\n");
  site().KillDaemon(kNode);
  const int job = RunThere("", Script("true"));
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED", "FAILED"}), "COMPLETED");
  EXPECT_THAT(NewLog(), HasSubstr("a daemon runs, but has no worker for user 2001"));
  ExpectNodeStays();
  EXPECT_TRUE(site().StartDaemon(kNode));
}

TEST_F(NodesTest, TheSettingsFileHasTheDefaults) {
  const Ending file = site().AsRoot(kNode, "grep '^[A-Z]' " + site().folder() + "/cairn/share/cairn/slurm.conf");
  EXPECT_THAT(file.output, HasSubstr("END=background\n"));
  const Ending defaults = site().AsRoot(
      kNode, "CAIRN_SLURM_CONF=/dev/null bash -c 'exec 3>&1; here=" + site().scripts() +
                 "; . $here/common.sh; for n in JOBS START START_WAIT BEGIN_WAIT END END_WAIT MOUNTS NODE_FAULT LOG "
                 "RUNTIME_DIR; do echo $n=${!n} >&3; done'");
  EXPECT_EQ(file.output, defaults.output);
}

TEST_F(NodesTest, SettingsThatMakeNoSenseAreToldAndEndNothing) {
  site().Configure("END=never\nEND_WAIT=soon\n`reboot`\nJOBS='\n$(exit 7)\n");
  const int job = RunThere("", Solves("--steps 2"));
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED", "FAILED"}), "COMPLETED");
  EXPECT_THAT(NewLog(), HasSubstr("this line says nothing: END=never"));
  EXPECT_THAT(NewLog(), HasSubstr("this line says nothing: `reboot`"));
  ExpectNodeStays();
}

TEST_F(NodesTest, NumbersAreDecimalAndBoundedAndATextIsOneLineOfTheLog) {
  site().Configure("END_WAIT=08\nBEGIN_WAIT=0\nSTART_WAIT=9999999\n");
  const Ending called = site().AsRoot(
      kNode, "bash -c 'exec 3>&1; here=" + site().scripts() +
                 "; . $here/common.sh; echo $END_WAIT $BEGIN_WAIT $START_WAIT >&3; tell \"$(printf \"one\\ntwo\")\"'");
  EXPECT_EQ(called.output, "8 5 10\n");
  EXPECT_THAT(NewLog(), HasSubstr("this line says nothing: BEGIN_WAIT=0\n"));
  EXPECT_THAT(NewLog(), HasSubstr("this line says nothing: START_WAIT=9999999\n"));
  EXPECT_THAT(NewLog(), HasSubstr("one two\n"));
}

TEST_F(NodesTest, AnEpilogWithAHungPrefixGivesTheNodeBack) {
  site().Configure("END=wait\nEND_WAIT=3\n");
  const std::string prefix = site().slow().mount_point() + "/run";
  const int job = RunThere("", Solves("--steps 5 --wait local --linger", prefix));
  ASSERT_TRUE(AwaitEvent(LogOf(), "done"));
  site().slow().Hang({.opcode = 0, .name_part = {}, .times = UINT32_MAX});
  site().As("alice", "scancel " + std::to_string(job));
  const auto begun = SteadyNow();
  EXPECT_EQ(site().AwaitState(job, {"CANCELLED"}), "CANCELLED");
  ExpectNodeStays();
  std::cout << "  the node was back after " << std::chrono::duration_cast<seconds>(SteadyNow() - begun).count()
            << " s\n";
  Show("alice", job, {kNode});
  EXPECT_THAT(NewLog(),
              HasSubstr("epilog job " + std::to_string(job) + ": not all is on the prefix; the daemon goes on"));
  const std::uint64_t newest = EventsNamed(LogOf(), "captured").back().numbers.at(1);
  EXPECT_FALSE(IsOnPrefix(newest, site().folder() + "/slow/real/run"));
  site().slow().Release();
  EXPECT_TRUE(Within([&] { return IsOnPrefix(newest, site().folder() + "/slow/real/run"); }, seconds(60)));
}

TEST_F(NodesTest, ThePlugInSetsTheEnvironmentOfStepsAndBatchScripts) {
  const std::string line = "'echo prefix=$CAIRN_PREFIX end=$CAIRN_END_TIME'";
  // The end that is inherited is another job's.
  const Ending step = site().As("alice", "CAIRN_END_TIME=7 srun -N1 -n1 -t5 --cairn=/scratch/heat bash -c " + line);
  std::cout << "  srun --cairn=/scratch/heat: " << step.output;
  EXPECT_THAT(step.output, ::testing::ContainsRegex("prefix=/scratch/heat end=[0-9]{10}"));
  const Ending relative = site().As("alice", "srun -N1 -n1 -t5 --cairn=runs/heat bash -c " + line);
  EXPECT_THAT(relative.output, HasSubstr("prefix=" + site().HomeOf("alice") + "/runs/heat "));
  const Ending without = site().As("alice", "srun -N1 -n1 -t5 bash -c " + line);
  EXPECT_THAT(without.output, HasSubstr("prefix= end="));
  const Ending refused = site().As("alice", "srun -N1 -n1 -t5 --cairn=$(printf /%05000d 1) true");
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.output, HasSubstr("the path of the run's directory is too long"));
  const int job = Run("-N2 -n2 -t5 --cairn=" + PrefixOf(), Script("srun solver --log " + LogOf() + " --steps 3"));
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED", "FAILED"}), "COMPLETED");
  EXPECT_TRUE(std::filesystem::exists(PrefixOf() + "/.cairn"));
  EXPECT_EQ(EventsNamed(LogOf(), "done").size(), 2u);
}

TEST_F(NodesTest, ThePlugInSeesToTheDaemonWithoutAPrologOfSlurms) {
  // As if slurm.conf named neither.
  const std::string folder = site().folder();
  for (const char* name : {"/prolog", "/epilog"}) {
    std::filesystem::rename(folder + name, folder + name + ".off");
    std::filesystem::copy_file("/bin/true", folder + name);
  }
  Plugin("");
  site().KillDaemon(kNode);
  const int job = RunThere("--cairn=" + PrefixOf(), Script("srun solver --log " + LogOf() + " --steps 3 --wait local"));
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED", "FAILED"}), "COMPLETED");
  Show("alice", job, {kNode});
  EXPECT_THAT(NewLog(), HasSubstr("the daemon was not there, and was started"));
  EXPECT_TRUE(Within([&] { return NewLog().find("is not on the prefix yet") != std::string::npos; }, seconds(20)));
  if (HasFailure())
    std::cout << site().AsRoot(kNode, "grep -i spank " + folder + "/log/slurmd.log | tail -n 20").output;
  Plugin("environment_only");
  for (const char* name : {"/prolog", "/epilog"}) std::filesystem::rename(folder + name + ".off", folder + name);
  ExpectNodeStays();
}

TEST_F(NodesTest, StageInAndStageOutWaitForTheRun) {
  const std::string wishes = "#BB_LUA cairn prefix=" + PrefixOf() + " wait_in=30 wait_out=60\n";
  const std::string script =
      Script(wishes + "echo prefix=$CAIRN_PREFIX\nsrun solver --log " + LogOf() + " --steps 8 --wait local");
  const int job = RunThere("", script);
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED", "FAILED"}, seconds(90)), "COMPLETED");
  Show("alice", job);
  EXPECT_THAT(site().OutputOf("alice", job), HasSubstr("prefix=" + PrefixOf()));
  const std::uint64_t newest = EventsNamed(LogOf(), "captured").back().numbers.at(1);
  const std::string told = "the newest checkpoint on the prefix is dataset " + std::to_string(newest) + ", step 8";
  // One that depends on it begins when all is there.
  EXPECT_TRUE(IsOnPrefix(newest, PrefixOf()));
  std::ifstream lines(site().folder() + "/slurmctld.log");
  std::string stages;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("cairn: stage-") != std::string::npos) stages += "    " + line + "\n";
  }
  std::cout << stages;
  EXPECT_THAT(stages, HasSubstr(told));
  // A name that a shell could take for more than a name.
  const std::string trap = site().HomeOf("alice") + "/trap";
  const std::string hostile =
      Script("#BB_LUA cairn prefix=/nowhere/a';touch${IFS}" + trap + ";'$(touch${IFS}" + trap + ")");
  const Ending called =
      site().AsRoot(1, "lua5.3 -e 'dofile(\"/etc/slurm/burst_buffer.lua\") print(slurm_bb_data_in(\"1\", \"" + hostile +
                           "\", \"2001\", \"2001\"))'");
  EXPECT_THAT(called.output, HasSubstr("neither this folder nor the one above it is there"));
  EXPECT_FALSE(std::filesystem::exists(trap));
  // Whoever asks chooses all arguments of the first; the second's prefix has no folder above it.
  const Ending asked = site().AsRoot(
      1,
      "lua5.3 -e 'dofile(\"/etc/slurm/burst_buffer.lua\") io.popen = function() error(\"runs a command\") end "
      "print(slurm_bb_get_status(\"0\", \"0\", \"" +
          PrefixOf() + "\"))'");
  EXPECT_EQ(asked.exit_code, 0) << asked.output;
  EXPECT_THAT(asked.output, HasSubstr("cairn run show RUN"));
  const Ending top =
      site().AsRoot(1, "lua5.3 -e 'dofile(\"/etc/slurm/burst_buffer.lua\") print(slurm_bb_data_in(\"1\", \"" +
                           Script("#BB_LUA cairn prefix=/ wait_in=1") + "\", \"2001\", \"2001\"))'");
  EXPECT_EQ(top.exit_code, 0) << top.output;
  const Ending refused = site().As("alice", "sbatch -N1 " + Script("#BB_LUA cairn prefix=runs/heat\ntrue"));
  std::cout << "  sbatch, of a prefix that is no path: " << refused.output;
  EXPECT_NE(refused.exit_code, 0);
}

}  // namespace
}  // namespace cairn::testing
