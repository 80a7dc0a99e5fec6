// What happens to cables, and that it can be undone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cluster/probe.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CablesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CAIRN_START_CLUSTER_OR_SKIP(cluster, {.nodes = 4});
    for (int node = 1; node <= 4; ++node) servers.push_back(Server(*cluster, node));
    // A fault in one direction meets nodes that know each other.
    ExpectAllReachEachOther();
  }

  void ExpectAllReachEachOther() {
    for (int from = 1; from <= 4; ++from) {
      for (int to = 1; to <= 4; ++to) EXPECT_TRUE(Reaches(*cluster, from, to)) << from << " to " << to;
    }
  }
  void ExpectHealed() {
    cluster->Heal();
    ExpectAllReachEachOther();
  }
  // Does a datagram arrive?
  bool IsHeard(int from, int to) {
    const auto ear = Listener(*cluster, to, {"hear", "7001", "2"});
    cluster->Run(from, Probe({"say", Cluster::address(to), "7001"}));
    return ear->Wait().output.find("heard") != std::string::npos;
  }
  std::string Carrier(int node) { return cluster->Run(node, Program({"ip", "link", "show", "eth0"})).output; }

  std::unique_ptr<Cluster> cluster;
  std::vector<std::unique_ptr<Process>> servers;
};

TEST_F(CablesTest, ACutCableLosesEverythingAndBothEndsSeeIt) {
  cluster->Cut(2);
  EXPECT_THAT(Carrier(2), HasSubstr("NO-CARRIER"));
  EXPECT_TRUE(DoesNotReach(*cluster, 2, 1));
  EXPECT_TRUE(DoesNotReach(*cluster, 1, 2));
  EXPECT_TRUE(Reaches(*cluster, 2, 2));
  EXPECT_TRUE(Reaches(*cluster, 1, 3));
  cluster->Heal(2);
  EXPECT_THAT(Carrier(2), Not(HasSubstr("NO-CARRIER")));
  ExpectAllReachEachOther();
}

TEST_F(CablesTest, WhatANodeSendsIsLostAndWhatItReceivesIsNot) {
  cluster->LoseWhatItSends(2);
  EXPECT_FALSE(IsHeard(2, 1));
  EXPECT_TRUE(IsHeard(1, 2));
  EXPECT_THAT(Carrier(2), Not(HasSubstr("NO-CARRIER")));
  cluster->Heal(2);
  EXPECT_TRUE(IsHeard(2, 1));
}

TEST_F(CablesTest, WhatANodeReceivesIsLostAndWhatItSendsIsNot) {
  cluster->LoseWhatItReceives(2);
  EXPECT_FALSE(IsHeard(1, 2));
  EXPECT_TRUE(IsHeard(2, 1));
  cluster->Heal(2);
  EXPECT_TRUE(IsHeard(1, 2));
}

TEST_F(CablesTest, TwoSeveredNodesReachTheOthers) {
  cluster->Sever(3, 1);
  for (const auto& [one, other] : {std::pair(1, 3), std::pair(3, 1)}) {
    EXPECT_TRUE(DoesNotReach(*cluster, one, other));
    EXPECT_FALSE(IsHeard(one, other));
    EXPECT_TRUE(Reaches(*cluster, one, 2));
    EXPECT_TRUE(Reaches(*cluster, 2, one));
  }
  // They are when one of them was off.
  cluster->PowerOff(3);
  cluster->PowerOn(3);
  servers[2] = Server(*cluster, 3);
  EXPECT_TRUE(DoesNotReach(*cluster, 3, 1));
  EXPECT_TRUE(Reaches(*cluster, 3, 2));
  ExpectHealed();
}

TEST_F(CablesTest, APartitionHasGroupsAndTheRest) {
  cluster->Partition({{1, 2}});
  EXPECT_TRUE(Reaches(*cluster, 1, 2));
  EXPECT_TRUE(Reaches(*cluster, 3, 4));
  EXPECT_TRUE(DoesNotReach(*cluster, 1, 3));
  EXPECT_TRUE(DoesNotReach(*cluster, 4, 2));
  cluster->Partition({{1}, {2, 3}});
  EXPECT_TRUE(Reaches(*cluster, 2, 3));
  EXPECT_TRUE(DoesNotReach(*cluster, 1, 2));
  EXPECT_TRUE(DoesNotReach(*cluster, 1, 4));
  EXPECT_TRUE(DoesNotReach(*cluster, 3, 4));
  ExpectHealed();
}

TEST_F(CablesTest, AThrottledCableLetsThroughWhatItIsTold) {
  // 1 MiB at 4 Mbit/s takes two seconds, but what the burst lets through.
  constexpr int kBytes = 1 << 20, kMsLeast = 1500;
  cluster->Throttle(2, 4'000'000);
  EXPECT_GE(Dial(*cluster, 1, 2, kBytes), kMsLeast);
  EXPECT_GE(Dial(*cluster, 2, 1, kBytes), kMsLeast);
  cluster->Heal(2);
  EXPECT_THAT(cluster->Run(2, Program({"tc", "qdisc", "show"})).output, Not(HasSubstr("tbf")));
  ExpectAllReachEachOther();
}

TEST_F(CablesTest, ADelayedCableIsLongerInEachDirection) {
  cluster->Delay(2, std::chrono::milliseconds(200));
  // There and back for the connection, and again for bytes and answer.
  EXPECT_GE(Dial(*cluster, 1, 2), 800);
  EXPECT_GE(Dial(*cluster, 2, 1), 800);
  // Large segments and their checksums survive the relay.
  EXPECT_GE(Dial(*cluster, 2, 1, 4 << 20, 100), 800);
  cluster->Delay(2, std::chrono::milliseconds(0));
  const int direct = Dial(*cluster, 1, 2);
  EXPECT_GE(direct, 0);
  EXPECT_LT(direct, 800);
}

TEST_F(CablesTest, FaultsOfOneCableAreCombinedAndOutlastThePower) {
  cluster->Delay(2, std::chrono::milliseconds(100));
  cluster->Throttle(2, 4'000'000);
  cluster->Partition({{1, 2}});
  cluster->PowerOff(2);
  cluster->PowerOn(2);
  servers[1] = Server(*cluster, 2);
  EXPECT_GE(Dial(*cluster, 1, 2, 1 << 20), 1500 + 400);
  EXPECT_TRUE(DoesNotReach(*cluster, 2, 3));
  cluster->Cut(2);
  EXPECT_TRUE(DoesNotReach(*cluster, 1, 2));
  // All but the partition.
  cluster->Heal(2);
  EXPECT_TRUE(Reaches(*cluster, 1, 2));
  EXPECT_TRUE(DoesNotReach(*cluster, 2, 3));
  ExpectHealed();
}

}  // namespace
}  // namespace cairn::testing
