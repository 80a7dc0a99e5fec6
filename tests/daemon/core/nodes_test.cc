// This daemon among those that serve a run: daemon/core/nodes.h. The prefix is in memory, the network a simulated one.
#include "daemon/core/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/holdings.h"
#include "storage/base/status.h"
#include "storage/place/prefix/coordinator_lease.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/daemon/core/fake_access.h"
#include "tests/daemon/peers/sim_network.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

constexpr char kPath[] = "/prefix";
const std::string kNode(32, 'a'), kOtherNode(32, 'b');
constexpr char kOtherAddress[] = "10.0.0.2:17600";
constexpr char kFolder[] = "/cache/me/scr.heat-01234567";

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
  // The same while nothing comes back from the prefix.
  void PassWithoutPrefix(std::chrono::milliseconds time) {
    const auto run = [this] {
      while (by_hand_.strand.Step() || by_hand_.cache.Step() || by_hand_.others.Step()) {
      }
    };
    for (; time.count() > 0; time -= std::chrono::milliseconds(100)) {
      run();
      by_hand_.Turn(std::chrono::milliseconds(100));
    }
    run();
  }
  // A daemon that nobody can reach takes over, and is gone.
  void MakeEpoch(std::uint64_t epoch) {
    auto prefix = Prefix::Open(by_hand_.prefix_disk, kPath);
    ASSERT_OK(prefix);
    Arbiter& arbiter = (*prefix)->arbiter();
    const auto found = coordinator_lease::Look(arbiter);
    ASSERT_OK(found);
    CoordinatorRecord record{.run = run_,
                             .epoch = epoch - 1,
                             .counter = 1,
                             .node = std::string(32, 'd'),
                             .incarnation = 1,
                             .host = "gone",
                             .address = "10.0.0.99:17600",
                             .term_ms = 12'000};
    ASSERT_OK(coordinator_lease::Take(arbiter, *found, record));
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
  std::shared_ptr<bool> WhenKnown(const NodeId& node) {
    auto known = std::make_shared<bool>(false);
    nodes_->WhenKnown(node, [known] { *known = true; });
    return known;
  }
  // Whether all were known at the end; none: it has not come yet.
  std::shared_ptr<std::optional<bool>> WhenAllKnown(const NodeId& node = "") {
    auto known = std::make_shared<std::optional<bool>>();
    nodes_->WhenAllKnown(node, [known](bool others_known) { *known = others_known; });
    EXPECT_FALSE(known->has_value()) << "inside the call";
    return known;
  }
  // The other daemon coordinates the run, and its process dies. Its lease tells of so many members.
  void LoseACoordinator(std::uint32_t members) {
    other_ = std::make_unique<Other>(*this);
    other_->nodes.Update();
    Pass(std::chrono::seconds(3));
    ASSERT_EQ(other_->nodes.Describe().coordinator(), kOtherNode);
    other_->nodes.Stop();
    network_.Die(kOtherAddress);
    auto prefix = Prefix::Open(by_hand_.prefix_disk, kPath);
    ASSERT_OK(prefix);
    const auto found = coordinator_lease::Look((*prefix)->arbiter());
    ASSERT_OK(found);
    ASSERT_TRUE(found->record);
    CoordinatorRecord record = *found->record;
    EXPECT_EQ(record.members.count, 1U);
    record.members.count = members;
    ASSERT_OK(coordinator_lease::Renew((*prefix)->arbiter(), record));
  }
  std::shared_ptr<std::optional<Nodes::Holdings>> AskHoldings() {
    auto result = std::make_shared<std::optional<Nodes::Holdings>>();
    nodes_->AskHoldings([result](Nodes::Holdings holdings) { *result = std::move(holdings); });
    EXPECT_FALSE(result->has_value()) << "inside the call";
    return result;
  }
  std::shared_ptr<std::optional<std::vector<Nodes::Said>>> AskOthers() {
    auto result = std::make_shared<std::optional<std::vector<Nodes::Said>>>();
    peer::Question question;
    question.mutable_show()->set_dataset(42);
    nodes_->AskOthers(question, [result](std::vector<Nodes::Said> said) { *result = std::move(said); });
    EXPECT_FALSE(result->has_value()) << "inside the call";
    return result;
  }
  static Dataset WholeInCache(DatasetId id) {
    Dataset dataset;
    dataset.id = id;
    dataset.nranks = 1;
    dataset.cache = Place::kWhole;
    dataset.parts.resize(1);
    dataset.parts[0].state = Part::State::kStored;
    return dataset;
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

TEST_F(NodesTest, ItIsAMemberOnceThePrefixWasReached) {
  EXPECT_TRUE(nodes_->out());
  nodes_->Update();
  EXPECT_THAT(nodes_->Describe().alone(), HasSubstr("not reached yet"));
  Pass(std::chrono::seconds(1));
  EXPECT_TRUE(access_.member);
  EXPECT_EQ(access_.entered_at, kPath);
  EXPECT_EQ(access_.bulk().served, kFolder);
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
  EXPECT_EQ(access_.bulk().served, "");
  nodes_->Update();
  Pass(std::chrono::seconds(10));
  EXPECT_TRUE(nodes_->out());
  EXPECT_EQ(access_.entered, 1);
}

TEST_F(NodesTest, AStopWhileItEntersWaitsForNoPrefix) {
  nodes_->Update();
  by_hand_.context.phase = Phase::kQuiescing;
  nodes_->Leave();
  EXPECT_TRUE(nodes_->out()) << "the prefix may hang";
  by_hand_.RunAll();
  EXPECT_TRUE(nodes_->out());
  EXPECT_FALSE(access_.member);
}

// A stop that is not waited for: what was left to be said to the others is not said by somebody who is no more.
TEST_F(NodesTest, WhoLeavesMayBeGoneBeforeItHasLeft) {
  StartBoth();
  for (Nodes* nodes : {&other_->nodes, nodes_.get()}) {
    nodes->Leave();
    nodes->Stop();
    EXPECT_TRUE(nodes->out());
  }
  Pass(std::chrono::seconds(10));
  EXPECT_EQ(left_, 0);
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

// --- Who is waited for ---

TEST_F(NodesTest, WhoAsksIsToldOnceTheOthersAreKnown) {
  const auto alone = WhenKnown("");
  Pass(std::chrono::seconds(1));
  EXPECT_TRUE(*alone) << "it coordinates";
  StartBoth();
  const auto both = WhenKnown(kOtherNode), myself = WhenKnown(kNode);
  EXPECT_FALSE(*both) << "inside the call";
  by_hand_.RunAll();
  EXPECT_TRUE(*both);
  EXPECT_TRUE(*myself);
}

TEST_F(NodesTest, ANodeThatComesIsWaitedFor) {
  nodes_->Update();
  Pass(std::chrono::seconds(1));
  const auto known = WhenKnown(kOtherNode);
  Pass(std::chrono::milliseconds(500));
  EXPECT_FALSE(*known);
  StartBoth();
  Pass(std::chrono::milliseconds(100));
  EXPECT_TRUE(*known);
  EXPECT_TRUE(nodes_->has_others());
}

TEST_F(NodesTest, ANodeThatDoesNotComeIsWaitedForSoLong) {
  nodes_->Update();
  Pass(std::chrono::seconds(1));
  const auto known = WhenKnown(kOtherNode);
  Pass(std::chrono::milliseconds(1'800));
  EXPECT_FALSE(*known);
  Pass(std::chrono::milliseconds(400));
  EXPECT_TRUE(*known);
}

TEST_F(NodesTest, ACoordinatorThatIsGoneIsWaitedForUntilItIsFollowedAndTheOthersMustHaveCome) {
  ASSERT_NO_FATAL_FAILURE(LoseACoordinator(3));
  const auto all = WhenAllKnown();
  const auto one = WhenKnown("");
  Pass(std::chrono::milliseconds(4'900));
  EXPECT_FALSE(*one);
  Pass(std::chrono::milliseconds(200));
  EXPECT_TRUE(*one) << "it has asked for no others";
  Pass(std::chrono::milliseconds(6'700));
  EXPECT_FALSE(Coordinates());
  Pass(std::chrono::milliseconds(600));
  EXPECT_TRUE(Coordinates());
  EXPECT_FALSE(all->has_value());
  const auto later = WhenKnown("");
  Pass(std::chrono::milliseconds(100));
  EXPECT_TRUE(*later);
  Pass(std::chrono::milliseconds(5'300));
  EXPECT_FALSE(all->has_value());
  Pass(std::chrono::milliseconds(800));
  ASSERT_TRUE(all->has_value());
  EXPECT_FALSE(**all) << "they have not";
  const auto next = WhenAllKnown();
  Pass(std::chrono::milliseconds(100));
  EXPECT_EQ(*next, std::optional(false)) << "nor are they waited for once more";
}

TEST_F(NodesTest, ACoordinatorThatIsGoneAndWasAloneIsFollowedByNobody) {
  ASSERT_NO_FATAL_FAILURE(LoseACoordinator(1));
  const auto all = WhenAllKnown();
  Pass(std::chrono::milliseconds(4'900));
  EXPECT_FALSE(all->has_value()) << "that one is dialled";
  Pass(std::chrono::milliseconds(200));
  ASSERT_TRUE(all->has_value());
  EXPECT_FALSE(**all);
  Pass(std::chrono::seconds(8));
  EXPECT_TRUE(Coordinates());
  const auto later = WhenAllKnown();
  Pass(std::chrono::milliseconds(100));
  EXPECT_EQ(*later, std::optional(true)) << "nor is anybody waited for afterwards";
}

// The node is waited for while the others are, and not once more after that.
TEST_F(NodesTest, ANodeThatDoesNotComeIsNotWaitedForAfterTheOthers) {
  ASSERT_NO_FATAL_FAILURE(LoseACoordinator(3));
  const auto all = WhenAllKnown(std::string(32, 'd'));
  Pass(std::chrono::milliseconds(12'800));
  EXPECT_TRUE(Coordinates());
  Pass(std::chrono::milliseconds(5'000));
  EXPECT_FALSE(all->has_value());
  Pass(std::chrono::milliseconds(800));
  EXPECT_EQ(*all, std::optional(false));
}

TEST_F(NodesTest, WhereNoCoordinatorIsGoneNothingIsWaitedFor) {
  const auto all = WhenAllKnown();
  Pass(std::chrono::milliseconds(300));
  ASSERT_TRUE(all->has_value());
  EXPECT_TRUE(**all);
}

TEST_F(NodesTest, APrefixThatFallsSilentEndsTheWait) {
  ASSERT_NO_FATAL_FAILURE(LoseACoordinator(3));
  const auto early = WhenAllKnown();
  Pass(std::chrono::seconds(3));
  PassWithoutPrefix(std::chrono::milliseconds(1'900));
  EXPECT_FALSE(early->has_value()) << "5 s as always";
  PassWithoutPrefix(std::chrono::milliseconds(4'200));
  ASSERT_TRUE(early->has_value());
  EXPECT_FALSE(**early);
}

TEST_F(NodesTest, APrefixThatFallsSilentLaterEndsTheWait) {
  ASSERT_NO_FATAL_FAILURE(LoseACoordinator(3));
  const auto late = WhenAllKnown();
  Pass(std::chrono::seconds(6));
  EXPECT_FALSE(late->has_value());
  PassWithoutPrefix(std::chrono::milliseconds(6'200));
  ASSERT_TRUE(late->has_value());
  EXPECT_FALSE(**late);
}

TEST_F(NodesTest, APrefixThatDoesNotAnswerIsWaitedForAsLongAsAlways) {
  const auto all = WhenAllKnown(kOtherNode);
  PassWithoutPrefix(std::chrono::milliseconds(4'900));
  EXPECT_FALSE(all->has_value());
  PassWithoutPrefix(std::chrono::milliseconds(200));
  ASSERT_TRUE(all->has_value());
  EXPECT_FALSE(**all);
}

// However often that happens.
TEST_F(NodesTest, TwoTermsAreWaitedForAtMost) {
  ASSERT_NO_FATAL_FAILURE(LoseACoordinator(3));
  const auto all = WhenAllKnown();
  for (std::uint64_t epoch = 2; epoch <= 12; ++epoch) {
    Pass(std::chrono::seconds(2));
    EXPECT_FALSE(all->has_value()) << epoch;
    ASSERT_NO_FATAL_FAILURE(MakeEpoch(epoch));
  }
  Pass(std::chrono::milliseconds(2'100));
  ASSERT_TRUE(all->has_value());
  EXPECT_FALSE(**all);
}

TEST_F(NodesTest, WhoCannotBeAMemberIsNotWaitedFor) {
  access_.refuse = DataLoss("/prefix/.cairn/authority: damaged");
  const auto known = WhenKnown(kOtherNode);
  Pass(std::chrono::milliseconds(200));
  EXPECT_TRUE(*known);
  by_hand_.context.phase = Phase::kQuiescing;
  const auto late = WhenKnown(kOtherNode);
  by_hand_.RunAll();
  EXPECT_TRUE(*late);
}

// --- What nodes ask each other ---

TEST_F(NodesTest, WhoIsAloneGetsAnEmptyAnswerSoon) {
  for (int member = 0; member < 2; ++member) {
    const auto holdings = AskHoldings();
    const auto said = AskOthers();
    by_hand_.RunAll();
    ASSERT_TRUE(holdings->has_value() && said->has_value());
    EXPECT_TRUE((*holdings)->empty() && (*said)->empty());
    nodes_->Update();
    Pass(std::chrono::seconds(1));
    EXPECT_TRUE(Coordinates());
  }
}

TEST_F(NodesTest, TheOthersTellWhatTheyHoldAndWhatElseTheyAreAsked) {
  StartBoth();
  other_->ledger.Adopt(WholeInCache(5));
  const auto holdings = AskHoldings();
  const auto said = AskOthers();
  Pass(std::chrono::milliseconds(500));
  ASSERT_TRUE(holdings->has_value() && said->has_value());
  ASSERT_EQ((*holdings)->size(), 1u);
  EXPECT_EQ((**holdings)[0].member.node, kOtherNode);
  EXPECT_FALSE((**holdings)[0].missing);
  ASSERT_OK((**holdings)[0].holdings);
  ASSERT_EQ((**holdings)[0].holdings->datasets_size(), 1);
  EXPECT_EQ((**holdings)[0].holdings->datasets(0).dataset(), 5u);
  ASSERT_EQ((*said)->size(), 1u);
  EXPECT_EQ((**said)[0].node.member.host, "other");
  ASSERT_OK((**said)[0].answer);
  EXPECT_EQ((**said)[0].answer->show().dataset().dataset(), 42u);
  EXPECT_TRUE(nodes_->Own().here());
  EXPECT_EQ(nodes_->Own().node(), kNode);
}

TEST_F(NodesTest, HoldingsThatAreNonsenseAreNotBelieved) {
  StartBoth();
  Dataset dataset = WholeInCache(5);
  dataset.name = std::string(5000, 'x');
  other_->ledger.Adopt(dataset);
  const auto holdings = AskHoldings();
  Pass(std::chrono::milliseconds(500));
  ASSERT_TRUE(holdings->has_value());
  EXPECT_STATUS(StatusCode::kInvalidArgument, (**holdings)[0].holdings, "holdings.datasets[0].name");
}

TEST_F(NodesTest, ASilentNodeIsWaitedForSoLongAlsoForItsHoldingsIfItIsMissing) {
  StartBoth();
  network_.Block("10.0.0.1:17600", kOtherAddress);
  const auto holdings = AskHoldings();
  const auto said = AskOthers();
  Pass(std::chrono::milliseconds(1'800));
  EXPECT_FALSE(holdings->has_value() || said->has_value());
  Pass(std::chrono::milliseconds(400));
  ASSERT_TRUE(holdings->has_value() && said->has_value());
  EXPECT_STATUS(StatusCode::kDeadlineExceeded, (**holdings)[0].holdings, "");
  EXPECT_STATUS(StatusCode::kDeadlineExceeded, (**said)[0].answer, "");
  EXPECT_FALSE((**said)[0].node.missing);
  Pass(std::chrono::seconds(15));
  const auto later = AskHoldings();
  const auto missing = AskOthers();
  Pass(std::chrono::milliseconds(100));
  EXPECT_FALSE(later->has_value());
  ASSERT_TRUE(missing->has_value()) << "people are told soon that it is missing";
  ASSERT_EQ((*missing)->size(), 1u);
  EXPECT_TRUE((**missing)[0].node.missing);
  EXPECT_STATUS(StatusCode::kUnavailable, (**missing)[0].answer, "missing");
  Pass(std::chrono::seconds(2));
  ASSERT_TRUE(later->has_value());
  ASSERT_EQ((*later)->size(), 1u);
  EXPECT_TRUE((**later)[0].missing);
  EXPECT_STATUS(StatusCode::kDeadlineExceeded, (**later)[0].holdings, "");
  EXPECT_FALSE(nodes_->Find(kOtherNode));
  EXPECT_TRUE(nodes_->FindNamed(kOtherNode)) << "whoever names it may have heard it";
}

// No link of the tree leads to it, but it can be reached.
TEST_F(NodesTest, AMissingNodeThatTellsWhatItHoldsIsThereUntilTheTableSaysOtherwise) {
  StartBoth();
  other_->ledger.Adopt(WholeInCache(5));
  network_.Block(kOtherAddress, "10.0.0.1:17600");
  Pass(std::chrono::seconds(15));
  EXPECT_FALSE(nodes_->Find(kOtherNode)) << "it is missing";
  network_.UnblockAll();
  const auto holdings = AskHoldings();
  for (int i = 0; i < 50 && !holdings->has_value(); ++i) {
    by_hand_.Turn(std::chrono::milliseconds(1));
    by_hand_.RunAll();
  }
  ASSERT_TRUE(holdings->has_value());
  ASSERT_EQ((*holdings)->size(), 1u);
  EXPECT_TRUE((**holdings)[0].missing);
  ASSERT_OK((**holdings)[0].holdings);
  EXPECT_EQ((**holdings)[0].holdings->datasets(0).dataset(), 5u);
  EXPECT_TRUE(nodes_->Find(kOtherNode));
  Pass(std::chrono::seconds(15));
  EXPECT_TRUE(nodes_->Find(kOtherNode)) << "it has joined again";
  network_.Block(kOtherAddress, "10.0.0.1:17600");
  Pass(std::chrono::seconds(15));
  EXPECT_FALSE(nodes_->Find(kOtherNode)) << "it is missing again, and has not told anything since";
  other_->nodes.Stop();
  network_.Die(kOtherAddress);
  Pass(std::chrono::seconds(40));
  EXPECT_FALSE(nodes_->FindNamed(kOtherNode)) << "it is gone";
}

TEST_F(NodesTest, WhoLeavesTellsThoseWhoWaitForAnswers) {
  StartBoth();
  network_.Block("10.0.0.1:17600", kOtherAddress);
  const auto said = AskOthers();
  by_hand_.RunAll();
  nodes_->Leave();
  by_hand_.RunAll();
  ASSERT_TRUE(said->has_value());
  EXPECT_STATUS(StatusCode::kCancelled, (**said)[0].answer, "leaves");
  Pass(std::chrono::seconds(10));
  EXPECT_TRUE(nodes_->out());
}

}  // namespace
}  // namespace cairn
