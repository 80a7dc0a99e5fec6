// Jobs of one rank on a cluster's nodes, one after the other or at once, in one run; for tests.
#ifndef CAIRN_TESTS_INTEGRATION_JOBS_ON_NODES_H_
#define CAIRN_TESTS_INTEGRATION_JOBS_ON_NODES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/harness.h"
#include "tests/integration/promises.h"
#include "tests/support/cluster/cluster.h"

namespace cairn::testing {

class JobsOnNodes : public ::testing::Test {
 protected:
  void SetUp() override { CAIRN_START_CLUSTER_OR_SKIP(cluster_, {.nodes = 3}); }

  // Nothing is flushed unless it is asked for.
  void StartDaemon(int node, std::vector<std::string> more = {"--flush-every", "0"},
                   const std::map<std::string, std::string>& environment = {}) {
    std::vector<std::string> flags = {"--peers-interface", "eth0", "--peers-term", "2s"};
    flags.insert(flags.end(), more.begin(), more.end());
    ASSERT_TRUE(cluster_->node(node).StartDaemon(flags, environment)) << node;
  }
  std::string PromisesOf(int node) { return cluster_->node(node).folder() + "/promises"; }
  // A launch of one rank on the node, up to and with this step.
  Process::Options Client(int node, std::uint64_t steps, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--promises", PromisesOf(node), "--mib",
                                          "8",          "--steps",        std::to_string(steps)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Process::Options client = cluster_->node(node).Client("tests/integration/crash_client", std::move(arguments));
    client.environment["CAIRN_PREFIX"] = prefix();
    return client;
  }
  // The same to its end; what it says.
  std::string Compute(int node, std::uint64_t steps, std::vector<std::string> more = {"--wait-busy"}) {
    const Ending ending = cluster_->Run(node, Client(node, steps, std::move(more)));
    EXPECT_EQ(ending.exit_code, 0) << node << ": " << ending.output;
    return ending.output;
  }
  static std::string Resumed(std::uint64_t step, std::uint64_t dataset, int tier) {
    return "resumed " + std::to_string(step) + " " + std::to_string(dataset) + " " + std::to_string(tier);
  }
  struct Point {
    std::uint64_t step = 0, dataset = 0;  // 0: it began anew
    int tier = 0;
  };
  static Point PointOf(const std::string& said) {
    Point point;
    if (said.starts_with("fresh")) return point;
    EXPECT_EQ(std::sscanf(said.c_str(), "resumed %lu %lu %d", &point.step, &point.dataset, &point.tier), 3) << said;
    return point;
  }
  // dataset -> step, of all clients on the node so far.
  std::map<std::uint64_t, std::uint64_t> Promised(int node, const std::string& kind) {
    return ReadPromises(PromisesOf(node)).by_kind[kind];
  }
  // The newest that the node's clients were promised at `local`.
  std::uint64_t Newest(int node) { return Promised(node, "local").rbegin()->first; }
  std::string Cairn(int node, std::vector<std::string> arguments) {
    const Ending ending = cluster_->Run(node, cluster_->node(node).Client("client/cli/cairn", std::move(arguments)));
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
    return ending.output;
  }
  // Until the daemons of all nodes know each other, and have links. False: not within a minute.
  bool AwaitLinked() {
    std::set<int> nodes;
    for (int node = 1; node <= cluster_->nodes(); ++node) nodes.insert(node);
    return AwaitLinked(nodes);
  }
  // The same of these nodes.
  bool AwaitLinked(const std::set<int>& nodes) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    auto next = nodes.begin();
    while (next != nodes.end() && std::chrono::steady_clock::now() < end) {
      LetItWorkFor(std::chrono::milliseconds(50));
      if (IsLinked(*next, nodes)) ++next;
    }
    return next == nodes.end();
  }
  // A node that was lost may not count as missing yet: these are asked for by name.
  bool IsLinked(int node, const std::set<int>& nodes) {
    const std::string said = Cairn(node, {"nodes", prefix(), "--json"});
    const nlohmann::json answer = nlohmann::json::parse(said, nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object() || answer["runs"].empty()) return false;
    const nlohmann::json& run = answer["runs"][0];
    std::set<std::string> linked;
    for (const nlohmann::json& row : run["nodes"]) {
      if (!row["missing"]) linked.insert(row["host"]);
    }
    return run["attached"] &&
           std::ranges::all_of(nodes, [&linked](int other) { return linked.contains(Cluster::host(other)); });
  }

  std::string prefix() const { return prefix_.empty() ? cluster_->prefix() : prefix_; }

  std::unique_ptr<Cluster> cluster_;
  std::string prefix_;  // of the run, if it is not the cluster's
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_JOBS_ON_NODES_H_
