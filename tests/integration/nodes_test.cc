// The daemons of a run on several nodes find each other, with nothing but the run's folder on the prefix: who there is,
// who coordinates, and what becomes of that when nodes die, come back, leave, or lose their cables. And they answer for
// all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/integration/harness.h"
#include "tests/support/cluster/cluster.h"

namespace cairn::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int kNodes = 4;
constexpr std::chrono::seconds kPatience(60);

class NodesTest : public ::testing::Test {
 protected:
  void SetUp() override { CAIRN_START_CLUSTER_OR_SKIP(cluster_, {.nodes = kNodes}); }

  void StartDaemon(int node) {
    ASSERT_TRUE(cluster_->node(node).StartDaemon({"--peers-interface", "eth0", "--peers-term", "2s"})) << node;
  }
  // A launch of one rank on the node, from its first to its last checkpoint.
  void Compute(int node, const std::string& prefix, int steps = 1) {
    Harness& harness = cluster_->node(node);
    Process::Options client = harness.Client(
        "tests/integration/crash_client",
        {"--promises", harness.folder() + "/promises", "--mib", "1", "--steps", std::to_string(steps), "--wait-busy"});
    client.environment["CAIRN_PREFIX"] = prefix;
    const Ending ending = cluster_->Run(node, client);
    ASSERT_EQ(ending.exit_code, 0) << node << ": " << ending.output;
  }
  // Each node's daemon has served the run.
  void StartAll() {
    for (int node = 1; node <= kNodes; ++node) {
      StartDaemon(node);
      Compute(node, cluster_->prefix());
    }
  }

  struct Row {
    std::string host;
    std::string state;
    std::uint64_t datasets = 0;
    std::int64_t since_us = 0;
  };
  struct View {
    std::uint64_t epoch = 0;
    std::string coordinator;  // its host, of an attached node
    std::string alone;
    std::map<std::string, Row> rows;  // by host
    std::set<std::string> linked() const {
      std::set<std::string> hosts;
      for (const auto& [host, row] : rows) {
        if (row.state != "missing") hosts.insert(host);
      }
      return hosts;
    }
  };
  Ending Cairn(int node, std::vector<std::string> arguments) {
    return cluster_->Run(node, cluster_->node(node).Client("client/cli/cairn", std::move(arguments)));
  }
  Ending AskNodes(int node, const std::string& prefix, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"nodes", prefix});
    return Cairn(node, std::move(arguments));
  }
  // Datasets by their numbers, each with the nodes in whose caches it is.
  std::map<std::uint64_t, std::set<std::string>> Caches(int node) {
    std::map<std::uint64_t, std::set<std::string>> caches;
    const Ending ending = Cairn(node, {"ls", cluster_->prefix(), "--json"});
    const json answer = json::parse(ending.output, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(answer.is_object()) << ending.output;
    if (!answer.is_object()) return caches;
    for (const json& row : answer["datasets"]) {
      std::set<std::string>& of = caches[row["dataset"]];
      for (const json& name : row.value("nodes", json::array())) of.insert(name);
    }
    return caches;
  }
  View Look(int node, const std::string& prefix) {
    const Ending ending = AskNodes(node, prefix, {"--json"});
    View view;
    const json answer = json::parse(ending.output, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(answer.is_object()) << ending.output;
    if (!answer.is_object()) return view;
    const json& run = answer["runs"][0];
    view.epoch = run["epoch"];
    view.alone = run["alone"];
    if (run["attached"]) view.coordinator = run["coordinator_host"];
    for (const json& row : run["nodes"]) {
      view.rows[row["host"]] = {.host = row["host"],
                                .state = row["missing"] ? "missing" : "linked",
                                .datasets = row["datasets"],
                                .since_us = row["since_us"]};
    }
    return view;
  }
  View Look(int node) { return Look(node, cluster_->prefix()); }

  // Looks again until it is so. What is waited for has no event that a test could hear.
  ::testing::AssertionResult Eventually(const std::function<bool()>& so) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      if (so()) return ::testing::AssertionSuccess();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return ::testing::AssertionFailure() << "not within " << kPatience.count() << " s";
  }
  // All of them, and nobody else, know just each other and one coordinator among them, of at least that epoch.
  bool Agree(const std::set<int>& nodes, std::uint64_t epoch_min = 1) {
    std::set<std::string> hosts;
    for (const int node : nodes) hosts.insert(Cluster::host(node));
    std::set<std::pair<std::uint64_t, std::string>> coordinators;
    for (const int node : nodes) {
      const View view = Look(node);
      if (view.epoch < epoch_min || !hosts.contains(view.coordinator) || view.linked() != hosts) return false;
      if (view.rows.size() != hosts.size()) return false;
      coordinators.insert({view.epoch, view.coordinator});
    }
    return coordinators.size() == 1;
  }
  int NodeOf(const std::string& host) { return std::stoi(host.substr(1)); }

  std::unique_ptr<Cluster> cluster_;
};

TEST_F(NodesTest, FindEachOtherAndTellWhatTheyHold) {
  StartAll();
  ASSERT_TRUE(Eventually([&] { return Agree({1, 2, 3, 4}); }));
  Compute(2, cluster_->prefix(), 3);
  EXPECT_TRUE(Eventually([&] { return Look(4).rows["n2"].datasets > Look(4).rows["n3"].datasets; }));
  const Ending shown = AskNodes(1, cluster_->prefix(), {});
  EXPECT_THAT(shown.output, HasSubstr("coordinated by n"));
  EXPECT_THAT(shown.output, HasSubstr("10.77.0.4:17600"));
}

TEST_F(NodesTest, EachAnswersForAllAndNamesWhoDoesNot) {
  StartDaemon(1);
  StartDaemon(2);
  Compute(1, cluster_->prefix());
  Compute(2, cluster_->prefix(), 3);  // it goes on where that one ended
  ASSERT_TRUE(Eventually([&] { return Agree({1, 2}); }));
  std::uint64_t of_2 = 0;
  ASSERT_TRUE(Eventually([&] {
    const auto caches = Caches(1);
    std::set<std::string> all;
    for (const auto& [dataset, nodes] : caches) {
      all.insert(nodes.begin(), nodes.end());
      if (nodes == std::set<std::string>{"n2"}) of_2 = dataset;
    }
    return all == std::set<std::string>{"n1", "n2"} && of_2 != 0 && caches == Caches(2);
  }));
  const std::string dataset = std::to_string(of_2);
  const json shown = json::parse(Cairn(1, {"show", cluster_->prefix(), dataset, "--json"}).output);
  EXPECT_EQ(shown["ranks"][0]["nodes"], json({"n2"})) << shown;
  const json status = json::parse(Cairn(1, {"status", "--json"}).output);
  ASSERT_EQ(status["runs"][0]["nodes"].size(), 2u) << status;
  EXPECT_EQ(status["runs"][0]["nodes"][1]["name"], "n2");
  EXPECT_GT(status["runs"][0]["nodes"][1]["datasets"], 0);
  EXPECT_EQ(Cairn(1, {"ls", cluster_->prefix(), "--this-node"}).output.find("IN CACHE OF"), std::string::npos);

  cluster_->PauseDaemon(2);
  const auto begin = std::chrono::steady_clock::now();
  const Ending silent = Cairn(1, {"ls", cluster_->prefix()});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(silent.exit_code, 0) << silent.output;
  EXPECT_THAT(silent.output, HasSubstr("n2 did not answer: "));
  cluster_->ResumeDaemon(2);
  EXPECT_TRUE(Eventually([&] { return Caches(1)[of_2].contains("n2"); }));
}

TEST_F(NodesTest, AnotherTakesOverWhenTheCoordinatorsNodeDiesAndItComesBackAsAMember) {
  StartAll();
  ASSERT_TRUE(Eventually([&] { return Agree({1, 2, 3, 4}); }));
  const View before = Look(1);
  const int lost = NodeOf(before.coordinator);
  const std::int64_t since_us = before.rows.at(before.coordinator).since_us;
  cluster_->PowerOff(lost);
  std::set<int> left = {1, 2, 3, 4};
  left.erase(lost);
  ASSERT_TRUE(Eventually([&] { return Agree(left, before.epoch + 1); }));
  cluster_->PowerOn(lost);
  StartDaemon(lost);
  ASSERT_TRUE(Eventually([&] { return Agree({1, 2, 3, 4}, before.epoch + 1); }));
  EXPECT_GT(Look(lost).rows.at(Cluster::host(lost)).since_us, since_us);
}

TEST_F(NodesTest, ADaemonThatIsStoppedLeavesAtOnce) {
  StartAll();
  ASSERT_TRUE(Eventually([&] { return Agree({1, 2, 3, 4}); }));
  const int coordinator = NodeOf(Look(1).coordinator);
  const int leaves = coordinator == 4 ? 3 : 4, stays = coordinator == 1 ? 2 : 1;
  EXPECT_EQ(cluster_->node(leaves).StopDaemon().exit_code, 0);
  EXPECT_TRUE(cluster_->node(stays).WaitForLog("has left"));
  EXPECT_EQ(cluster_->node(coordinator).StopDaemon().exit_code, 0);
  std::set<int> left = {1, 2, 3, 4};
  left.erase(leaves);
  left.erase(coordinator);
  EXPECT_TRUE(Eventually([&] { return Agree(left); }));
}

TEST_F(NodesTest, ACableThatIsCutAndPluggedInAgainCostsNobodyItsPlace) {
  StartAll();
  ASSERT_TRUE(Eventually([&] { return Agree({1, 2, 3, 4}); }));
  const View before = Look(1);
  const int cut = before.coordinator == "n4" ? 3 : 4, other = cut == 4 ? 3 : 4;
  cluster_->LoseWhatItSends(cut);
  ASSERT_TRUE(Eventually([&] {
    const View view = Look(other);
    const auto row = view.rows.find(Cluster::host(cut));
    return row == view.rows.end() || row->second.state == "missing";
  }));
  cluster_->Heal();
  EXPECT_TRUE(Eventually([&] { return Agree({1, 2, 3, 4}); }));
  EXPECT_EQ(Look(1).coordinator, before.coordinator);
}

TEST_F(NodesTest, ACopyOfThePrefixHasNodesOfItsOwn) {
  StartDaemon(1);
  StartDaemon(2);
  Compute(1, cluster_->prefix());
  const std::string copy = cluster_->folder() + "/copy";
  ASSERT_TRUE(Eventually([&] {  // the daemon works there still: what is being copied may have another name by then
    std::error_code failed;
    std::filesystem::remove_all(copy);
    std::filesystem::copy(cluster_->prefix(), copy, std::filesystem::copy_options::recursive, failed);
    return !failed;
  }));
  Compute(2, copy);
  ASSERT_TRUE(Eventually([&] { return Look(1).coordinator == "n1"; }));
  ASSERT_TRUE(Eventually([&] { return Look(2, copy).coordinator == "n2"; }));
  EXPECT_EQ(Look(1).rows.size(), 1u);
  EXPECT_EQ(Look(2, copy).rows.size(), 1u);
}

TEST_F(NodesTest, WithoutAnInterfaceThereAreNoLinksAndTheCommandSaysSo) {
  ASSERT_TRUE(cluster_->node(1).StartDaemon());
  Compute(1, cluster_->prefix());
  EXPECT_THAT(AskNodes(1, cluster_->prefix(), {}).output, HasSubstr("peers.interface is not set"));
}

TEST_F(NodesTest, AnInterfaceThatIsNoneIsSaidAtTheStart) {
  const Ending ending = cluster_->node(1).RunDaemon({"--peers-interface", "ib7"});
  EXPECT_EQ(ending.exit_code, 1) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("ib7"));
}

}  // namespace
}  // namespace cairn::testing
