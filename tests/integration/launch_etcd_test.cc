// A launch over three nodes whose arbiter is an etcd on one of them, over TLS: while it is away, checkpoints come to
// `local` and to the prefix, and only those who begin wait. Long with CAIRN_SOAK: a minute.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/launches_on_nodes.h"
#include "tests/support/runfiles/runfiles.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kEtcdNode = 3;

class LaunchEtcdTest : public LaunchesOnNodes {
 protected:
  void SetUp() override {
    LaunchesOnNodes::SetUp();
    if (cluster_ == nullptr) return;
    const std::string command = Runfile("deploy/make-certs.sh") + " " + Certificates() + " " +
                                Cluster::address(kEtcdNode) + " >" + cluster_->folder() + "/certs.log 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0);
    ASSERT_NO_FATAL_FAILURE(StartEtcd());
    std::vector<std::string> flags = kKeepAll;
    flags.insert(flags.end(), {"--arbiter-kind", "etcd", "--arbiter-endpoints", Endpoint(), "--arbiter-tls-ca",
                               Certificates() + "/ca.pem", "--arbiter-tls-cert", Certificates() + "/client.pem",
                               "--arbiter-tls-key", Certificates() + "/client.key", "--lease-term", "4s"});
    StartThree(flags);
  }
  void TearDown() override { etcd_ = nullptr; }

  std::string Certificates() const { return cluster_->folder() + "/certs"; }
  static std::string Endpoint() { return fmt::format("https://{}:2379", Cluster::address(kEtcdNode)); }
  // What it knew before stays. Daemons wait for it by themselves.
  void StartEtcd() {
    const std::string folder = cluster_->folder() + "/etcd";
    etcd_ = cluster_->StartProgram(
        kEtcdNode,
        {.arguments = {"/usr/bin/etcd", "--name=m0", "--data-dir=" + folder, "--listen-client-urls=" + Endpoint(),
                       "--advertise-client-urls=" + Endpoint(), "--listen-peer-urls=http://127.0.0.1:2380",
                       "--initial-advertise-peer-urls=http://127.0.0.1:2380",
                       "--initial-cluster=m0=http://127.0.0.1:2380", "--client-cert-auth",
                       "--trusted-ca-file=" + Certificates() + "/ca.pem",
                       "--cert-file=" + Certificates() + "/server.pem", "--key-file=" + Certificates() + "/server.key",
                       "--logger=zap", "--log-level=warn", "--log-outputs=" + folder + ".log"},
         .environment = {},
         .working_directory = cluster_->folder()});
    ASSERT_NE(etcd_, nullptr);
  }
  void KillEtcd() {
    etcd_->Signal(SIGKILL);
    etcd_->Wait(std::chrono::seconds(10));
    etcd_ = nullptr;
  }
  static std::chrono::seconds Away() { return std::chrono::seconds(std::getenv("CAIRN_SOAK") != nullptr ? 60 : 8); }
  std::size_t Promised(const std::string& kind) { return ReadPromises(PromisesOfRank(0)).by_kind[kind].size(); }

  std::unique_ptr<Process> etcd_;
};

TEST_F(LaunchEtcdTest, WithoutTheArbiterCheckpointsGoOnAndOnlyWhoBeginsWaits) {
  const std::vector<int> nodes = {1, 2, 3};
  Job job = Start("a", nodes, 100'000, {"--no-check", "--flush-every", "2"});
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(0), "prefix", 2));
  KillEtcd();
  const std::size_t local = Promised("local"), prefix = Promised("prefix");
  std::this_thread::sleep_for(Away());
  EXPECT_GT(Promised("local"), local + 3);
  EXPECT_GT(Promised("prefix"), prefix + 1);
  for (const auto& rank : job.ranks) rank->Signal(SIGKILL);
  for (const auto& rank : job.ranks) rank->Wait(std::chrono::seconds(60));
  const std::uint64_t newest = NewestOfRank(0, "prefix");
  Job next = Start("b", nodes, 1, {"--wait-busy", "--no-check"});  // no step is left
  std::this_thread::sleep_for(std::chrono::seconds(2));
  for (const auto& rank : next.ranks) EXPECT_TRUE(rank->running()) << "it waits";
  ASSERT_NO_FATAL_FAILURE(StartEtcd());
  for (const std::string& said : End(std::move(next))) EXPECT_GE(PointOf(said).dataset, newest) << said;
  ExpectNothingLost(nodes.size());
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    EXPECT_THAT(ReadPromises(PromisesOfRank(rank)).refused, IsEmpty()) << rank;
  }
  EXPECT_THAT(Cairn(1, {"run", "show", JobsOnNodes::prefix()}), HasSubstr("etcd"));
}

}  // namespace
}  // namespace cairn::testing
