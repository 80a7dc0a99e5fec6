// This daemon among those that serve a run: daemon/core/nodes.h. The prefix is in memory, the network a simulated one.
#include "daemon/core/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "storage/base/status.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/daemon/peers/sim_network.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

constexpr char kPath[] = "/prefix";
const std::string kNode(32, 'a');

// A network without trust. It can refuse to let this daemon be a member.
class FakeAccess final : public PeerAccess {
 public:
  absl::Status Open(Loop& loop, const std::string& node, std::uint64_t incarnation) override {
    net_ = &network_.Open("10.0.0.1:17600", {.run = run, .node = node, .incarnation = incarnation}, loop);
    return absl::OkStatus();
  }
  PeerNet& net() override { return *net_; }
  absl::StatusOr<std::function<void()>> Enter(Disk&, const std::string& prefix, const RunId& of) override {
    ++entered;
    EXPECT_EQ(prefix, kPath);
    EXPECT_EQ(of, run);
    if (!refuse.ok()) return refuse;
    return [this] { member = true; };
  }
  void Leave(const RunId&) override { member = false; }

  RunId run;
  absl::Status refuse;
  int entered = 0;
  bool member = false;

 private:
  SimNetwork network_{[] { return std::chrono::milliseconds(1); }};
  PeerNet* net_ = nullptr;
};

class NodesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    by_hand_.context.cache_id = kNode;
    by_hand_.context.incarnation = 7;
    auto prefix = Prefix::Open(by_hand_.prefix_disk, kPath);
    ASSERT_OK(prefix);
    access_.run = run_ = (*prefix)->run();
    ASSERT_OK(access_.Open(by_hand_.loop, kNode, 7));
    gate_ = std::make_unique<PrefixGate>(by_hand_.context, run_, name_, kPath, ledger_,
                                         PrefixGate::Reports{[] {}, [this] { nodes_->Leave(); }, [] {}});
    nodes_ = std::make_unique<Nodes>(by_hand_.context, Nodes::Given{run_, name_, ledger_, *gate_}, [this] { ++left_; });
  }
  void TearDown() override { nodes_->Stop(); }

  void Pass(std::chrono::milliseconds time) {
    for (; time.count() > 0; time -= std::chrono::milliseconds(100)) {
      by_hand_.RunAll();
      by_hand_.Turn(std::chrono::milliseconds(100));
    }
    by_hand_.RunAll();
  }
  // It is the first daemon of the run, so that it coordinates it.
  bool Coordinates() const {
    const admin::RunNodes now = nodes_->Describe();
    return now.alone().empty() && now.attached() && now.coordinator() == kNode && now.nodes_size() == 1;
  }
  std::ptrdiff_t Warned(std::string_view text) const {
    return std::ranges::count_if(by_hand_.context.warnings->all(),
                                 [&](const std::string& warning) { return warning.find(text) != std::string::npos; });
  }

  FakeAccess access_;
  ByHand by_hand_{&access_};
  const std::string name_ = "heat";
  RunId run_;
  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
  std::unique_ptr<PrefixGate> gate_;
  std::unique_ptr<Nodes> nodes_;
  int left_ = 0;
};

TEST_F(NodesTest, ItIsAMemberOnceThePrefixWasReached) {
  EXPECT_TRUE(nodes_->out());
  nodes_->Update();
  EXPECT_FALSE(nodes_->out());
  EXPECT_THAT(nodes_->Describe().alone(), HasSubstr("not reached yet"));
  Pass(std::chrono::seconds(1));
  EXPECT_TRUE(access_.member);
  ASSERT_TRUE(Coordinates()) << nodes_->Describe().DebugString();
  const admin::NodeRow row = nodes_->Describe().nodes(0);
  EXPECT_TRUE(row.here());
  EXPECT_EQ(row.host(), "node");
  EXPECT_EQ(row.address(), "10.0.0.1:17600");
  nodes_->Update();
  Pass(std::chrono::seconds(30));
  EXPECT_EQ(access_.entered, 1);
}

TEST_F(NodesTest, WhatKeepsItOutIsToldOnceAndTriedAgain) {
  access_.refuse = DataLoss("/prefix/.cairn/authority: damaged");
  nodes_->Update();
  Pass(std::chrono::seconds(10));
  EXPECT_GT(access_.entered, 2);
  EXPECT_LT(access_.entered, 6) << "the pauses do not grow";
  EXPECT_EQ(Warned("no links to its other nodes: /prefix/.cairn/authority: damaged"), 1);
  EXPECT_EQ(nodes_->Describe().alone(), "/prefix/.cairn/authority: damaged");
  EXPECT_TRUE(nodes_->out()) << "a stop would wait for it";
  access_.refuse = absl::OkStatus();
  Pass(std::chrono::seconds(20));
  EXPECT_TRUE(Coordinates());
}

TEST_F(NodesTest, WhoLeavesSaysWhenItHasAndADaemonThatGoesAwayDoesNotComeBack) {
  nodes_->Update();
  Pass(std::chrono::seconds(1));
  ASSERT_TRUE(Coordinates());
  by_hand_.context.phase = Phase::kQuiescing;
  nodes_->Leave();
  EXPECT_FALSE(nodes_->out());
  Pass(std::chrono::seconds(1));
  EXPECT_TRUE(nodes_->out());
  EXPECT_EQ(left_, 1);
  EXPECT_FALSE(access_.member);
  nodes_->Update();
  Pass(std::chrono::seconds(10));
  EXPECT_TRUE(nodes_->out());
  EXPECT_EQ(access_.entered, 1);
}

TEST_F(NodesTest, AStopWhileItEntersWaitsForThat) {
  nodes_->Update();
  by_hand_.context.phase = Phase::kQuiescing;
  nodes_->Leave();
  EXPECT_FALSE(nodes_->out());
  by_hand_.RunAll();
  EXPECT_TRUE(nodes_->out());
  EXPECT_EQ(left_, 1);
  EXPECT_FALSE(access_.member);
}

TEST_F(NodesTest, ARunThatLivesThereNoMoreHasNoNodes) {
  nodes_->Update();
  Pass(std::chrono::seconds(1));
  ASSERT_TRUE(Coordinates());
  gate_->Replaced(RunId::Random());
  Pass(std::chrono::seconds(1));
  EXPECT_FALSE(access_.member);
  EXPECT_THAT(nodes_->Describe().alone(), HasSubstr("another run"));
  nodes_->Update();
  Pass(std::chrono::seconds(10));
  EXPECT_EQ(access_.entered, 1);
  gate_->LivesHere();
  nodes_->Update();
  Pass(std::chrono::seconds(30));
  EXPECT_TRUE(Coordinates());
}

}  // namespace
}  // namespace cairn
