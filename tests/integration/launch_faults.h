// A launch over three nodes, of which daemons are killed: what is drawn from the seed, and what ranks say at their
// restart; for tests.
#ifndef CAIRN_TESTS_INTEGRATION_LAUNCH_FAULTS_H_
#define CAIRN_TESTS_INTEGRATION_LAUNCH_FAULTS_H_

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/launches_on_nodes.h"

namespace cairn::testing {

inline constexpr std::chrono::seconds kDeadline(60);

class LaunchFaultsTest : public LaunchesOnNodes {
 protected:
  void SetUp() override {
    LaunchesOnNodes::SetUp();
    std::cerr << "CAIRN_TEST_SEED=" << seed_ << "\n";
  }
  static bool IsSoak() { return std::getenv("CAIRN_SOAK") != nullptr; }
  std::uint64_t Draw(std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random_);
  }
  std::uint64_t NewestPromised(const std::string& kind, std::size_t ranks = 3) {
    std::uint64_t newest = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) newest = std::max(newest, NewestOfRank(rank, kind));
    return newest;
  }
  std::uint64_t NewestStepCaptured(std::size_t ranks = 3) {
    std::uint64_t newest = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      newest = std::max(newest, NewestStep(ReadPromises(PromisesOfRank(rank)).by_kind["captured"]));
    }
    return newest;
  }
  void StartMissing(const std::vector<std::string>& flags = kKeepAll) {
    for (int node = 1; node <= cluster_->nodes(); ++node) {
      if (cluster_->node(node).daemon() == nullptr) StartDaemon(node, flags);
    }
  }
  // Until each rank has said from where it goes on. False: one has ended without that.
  static bool AllBegun(const Job& job) {
    return std::ranges::all_of(job.ranks, [](const auto& rank) { return rank->WaitForOutput("\n", kDeadline); });
  }
  // What each rank has said; "" of one that was killed before.
  static std::vector<std::string> Kill(const Job& job) {
    for (const auto& rank : job.ranks) rank->Signal(SIGKILL);
    std::vector<std::string> said;
    for (const auto& rank : job.ranks) {
      const std::string output = rank->Wait(kDeadline).output;
      said.push_back(output.substr(0, output.find('\n')));
    }
    return said;
  }
  // Its daemon, or another rank's, was killed while it began. Whatever else it says is for PointOf to look at.
  static bool WasKilledBefore(const std::string& said) {
    if (said.empty()) return true;
    for (const int code : {CAIRN_FENCED, CAIRN_DEADLINE_EXCEEDED, CAIRN_UNAVAILABLE}) {
      for (const char* const call : {"open", "resume"}) {
        if (said.starts_with(fmt::format("{}: {} ", call, code))) return true;
      }
    }
    return false;
  }
  int FollowerOf(int launch) { return HomeOf(launch) == 1 ? 2 : 1; }

  const std::uint64_t seed_ = TestSeed();
  std::mt19937_64 random_{seed_};
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_LAUNCH_FAULTS_H_
