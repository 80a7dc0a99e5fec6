// Whatever ends a test, nothing of its cluster is left.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/cluster/network.h"
#include "tests/support/cluster/probe.h"

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;

std::string ParentOf(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  for (std::string word; status >> word;) {
    if (word == "PPid:") return (status >> word, word);
  }
  return "";
}

// The processes in any of these networks.
std::set<std::string> ProcessesIn(const HeldNetworks& networks) {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename();
    if (networks.Contains(NetworkOf(pid))) found.insert(pid);
  }
  return found;
}

// What a cluster of two nodes consists of.
struct Parts {
  explicit Parts(const std::string& node_1, const std::string& node_2) : host(ParentOf(node_1)) {
    for (const std::string& pid : {host, node_1, node_2}) EXPECT_TRUE(networks.Add(pid)) << pid;
  }
  std::string host;
  HeldNetworks networks;
};

bool NothingIsLeft(const Parts& parts, const std::string& folder) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!ProcessesIn(parts.networks).empty() || fs::exists(folder)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

class ClusterEndTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // To be killed it must be a process of its own; this one tells whether there can be any.
    CAIRN_CLUSTER_OR_SKIP(trial, {.nodes = 1});
  }

  // cairn-cluster with two nodes, their daemons, and a program of which nobody takes care, when all is there.
  void StartByHand(const std::string& more = "") {
    const std::string say = ::testing::TempDir() + "/say";
    fs::remove(say);
    const std::string script = "echo \"$CAIRN_CLUSTER\" `cluster pid 1` `cluster pid 2` > " + say + ".new; mv " + say +
                               ".new " + say + "; " + more + " node 2 sh -c 'setsid sleep 1000 & sleep 1000'";
    Process::Options options =
        Program({DataPath("tests/support/cluster/cairn-cluster"), "--nodes", "2", "--", "sh", "-c", script});
    // What it starts lies in this test's runfiles; nobody has to make any of its own.
    if (const char* const runfiles = std::getenv("TEST_SRCDIR")) options.environment["TEST_SRCDIR"] = runfiles;
    starter = Process::Start(options);
    for (int i = 0; i < 60'000 && starter->running() && !fs::exists(say); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ifstream line(say);
    std::string node_1, node_2;
    ASSERT_TRUE(line >> folder >> node_1 >> node_2) << starter->Wait(std::chrono::seconds(0)).output;
    parts.emplace(node_1, node_2);
    ASSERT_EQ(parts->networks.size(), 3u);
    ASSERT_FALSE(parts->networks.Contains(NetworkOf("self")));
    ASSERT_TRUE(fs::exists(folder + "/n2/run/cairnd.sock"));
    ASSERT_GE(ProcessesIn(parts->networks).size(), 5u);  // the host, the nodes, their daemons
  }

  std::unique_ptr<Process> starter;
  std::string folder;
  std::optional<Parts> parts;
};

TEST_F(ClusterEndTest, NothingIsLeftWhenItsStarterIsKilled) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    ASSERT_NO_FATAL_FAILURE(StartByHand("setsid sleep 1000 &"));
    starter->Signal(signal);
    EXPECT_TRUE(NothingIsLeft(*parts, folder));
  }
}

TEST_F(ClusterEndTest, OnlyTheFolderIsLeftWhenStarterAndHostAreKilled) {
  ASSERT_NO_FATAL_FAILURE(StartByHand());
  ASSERT_EQ(::kill(std::atoi(parts->host.c_str()), SIGKILL), 0);
  starter->Signal(SIGKILL);
  EXPECT_TRUE(NothingIsLeft(*parts, "/no/folder"));
  EXPECT_TRUE(folder.starts_with(::testing::TempDir()) || ::testing::TempDir().size() > 60) << folder;
  fs::remove_all(folder);
}

TEST_F(ClusterEndTest, NothingIsLeftWhenItsHostIsKilled) {
  CAIRN_CLUSTER_OR_SKIP(cluster, {.nodes = 2});
  ASSERT_TRUE(cluster->node(1).StartDaemon());
  const auto sleeper = cluster->StartProgram(2, Program({"sleep", "1000"}));
  const Parts parts(cluster->Command("pid 1"), cluster->Command("pid 2"));
  const std::string folder = cluster->folder();
  ASSERT_EQ(::kill(std::atoi(parts.host.c_str()), SIGKILL), 0);
  EXPECT_EQ(sleeper->Wait().signal, SIGKILL);
  EXPECT_EQ(cluster->node(1).daemon()->Wait().signal, SIGKILL);
  EXPECT_NONFATAL_FAILURE(cluster->Command("cut 1"), "UNAVAILABLE");
  cluster.reset();
  EXPECT_TRUE(NothingIsLeft(parts, folder));
}

TEST_F(ClusterEndTest, NothingIsLeftAtItsEnd) {
  CAIRN_CLUSTER_OR_SKIP(cluster, {.nodes = 2});
  const std::string folder = cluster->folder();
  const Parts parts(cluster->Command("pid 1"), cluster->Command("pid 2"));
  ASSERT_EQ(cluster->Run(2, Program({"sh", "-c", "setsid sleep 1000 &"})).exit_code, 0);
  ASSERT_TRUE(cluster->node(1).StartDaemon());
  cluster->Delay(1, std::chrono::milliseconds(10));
  cluster.reset();
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_TRUE(ProcessesIn(parts.networks).empty());
}

// The kernel gives numbers of networks that are gone to new ones, the lowest first.
TEST_F(ClusterEndTest, ItsEndKillsNobodyWhoseNetworkHasTheNumberOfAFormerOne) {
  if (::geteuid() != 0) GTEST_SKIP() << "an ordinary user's cluster sees no network but its own";
  constexpr int kOthers = 60;
  CAIRN_CLUSTER_OR_SKIP(cluster, {.nodes = 3});
  for (int node = 1; node <= 3; ++node) cluster->PowerOff(node);
  std::vector<std::unique_ptr<Process>> others;
  for (int i = 0; i < kOthers; ++i) {
    others.push_back(Process::Start(Program({"unshare", "--net", "sh", "-c", "echo there; exec sleep 1000"})));
    EXPECT_TRUE(others.back()->WaitForOutput("there"));
  }
  cluster.reset();
  for (const auto& other : others) EXPECT_TRUE(other->running());
}

}  // namespace
}  // namespace cairn::testing
