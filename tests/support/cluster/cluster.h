// Several nodes on this machine, for one test: each with its own network, host name, processes, cache and runtime
// folder, one prefix for all, and what can happen to nodes and to the cables between them.
#ifndef CAIRN_TESTS_SUPPORT_CLUSTER_CLUSTER_H_
#define CAIRN_TESTS_SUPPORT_CLUSTER_CLUSTER_H_

#include <absl/status/statusor.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"
#include "tests/integration/harness.h"
#include "tests/integration/process.h"

namespace cairn::testing {

// Nodes are numbered from 1. Node 3 has host name n3 and address 10.77.0.3, which the others know by that name, a
// loopback of its own, and no way to the machine's network; files are the machine's. A cluster is for one thread, which
// must live as long as it: when the thread ends, even by SIGKILL, nothing of the cluster is left a moment later. (Bazel
// kills what a killed test leaves at once. Of that the folder stays, in TEST_TMPDIR, which Bazel and tests/run.sh
// clear.) What cannot be done is a failure of the test.
class Cluster {
 public:
  static constexpr int kNodesMax = 250;
  struct Options {
    int nodes = 3;
    // Of these nodes the clocks that count since boot are so much ahead of the others' (behind is refused).
    std::map<int, std::chrono::seconds> clocks_ahead = {};
  };

  // All nodes on, all cables in, no daemon runs.
  //   kPermissionDenied  the machine does not let us: skip the test (CAIRN_CLUSTER_OR_SKIP)
  //   kInvalidArgument   the options
  static absl::StatusOr<std::unique_ptr<Cluster>> Start(const Options& options);
  // Kills what still runs on the nodes, and removes the folder.
  virtual ~Cluster() = default;

  virtual int nodes() const = 0;
  // Its own; gone with it. Holds the prefix, and n<k>/ of each node.
  virtual const std::string& folder() const = 0;
  std::string prefix() const { return folder() + "/prefix"; }
  static std::string host(int node) { return "n" + std::to_string(node); }
  static std::string address(int node);

  // --- What runs there ---
  // The daemon of a node, with its folders and its log. Its StartDaemon starts it on the node.
  virtual Harness& node(int node) = 0;
  // Any program, as Process::Start; node(k).Client(…) makes options of a client. None if the node is off.
  virtual std::unique_ptr<Process> StartProgram(int node, Process::Options options) = 0;
  // Start and Wait.
  Ending Run(int node, Process::Options options, std::chrono::seconds deadline = std::chrono::seconds(120));
  // The daemon stands still from the moment this returns, until it is told to go on. REQUIRES: it runs.
  void PauseDaemon(int node);
  void ResumeDaemon(int node);
  // For a program's environment: its calendar is so much ahead of the machine's, or behind. Clocks that count since
  // boot are not (Options::clocks_ahead is for these), nor the times that the kernel gives files. Not for programs that
  // are built with a sanitizer, whose run-time wants to be loaded first.
  static std::map<std::string, std::string> CalendarAhead(std::chrono::seconds ahead);
  // Kills all that runs there, at once, and pulls the cable. The cache and what the daemon had in its runtime folder
  // stay; a Harness on it has no daemon afterwards.
  virtual void PowerOff(int node) = 0;
  // Plugs it in again; nothing runs there. REQUIRES: it is off.
  virtual void PowerOn(int node) = 0;

  // --- What happens to cables, each until it is healed; all can be combined ---
  // Pulls it out: both ends see that.
  void Cut(int node) { Command("cut " + std::to_string(node)); }
  // Frames from, or to, the node get lost; nobody is told.
  void LoseWhatItSends(int node) { Command("mute " + std::to_string(node)); }
  void LoseWhatItReceives(int node) { Command("deafen " + std::to_string(node)); }
  // Frames between these two get lost; both reach all others.
  void Sever(int one, int other) { Command("sever " + std::to_string(one) + " " + std::to_string(other)); }
  // Nodes of one group reach each other only. Those that no group names are together. REQUIRES: groups share no node.
  void Partition(const std::vector<std::vector<int>>& groups);
  // In each direction; at least 8 000.
  void Throttle(int node, std::uint64_t bits_per_second);
  // Each frame needs so much longer, in each direction; 60 s at most. What is on the way when the delay changes is
  // lost.
  void Delay(int node, std::chrono::milliseconds delay);
  // Undoes all of these but Partition and Sever for the node's cable, or simply all. Power is no matter of cables.
  void Heal(int node) { Command("heal " + std::to_string(node)); }
  void Heal() { Command("heal"); }

  // A line as control.h has it; its answer, "" with a failure of the test if that is an error.
  std::string Command(const std::string& line);
};

// `CAIRN_CLUSTER_OR_SKIP(cluster, {.nodes = 4});`: declares it. Where the machine allows no cluster the test is skipped
// with the reason; in CI as root it fails.
#define CAIRN_CLUSTER_OR_SKIP(name, ...)           \
  std::unique_ptr<::cairn::testing::Cluster> name; \
  CAIRN_START_CLUSTER_OR_SKIP(name, __VA_ARGS__)
// The same for a variable that is there, in SetUp.
#define CAIRN_START_CLUSTER_OR_SKIP(name, ...)                             \
  do {                                                                     \
    auto started_ = ::cairn::testing::Cluster::Start(__VA_ARGS__);         \
    if (!started_.ok() && ::cairn::testing::MaySkip(started_.status())) {  \
      GTEST_SKIP() << "no cluster here: " << started_.status().ToString(); \
    }                                                                      \
    ASSERT_TRUE(started_.ok()) << started_.status().ToString();            \
    name = *std::move(started_);                                           \
  } while (false)

bool MaySkip(const absl::Status& started);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_CLUSTER_CLUSTER_H_
