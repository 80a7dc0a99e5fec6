// Nodes, and what runs on them. Cables: cables_test.cc. The end: cluster_end_test.cc.
#include "tests/support/cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "storage/base/status.h"
#include "tests/support/cluster/probe.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Dead is also one that nobody has looked after yet.
bool IsAlive(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    if (word == "State:") return (status >> word, word != "Z" && word != "X");
  }
  return false;
}

class ClusterTest : public ::testing::Test {
 protected:
  void SetUp() override { CAIRN_START_CLUSTER_OR_SKIP(cluster, {.nodes = 3, .clocks_ahead = {{3, kAhead}}}); }

  struct Clocks {
    std::int64_t since_boot = 0, monotonic = 0, calendar = 0;
  };
  Clocks ClocksOf(int node, std::map<std::string, std::string> environment = {}) {
    Process::Options options = Probe({"clock"});
    options.environment = std::move(environment);
    Clocks clocks;
    std::istringstream(cluster->Run(node, options).output) >> clocks.since_boot >> clocks.monotonic >> clocks.calendar;
    return clocks;
  }

  static constexpr std::chrono::seconds kAhead{3600};
  std::unique_ptr<Cluster> cluster;
};

TEST_F(ClusterTest, NodesReachEachOtherByAddressAndByName) {
  const auto server = Server(*cluster, 2);
  for (const int from : {1, 2, 3}) {
    EXPECT_TRUE(Reaches(*cluster, from, 2)) << from;
    EXPECT_THAT(cluster->Run(from, Probe({"dial", "n2", "7000", "70000", "30"})).output, HasSubstr("reached")) << from;
  }
}

TEST_F(ClusterTest, EachNodeHasItsOwnHostNameLoopbackAndProcesses) {
  const auto server = Server(*cluster, 2);
  for (const int node : {1, 2, 3}) {
    EXPECT_EQ(cluster->Run(node, Program({"uname", "-n"})).output, Cluster::host(node) + "\n");
    const std::string dialled = cluster->Run(node, Probe({"dial", "127.0.0.1", "7000", "1", "30"})).output;
    EXPECT_EQ(dialled.starts_with("reached"), node == 2) << dialled;
    // Its first process is the node's, and those of others are not to be seen.
    EXPECT_EQ(cluster->Run(node, Program({"cat", "/proc/1/comm"})).output, Cluster::host(node) + "\n");
    const std::string processes = cluster->Run(node, Program({"sh", "-c", "cat /proc/[0-9]*/cmdline"})).output;
    EXPECT_EQ(processes.find("serve") != std::string::npos, node == 2);
  }
}

TEST_F(ClusterTest, ADaemonOnEachNodeAnswersTheCommandThere) {
  for (const int node : {1, 2, 3}) {
    Harness& harness = cluster->node(node);
    ASSERT_TRUE(harness.StartDaemon());
    EXPECT_EQ(harness.prefix(), cluster->prefix());
    const Ending status = cluster->Run(node, harness.Client("client/cli/cairn", {"status"}));
    EXPECT_EQ(status.exit_code, 0) << status.output;
    EXPECT_THAT(status.output, HasSubstr(harness.cache()));
    const Ending client = cluster->Run(
        node, harness.Client("tests/integration/crash_client",
                             {"--promises", harness.folder() + "/promises", "--mib", "1", "--steps", "1"}));
    EXPECT_EQ(client.exit_code, 0) << client.output;
    EXPECT_EQ(harness.StopDaemon().exit_code, 0);
  }
}

TEST_F(ClusterTest, AProgramEndsAsItDoesAnywhere) {
  EXPECT_EQ(cluster->Run(1, Program({"sh", "-c", "exit 7"})).exit_code, 7);
  EXPECT_EQ(cluster->Run(1, Program({"sh", "-c", "kill -TERM $$"})).signal, SIGTERM);
  EXPECT_EQ(cluster->Run(1, Program({"/no/such/program"})).exit_code, 127);
  Process::Options options = Program({"pwd"});
  options.working_directory = cluster->folder();
  EXPECT_EQ(cluster->Run(1, options).output, cluster->folder() + "\n");
  // Signals are for the program; when its end shows it is gone.
  const auto sleeper = cluster->StartProgram(1, Program({"sleep", "1000"}));
  EXPECT_TRUE(IsAlive(sleeper->pid()));
  sleeper->Signal(SIGKILL);
  EXPECT_EQ(sleeper->Wait().signal, SIGKILL);
  EXPECT_FALSE(IsAlive(sleeper->pid()));
  // So it is at a deadline.
  const auto late = cluster->StartProgram(1, Program({"sleep", "1000"}));
  late->Wait(std::chrono::seconds(0));
  EXPECT_FALSE(IsAlive(late->pid()));
}

TEST_F(ClusterTest, AKilledDaemonIsStartedAgainAtOnce) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(cluster->node(1).StartDaemon());
    cluster->node(1).KillDaemon();
  }
}

TEST_F(ClusterTest, APausedDaemonAnswersWhenItGoesOn) {
  Harness& harness = cluster->node(1);
  ASSERT_TRUE(harness.StartDaemon());
  cluster->PauseDaemon(1);
  const auto status = cluster->StartProgram(1, harness.Client("client/cli/cairn", {"status"}));
  EXPECT_FALSE(status->WaitForOutput(harness.cache(), std::chrono::seconds(1)));
  cluster->ResumeDaemon(1);
  EXPECT_EQ(status->Wait().exit_code, 0);
}

TEST_F(ClusterTest, PowerOffKillsAllThatRunsOnTheNodeAndItComesBackWithItsCache) {
  ASSERT_TRUE(cluster->node(2).StartDaemon());
  std::ofstream(cluster->node(2).cache() + "/mark").flush();
  const auto server = Server(*cluster, 2), elsewhere = Server(*cluster, 1);
  // One that nobody waits for.
  ASSERT_EQ(cluster->Run(2, Program({"sh", "-c", "setsid sleep 1000 & echo $!"})).exit_code, 0);
  ASSERT_TRUE(Reaches(*cluster, 1, 2));
  const std::string there = cluster->Command("pid 2");

  cluster->PowerOff(2);
  EXPECT_EQ(server->Wait().signal, SIGKILL);
  EXPECT_EQ(cluster->node(2).daemon(), nullptr);
  EXPECT_FALSE(IsAlive(std::atoi(there.c_str())));
  EXPECT_TRUE(DoesNotReach(*cluster, 1, 2));
  EXPECT_TRUE(elsewhere->running());

  cluster->PowerOn(2);
  EXPECT_THAT(cluster->Run(2, Program({"sh", "-c", "cat /proc/[0-9]*/cmdline"})).output, Not(HasSubstr("sleep")));
  const auto again = Server(*cluster, 2);
  EXPECT_TRUE(Reaches(*cluster, 1, 2));
  EXPECT_TRUE(std::filesystem::exists(cluster->node(2).cache() + "/mark"));
  EXPECT_TRUE(cluster->node(2).StartDaemon());
}

TEST_F(ClusterTest, ClocksThatCountSinceBootCanBeAheadOnANode) {
  const Clocks here = ClocksOf(1), there = ClocksOf(3);
  for (const std::int64_t ahead : {there.since_boot - here.since_boot, there.monotonic - here.monotonic}) {
    EXPECT_GE(ahead, kAhead.count() - 1);
    EXPECT_LT(ahead, 2 * kAhead.count());
  }
  EXPECT_LT(there.calendar - here.calendar, kAhead.count());
  // Also after the power was off.
  cluster->PowerOff(3);
  cluster->PowerOn(3);
  EXPECT_GE(ClocksOf(3).since_boot, there.since_boot);
}

TEST_F(ClusterTest, WhatCannotBeIsRefused) {
  for (const char* line :
       {"", "frobnicate 1", "cut", "cut 4", "cut 0", "cut 1 2 3", "sever 1 1", "sever 1 x", "throttle 1 7999",
        "throttle 1 -1", "delay 1 60001", "partition 1,2 2", "partition 9", "on 1"}) {
    EXPECT_NONFATAL_FAILURE(cluster->Command(line), line);
  }
  EXPECT_EQ(Cluster::Start({.nodes = 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Cluster::Start({.nodes = Cluster::kNodesMax + 1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Cluster::Start({.nodes = 1, .clocks_ahead = {{2, kAhead}}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Cluster::Start({.nodes = 1}).ok());
}

TEST_F(ClusterTest, TwoClustersDoNotMeet) {
  std::unique_ptr<Cluster> other;
  CAIRN_START_CLUSTER_OR_SKIP(other, {.nodes = 2});
  const auto server = Server(*cluster, 2);
  EXPECT_NE(cluster->folder(), other->folder());
  EXPECT_TRUE(Reaches(*cluster, 1, 2));
  EXPECT_TRUE(DoesNotReach(*other, 1, 2));
  EXPECT_TRUE(DoesNotReach(*other, 2, 2));
  other.reset();
  EXPECT_TRUE(Reaches(*cluster, 1, 2));
}

TEST(MaySkipTest, OnlyWhatTheMachineDoesNotAllowAndNotInCiAsRoot) {
  const char* const before = std::getenv("CI");
  const std::string ci = before == nullptr ? "" : before;
  ::unsetenv("CI");
  EXPECT_TRUE(MaySkip(PermissionDenied("no namespaces")));
  EXPECT_FALSE(MaySkip(Unavailable("no folder")));
  ::setenv("CI", "true", 1);
  EXPECT_EQ(MaySkip(PermissionDenied("no namespaces")), ::geteuid() != 0);
  ::setenv("CI", ci.c_str(), 1);
}

}  // namespace
}  // namespace cairn::testing
