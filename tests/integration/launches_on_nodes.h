// Jobs of several ranks on a cluster's nodes, each rank with the daemon of its own node, in one run; for tests.
#ifndef CAIRN_TESTS_INTEGRATION_LAUNCHES_ON_NODES_H_
#define CAIRN_TESTS_INTEGRATION_LAUNCHES_ON_NODES_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/jobs_on_nodes.h"

namespace cairn::testing {

inline const std::vector<std::string> kKeepAll = {"--flush-every", "0", "--cache-keep", "1000"};

class LaunchesOnNodes : public JobsOnNodes {
 protected:
  struct Job {
    std::vector<std::unique_ptr<Process>> ranks;
  };
  std::string PromisesOfRank(std::size_t rank) { return cluster_->folder() + "/promises-" + std::to_string(rank); }
  // Rank r on nodes[r].
  Job Start(const std::string& key, const std::vector<int>& nodes, std::uint64_t steps,
            const std::vector<std::string>& more = {}) {
    Job job;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      Process::Options client = Client(nodes[rank], steps, more);
      client.arguments[2] = PromisesOfRank(rank);  // of `--promises`
      client.environment["CAIRN_RANK"] = std::to_string(rank);
      client.environment["CAIRN_NRANKS"] = std::to_string(nodes.size());
      client.environment["CAIRN_LAUNCH"] = key;
      job.ranks.push_back(cluster_->StartProgram(nodes[rank], client));
    }
    return job;
  }
  // What each rank said.
  std::vector<std::string> End(Job job) {
    std::vector<std::string> said;
    for (const auto& rank : job.ranks) {
      const Ending ending = rank->Wait(std::chrono::seconds(180));
      EXPECT_EQ(ending.exit_code, 0) << ending.output;
      said.push_back(ending.output.substr(0, ending.output.find('\n')));
    }
    return said;
  }
  std::vector<std::string> Run(const std::string& key, const std::vector<int>& nodes, std::uint64_t steps,
                               const std::vector<std::string>& more = {"--wait-busy"}) {
    return End(Start(key, nodes, steps, more));
  }
  std::uint64_t NewestOfRank(std::size_t rank, const std::string& kind = "local") {
    const auto promised = ReadPromises(PromisesOfRank(rank)).by_kind[kind];
    return promised.empty() ? 0 : promised.rbegin()->first;
  }
  void ExpectNothingLost(std::size_t ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_THAT(ReadPromises(PromisesOfRank(rank)).lost, ::testing::IsEmpty()) << rank;
    }
  }
  // Parts of a dataset in a node's cache.
  int FilesOf(int node, std::uint64_t dataset) {
    int files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cluster_->node(node).cache())) {
      files += entry.path().filename().string().starts_with("Ckpt" + std::to_string(dataset) + "-Rank") ? 1 : 0;
    }
    return files;
  }
  // The node whose daemon has made the launch, which has begun.
  int HomeOf(int launch) {
    const std::string made = "launch " + std::to_string(launch) + " with";
    int home = 1;
    while (home < 3 && cluster_->node(home).DaemonLog().find(made) == std::string::npos) ++home;
    return home;
  }
  void StartThree(const std::vector<std::string>& flags = kKeepAll) {
    for (int node = 1; node <= 3; ++node) StartDaemon(node, flags);
  }
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_LAUNCHES_ON_NODES_H_
