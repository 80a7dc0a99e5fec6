// This daemon among those that serve a run, for the tests of daemon/core/nodes.h. The prefix is in memory, the network
// a simulated one.
#ifndef CAIRN_TESTS_DAEMON_CORE_NODES_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_CORE_NODES_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/core/holdings.h"
#include "daemon/core/nodes.h"
#include "storage/base/status.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/daemon/core/fake_access.h"
#include "tests/daemon/peers/sim_network.h"
#include "tests/support/status_matchers.h"

namespace cairn {

class NodesTest : public ::testing::Test {
 protected:
  static constexpr char kPath[] = "/prefix";
  inline static const std::string kNode = std::string(32, 'a'), kOtherNode = std::string(32, 'b');
  static constexpr char kOtherAddress[] = "10.0.0.2:17600";
  static constexpr char kFolder[] = "/cache/me/scr.heat-01234567";

  void SetUp() override {
    by_hand_.context.cache_id = kNode;
    by_hand_.context.incarnation = 7;
    auto prefix = Prefix::Open(by_hand_.prefix_disk, kPath);
    ASSERT_OK(prefix);
    access_.run = run_ = (*prefix)->run();
    ASSERT_OK(access_.Open(by_hand_.loop, kNode, 7));
    gate_ = std::make_unique<PrefixGate>(by_hand_.context, run_, name_, kPath, ledger_,
                                         PrefixGate::Reports{[] {}, [this] { nodes_->Leave(); }, [] {}});
    nodes_ = std::make_unique<Nodes>(
        by_hand_.context,
        Nodes::Given{run_, name_, ledger_, *gate_,
                     [](const peer::Question&, const Questions::Then& then) { then(NotFound("nothing here")); },
                     kFolder, [](Relay*) {}},
        [this] { ++left_; });
  }
  void TearDown() override {
    if (other_) other_->nodes.Stop();
    nodes_->Stop();
  }

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

  // Another daemon of the run, on another node; on the same strand and prefix.
  struct Other {
    explicit Other(NodesTest& test)
        : access(test.network_, kOtherAddress),
          context{.env = EnvironmentOf(test),
                  .config = {},
                  .cache_id = kOtherNode,
                  .incarnation = 8,
                  .warnings = test.by_hand_.context.warnings,
                  .transfers = test.by_hand_.context.transfers},
          gate(context, test.run_, test.name_, kPath, ledger, PrefixGate::Reports{[] {}, [] {}, [] {}}),
          nodes(context,
                Nodes::Given{
                    test.run_, test.name_, ledger, gate,
                    [this](const peer::Question& question, const Questions::Then& then) { then(answer(question)); },
                    kFolder, [](Relay*) {}},
                [] {}) {
      access.run = test.run_;
      EXPECT_OK(access.Open(test.by_hand_.loop, kOtherNode, 8));
    }
    Environment EnvironmentOf(NodesTest& test) {
      Environment environment = test.by_hand_.context.env;
      environment.peers = &access;
      environment.process.host = "other";
      return environment;
    }

    FakeAccess access;
    Context context;
    Ledger ledger{[](const DatasetPtr&, const std::string&) {}};
    PrefixGate gate;
    std::function<absl::StatusOr<peer::Answer>(const peer::Question&)> answer = [this](const peer::Question& question) {
      peer::Answer answered;
      if (question.has_holdings()) {
        *answered.mutable_holdings() = HoldingsOf(ledger, {});
      } else {
        answered.mutable_show()->mutable_dataset()->set_dataset(question.show().dataset());
      }
      return answered;
    };
    Nodes nodes;
  };
  // Both are members, and know each other.
  void StartBoth() {
    nodes_->Update();
    Pass(std::chrono::seconds(1));
    other_ = std::make_unique<Other>(*this);
    other_->nodes.Update();
    for (int i = 0; i < 100 && !(nodes_->has_others() && other_->nodes.has_others()); ++i) {
      Pass(std::chrono::milliseconds(100));
    }
    ASSERT_TRUE(nodes_->has_others());
    ASSERT_TRUE(other_->nodes.has_others());
  }

  SimNetwork network_{[] { return std::chrono::milliseconds(1); }};
  FakeAccess access_{network_, "10.0.0.1:17600"};
  ByHand by_hand_{&access_};
  const std::string name_ = "heat";
  RunId run_;
  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
  std::unique_ptr<PrefixGate> gate_;
  std::unique_ptr<Nodes> nodes_;
  std::unique_ptr<Other> other_;
  int left_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_NODES_FIXTURE_H_
