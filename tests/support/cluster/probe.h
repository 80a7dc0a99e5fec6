// Programs that tell who reaches whom (probe.py), on the nodes of a cluster.
#ifndef CAIRN_TESTS_SUPPORT_CLUSTER_PROBE_H_
#define CAIRN_TESTS_SUPPORT_CLUSTER_PROBE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cluster/cluster.h"

namespace cairn::testing {

inline Process::Options Program(std::vector<std::string> arguments) {
  return {.arguments = std::move(arguments), .environment = {}, .working_directory = {}};
}

inline Process::Options Probe(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"/usr/bin/python3", DataPath("tests/support/cluster/probe.py")});
  return Program(std::move(arguments));
}

// One that already listens.
inline std::unique_ptr<Process> Listener(Cluster& cluster, int node, std::vector<std::string> arguments) {
  auto listener = cluster.StartProgram(node, Probe(std::move(arguments)));
  EXPECT_TRUE(listener != nullptr && listener->WaitForOutput("listening")) << Cluster::host(node);
  return listener;
}
inline std::unique_ptr<Process> Server(Cluster& cluster, int node) {
  return Listener(cluster, node, {"serve", "7000"});
}

// Milliseconds until the server on `to` has had so many bytes from `from`; -1 if it has not within so many seconds.
inline int Dial(Cluster& cluster, int from, int to, int bytes = 1, int seconds = 30) {
  const std::string output =
      cluster.Run(from, Probe({"dial", Cluster::address(to), "7000", std::to_string(bytes), std::to_string(seconds)}))
          .output;
  return output.starts_with("reached ") ? std::atoi(output.c_str() + 8) : -1;
}
inline bool Reaches(Cluster& cluster, int from, int to) {
  return Dial(cluster, from, to) >= 0;
}
// Time enough for what would come.
inline bool DoesNotReach(Cluster& cluster, int from, int to) {
  return Dial(cluster, from, to, 1, /*seconds=*/1) < 0;
}

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_CLUSTER_PROBE_H_
