// How jobs end under a real Slurm, and how they go on: by completion, by their time limit, by scancel, with a node, by
// preemption, elsewhere; beside others of their user, and as an array.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "client/cairn.h"
#include "storage/base/clock.h"
#include "tests/slurm/slurm_fixture.h"

namespace cairn::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class JobsTest : public SlurmTest {
 protected:
  std::string Examples() const { return site().folder() + "/cairn/share/doc/cairn/slurm"; }
  std::string SolverLine(const std::string& more, const std::string& log = "") const {
    return "solver --log " + (log.empty() ? LogOf() : log) + " " + more;
  }
  // Runs the solver in the test's run.
  std::string Solves(const std::string& more) {
    return Script("export CAIRN_PREFIX=" + PrefixOf() + "\nsrun " + SolverLine(more));
  }
  int Run(const std::string& options, const std::string& script) {
    jobs_.push_back(site().Submit("alice", options + " " + script));
    return jobs_.back();
  }
  // As it is installed. `environment`: "NAME=VALUE …", for the script.
  int RunExample(const std::string& name, const std::string& options, const std::string& solver,
                 const std::string& log = "", const std::string& environment = "") {
    const std::string run = log.empty() ? PrefixOf() : log + ".run";
    const std::string line = environment + " CAIRN_PREFIX=" + run + " SOLVER='" + SolverLine(solver, log) +
                             "' sbatch --parsable --output=out.%j " + options + " " + Examples() + "/" + name;
    const Ending ending = site().As("alice", line);
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
    jobs_.push_back(std::atoi(ending.output.c_str()));
    return jobs_.back();
  }
  // Each life goes on from the newest checkpoint that all ranks of the ones before had handed over, or a newer one; not
  // from one that nobody has told of. Says so.
  void ExpectGoesOn(const std::string& log, std::size_t lives, std::size_t ranks) {
    std::map<std::string, std::uint64_t> captured;  // by rank
    std::size_t resumed = 0;
    for (const Event& event : Events(log)) {
      if (event.what == "captured") captured[event.rank] = std::max(captured[event.rank], event.numbers.at(0));
      if (event.what != "resumed") continue;
      std::uint64_t by_all = captured.size() < ranks ? 0 : UINT64_MAX;
      for (const auto& [rank, step] : captured) by_all = std::min(by_all, step);
      std::cout << "  rank " << event.rank << " resumed from step " << event.numbers.at(0) << ", tier "
                << kTiers[event.numbers.at(2)] << "; the newest that all ranks had handed over was " << by_all << "\n";
      EXPECT_GE(event.numbers.at(0), by_all);
      resumed += event.rank == "0" ? 1 : 0;
    }
    EXPECT_GE(resumed + 1, lives);
  }
  static constexpr const char* kTiers[] = {"none", "image", "cache", "partner", "rebuilt", "prefix", "redundant"};
};

TEST_F(JobsTest, CompletionBringsTheLastCheckpointToThePrefix) {
  const int job = Run("-N2 -n4", Solves("--steps 6 --wait local"));  // an epilog orders what is whole by then
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED", "FAILED"}), "COMPLETED");
  const auto done = EventsNamed(LogOf(), "captured");
  ASSERT_FALSE(done.empty());
  const std::uint64_t newest = done.back().numbers.at(1);
  EXPECT_TRUE(Within([&] { return IsOnPrefix(newest, PrefixOf()); }, seconds(30))) << "nobody else flushes here";
  EXPECT_TRUE(site().AwaitIdle(2) && site().AwaitIdle(3));
  Show("alice", job, {2, 3});
  EXPECT_THAT(site().LogOf(2) + site().LogOf(3),
              HasSubstr("dataset " + std::to_string(newest) + " (step 6) is not on the prefix yet"));
}

// All at once: a time limit is a minute at least, and Slurm looks twice a minute.
TEST_F(JobsTest, TimeLimitRequeuedUntilTheSolverIsDone) {
  // The batch script of deploy/slurm/examples, told so early that it has two lives or more.
  const std::string done = site().HomeOf("alice") + "/solver.is.done";
  const int signalled = RunExample("requeue.sbatch", "-N2 -n2 --time=1 --signal=B:USR1@45",
                                   "--steps 200 --ms 200 --every 5 --done " + done);
  // And a job that Slurm kills for its limit, without a word before.
  const std::string log = LogOf("alice", "killed");
  const int killed = Run("-N1 -n2 --time=1", Script("export CAIRN_PREFIX=" + PrefixOf() + ".killed\nsrun " +
                                                    SolverLine("--steps 5000 --ms 200 --every 5", log)));
  // And a solver that asks whether the end is near.
  const std::string asks = LogOf("alice", "asks");
  const int asked =
      RunExample("should_exit.sbatch", "-N1 -n2 --time=1", "--steps 350 --ms 100 --every 1000 --done " + asks + ".done",
                 asks, "HALT_SECONDS=35s DONE_FILE=" + asks + ".done");
  EXPECT_EQ(site().AwaitState(killed, {"TIMEOUT"}, seconds(150)), "TIMEOUT");
  EXPECT_EQ(site().As("alice", "scontrol requeue " + std::to_string(killed)).exit_code, 0);
  EXPECT_TRUE(AwaitEvent(log, "resumed", 2, seconds(90)));
  Show("alice", killed);
  // Between two captures there is time to be killed: what a life has told is what the next one has.
  ExpectGoesOn(log, 2, 2);
  site().As("alice", "scancel " + std::to_string(killed));
  EXPECT_EQ(site().AwaitState(signalled, {"COMPLETED"}, seconds(180)), "COMPLETED");
  EXPECT_TRUE(std::filesystem::exists(done));
  Show("alice", signalled);
  EXPECT_THAT(site().OutputOf("alice", signalled), HasSubstr("requeued: the time limit is near"));
  ExpectGoesOn(LogOf(), 2, 2);
  EXPECT_FALSE(EventsNamed(LogOf(), "done").empty());
  EXPECT_EQ(site().AwaitState(asked, {"COMPLETED"}, seconds(120)), "COMPLETED");
  Show("alice", asked);
  // Nothing is computed twice: its last checkpoint is of the step at which it was told to stop.
  const auto stops = EventsNamed(asks, "stops"), resumed = EventsNamed(asks, "resumed");
  ASSERT_GE(stops.size(), 2u);
  ASSERT_GE(resumed.size(), 2u);
  std::cout << "  told to stop at step " << stops[0].text << "; resumed from step " << resumed[0].numbers.at(0) << "\n";
  EXPECT_EQ(resumed[0].numbers.at(0), stops[0].numbers.at(0));
}

TEST_F(JobsTest, ScancelLosesNothing) {
  const int job = Run("-N1 -n2 -w n2", Solves("--steps 100000"));
  ASSERT_TRUE(AwaitEvent(LogOf(), "captured", 12));
  EXPECT_EQ(site().As("alice", "scancel " + std::to_string(job)).exit_code, 0);
  EXPECT_EQ(site().AwaitState(job, {"CANCELLED"}), "CANCELLED");
  Show("alice", job, {2});
  EXPECT_TRUE(site().AwaitIdle(2));
  const std::uint64_t newest = NewestCaptured(LogOf());
  const int next = Run("-N1 -n2 -w n2", Solves("--steps " + std::to_string(newest + 3)));
  EXPECT_EQ(site().AwaitState(next, {"COMPLETED", "FAILED"}), "COMPLETED");
  ExpectGoesOn(LogOf(), 2, 2);
  Show("alice", next, {2});
}

TEST_F(JobsTest, ANodeThatDiesTakesNothingWithItThatWasSafe) {
  // One job on that node alone, of which some steps are on the prefix; and one with copies on another node only.
  const std::string log = LogOf("alice", "prefix"), prefix = PrefixOf() + ".prefix";
  const int alone = Run("-N1 -n1 --requeue", Script("export CAIRN_PREFIX=" + prefix + "\nsrun " +
                                                    SolverLine("--steps 100000 --ms 100 --safe 3", log)));
  ASSERT_TRUE(AwaitEvent(log, "captured"));
  const int over =
      Run("-N2 -n2 --requeue", Script("export CAIRN_REDUNDANCY=partner CAIRN_PREFIX=" + PrefixOf() + "\nsrun " +
                                      SolverLine("--steps 100000 --ms 100 --safe 3 --safe-at redundant")));
  ASSERT_TRUE(AwaitEvent(LogOf(), "safe", 6));  // told by each of two ranks
  ASSERT_TRUE(AwaitEvent(log, "safe", 2));
  EXPECT_EQ(site().Job(alone)["BatchHost"], "n2");
  EXPECT_EQ(site().Job(over)["BatchHost"], "n2");
  site().PowerOff(2);
  const std::uint64_t on_prefix = EventsNamed(log, "safe").back().numbers.at(0);
  const std::uint64_t copied = EventsNamed(LogOf(), "safe").back().numbers.at(0);
  // Slurm notices, and starts them again on others.
  EXPECT_TRUE(AwaitEvent(log, "resumed", 1, seconds(90)));
  EXPECT_TRUE(AwaitEvent(LogOf(), "resumed", 2, seconds(90)));
  EXPECT_THAT(site().NodeState(2), HasSubstr("down"));
  for (const int job : {alone, over}) EXPECT_THAT(site().Job(job)["NodeList"], Not(HasSubstr("2")));
  Show("alice", alone, {3});
  Show("alice", over, {3, 4});
  for (const Event& event : EventsNamed(log, "resumed")) {
    std::cout << "  alone: resumed from step " << event.text << "; on the prefix was " << on_prefix << "\n";
    EXPECT_GE(event.numbers.at(0), on_prefix);
  }
  for (const Event& event : EventsNamed(LogOf(), "resumed")) {
    std::cout << "  with copies: rank " << event.rank << " resumed from step " << event.text << "; copied was "
              << copied << "\n";
    EXPECT_GE(event.numbers.at(0), copied);
  }
  site().As("alice", "scancel " + std::to_string(alone) + " " + std::to_string(over));
}

// Its processes go on: the new life shuts them out.
TEST_F(JobsTest, ASlurmdThatDiesLeavesALaunchThatTheRequeuedOneShutsOut) {
  const int job = Run("-N1 -n1 --requeue", Solves("--steps 100000 --ms 100"));
  ASSERT_TRUE(AwaitEvent(LogOf(), "captured", 5));
  ASSERT_EQ(site().Job(job)["NodeList"], "n2");
  site().KillSlurmd(2);
  ASSERT_TRUE(AwaitEvent(LogOf(), "resumed", 1, seconds(120)));
  EXPECT_TRUE(AwaitEvent(LogOf(), "fenced", 1));
  Show("alice", job, {3});
  // What the first life was promised until the second one began is not lost.
  std::uint64_t captured = 0;
  for (const Event& event : Events(LogOf())) {
    if (event.what == "captured") captured = std::max(captured, event.numbers.at(0));
    if (event.what != "resumed") continue;
    std::cout << "  resumed from step " << event.numbers.at(0) << ", tier " << event.numbers.at(2)
              << "; the newest captured one was " << captured << "\n";
    EXPECT_GE(event.numbers.at(0) + 20, captured);
    break;
  }
  EXPECT_GT(site().Job(job)["Restarts"], "0");
  site().As("alice", "scancel " + std::to_string(job));
}

TEST_F(JobsTest, PreemptionTellsTheSolverToStopInTime) {
  const int job =
      RunExample("preemption.sbatch", "-p idle -N1 -n2 -w n2 --exclusive", "--steps 60 --ms 200 --every 50");
  ASSERT_TRUE(AwaitEvent(LogOf(), "fresh", 2));
  SleepFor(seconds(2));
  const int other = Run("-p work -N1 -n1 -w n2 --exclusive", Script("sleep 3"));
  EXPECT_TRUE(AwaitEvent(LogOf(), "stops", 2, seconds(40)));
  EXPECT_EQ(site().AwaitState(other, {"COMPLETED"}), "COMPLETED");
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED"}, seconds(120)), "COMPLETED");
  Show("alice", job, {2});
  const auto stops = EventsNamed(LogOf(), "stops");
  ASSERT_FALSE(stops.empty());
  EXPECT_THAT(stops[0].text, HasSubstr("PREEMPTED"));
  ExpectGoesOn(LogOf(), 2, 2);
  // Within the grace of 20 s, with its checkpoint.
  const auto captured = EventsNamed(LogOf(), "captured");
  ASSERT_FALSE(captured.empty());
  EXPECT_EQ(captured.front().numbers.at(0), stops.front().numbers.at(0)) << "the checkpoint is of where it stopped";
}

TEST_F(JobsTest, RequeuedOnAnotherNodeItGoesOnFromWhatOnlyTheOldOneHolds) {
  site().Configure("JOBS=option\n");  // no epilog brings anything to the prefix
  const int job = Run("-N1 -n2 --requeue", Solves("--steps 40 --ms 100"));
  ASSERT_TRUE(AwaitEvent(LogOf(), "captured", 10));
  ASSERT_EQ(site().Job(job)["NodeList"], "n2");
  EXPECT_EQ(site().AsRoot(1, "scontrol update NodeName=n2 State=DRAIN Reason=maintenance").exit_code, 0);
  EXPECT_EQ(site().As("alice", "scontrol requeue " + std::to_string(job)).exit_code, 0);
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED"}, seconds(120)), "COMPLETED");
  Show("alice", job);
  EXPECT_EQ(site().Job(job)["NodeList"], "n3");
  ExpectGoesOn(LogOf(), 2, 2);
  const auto resumed = EventsNamed(LogOf(), "resumed");
  ASSERT_FALSE(resumed.empty());
  EXPECT_FALSE(IsOnPrefix(resumed[0].numbers.at(1), PrefixOf())) << "only n2 had it";
  // The node that it has gone to is about to go as well.
  const std::uint64_t newest = EventsNamed(LogOf(), "captured").back().numbers.at(1);
  const Ending left = site().As("alice", "cairn leave " + PrefixOf() + " --timeout 60s", 3);
  EXPECT_EQ(left.exit_code, 0) << left.output;
  std::cout << "  cairn leave: " << left.output;
  EXPECT_TRUE(IsOnPrefix(newest, PrefixOf()));
}

TEST_F(JobsTest, TheEndOfOneJobTouchesNoOtherOfItsUser) {
  site().Configure("END=wait\nEND_WAIT=30\n");
  const std::string log = LogOf("alice", "other"), prefix = PrefixOf() + ".other";
  const int other = Run("-N1 -n1 -w n2",
                        Script("export CAIRN_PREFIX=" + prefix + "\nsrun " + SolverLine("--steps 150 --ms 100", log)));
  ASSERT_TRUE(AwaitEvent(log, "captured", 3));
  const int job = Run("-N1 -n1 -w n2", Solves("--steps 5"));
  EXPECT_EQ(site().AwaitState(job, {"COMPLETED"}), "COMPLETED");
  EXPECT_TRUE(IsOnPrefix(EventsNamed(LogOf(), "captured").back().numbers.at(1), PrefixOf())) << "the epilog waited";
  Show("alice", job, {2});
  EXPECT_EQ(site().StateOf(other), "RUNNING");
  for (const Event& event : EventsNamed(log, "captured")) {
    EXPECT_FALSE(IsOnPrefix(event.numbers.at(1), prefix)) << "of the other job, which is at work";
  }
  EXPECT_EQ(site().AwaitState(other, {"COMPLETED"}), "COMPLETED");
}

TEST_F(JobsTest, EachTaskOfAnArrayIsARunOfItsOwn) {
  const int job = RunExample("array.sbatch", "--array=1-3 --output=out.%A.%a", "--steps 4");
  EXPECT_TRUE(AwaitEvent(LogOf(), "done", 3, seconds(90)));
  for (const int task : {1, 2, 3}) {
    const std::string prefix = PrefixOf() + "/" + std::to_string(task);
    EXPECT_TRUE(Within([&] { return std::filesystem::exists(prefix + "/.scr/index.scr"); }, seconds(30))) << prefix;
  }
  std::cout << site().As("alice", "squeue --states=all --job " + std::to_string(job)).output;
  EXPECT_EQ(EventsNamed(LogOf(), "fresh").size(), 3u) << "none took another's";
}

}  // namespace
}  // namespace cairn::testing
