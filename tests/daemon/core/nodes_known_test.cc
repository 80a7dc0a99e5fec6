// How long a daemon waits until it knows the others that serve a run: daemon/core/nodes.h, WhenKnown and WhenAllKnown.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "storage/base/status.h"
#include "storage/place/prefix/coordinator_lease.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/nodes_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class NodesKnownTest : public NodesTest {
 protected:
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
};

TEST_F(NodesKnownTest, WhoAsksIsToldOnceTheOthersAreKnown) {
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

TEST_F(NodesKnownTest, ANodeThatComesIsWaitedFor) {
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

TEST_F(NodesKnownTest, ANodeThatDoesNotComeIsWaitedForSoLong) {
  nodes_->Update();
  Pass(std::chrono::seconds(1));
  const auto known = WhenKnown(kOtherNode);
  Pass(std::chrono::milliseconds(1'800));
  EXPECT_FALSE(*known);
  Pass(std::chrono::milliseconds(400));
  EXPECT_TRUE(*known);
}

TEST_F(NodesKnownTest, ACoordinatorThatIsGoneIsWaitedForUntilItIsFollowedAndTheOthersMustHaveCome) {
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

TEST_F(NodesKnownTest, ACoordinatorThatIsGoneAndWasAloneIsFollowedByNobody) {
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
TEST_F(NodesKnownTest, ANodeThatDoesNotComeIsNotWaitedForAfterTheOthers) {
  ASSERT_NO_FATAL_FAILURE(LoseACoordinator(3));
  const auto all = WhenAllKnown(std::string(32, 'd'));
  Pass(std::chrono::milliseconds(12'800));
  EXPECT_TRUE(Coordinates());
  Pass(std::chrono::milliseconds(5'000));
  EXPECT_FALSE(all->has_value());
  Pass(std::chrono::milliseconds(800));
  EXPECT_EQ(*all, std::optional(false));
}

TEST_F(NodesKnownTest, WhereNoCoordinatorIsGoneNothingIsWaitedFor) {
  const auto all = WhenAllKnown();
  Pass(std::chrono::milliseconds(300));
  ASSERT_TRUE(all->has_value());
  EXPECT_TRUE(**all);
}

TEST_F(NodesKnownTest, APrefixThatFallsSilentEndsTheWait) {
  ASSERT_NO_FATAL_FAILURE(LoseACoordinator(3));
  const auto early = WhenAllKnown();
  Pass(std::chrono::seconds(3));
  PassWithoutPrefix(std::chrono::milliseconds(1'900));
  EXPECT_FALSE(early->has_value()) << "5 s as always";
  PassWithoutPrefix(std::chrono::milliseconds(4'200));
  ASSERT_TRUE(early->has_value());
  EXPECT_FALSE(**early);
}

TEST_F(NodesKnownTest, APrefixThatFallsSilentLaterEndsTheWait) {
  ASSERT_NO_FATAL_FAILURE(LoseACoordinator(3));
  const auto late = WhenAllKnown();
  Pass(std::chrono::seconds(6));
  EXPECT_FALSE(late->has_value());
  PassWithoutPrefix(std::chrono::milliseconds(6'200));
  ASSERT_TRUE(late->has_value());
  EXPECT_FALSE(**late);
}

TEST_F(NodesKnownTest, APrefixThatDoesNotAnswerIsWaitedForAsLongAsAlways) {
  const auto all = WhenAllKnown(kOtherNode);
  PassWithoutPrefix(std::chrono::milliseconds(4'900));
  EXPECT_FALSE(all->has_value());
  PassWithoutPrefix(std::chrono::milliseconds(200));
  ASSERT_TRUE(all->has_value());
  EXPECT_FALSE(**all);
}

// However often that happens.
TEST_F(NodesKnownTest, TwoTermsAreWaitedForAtMost) {
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

TEST_F(NodesKnownTest, WhoCannotBeAMemberIsNotWaitedFor) {
  access_.refuse = DataLoss("/prefix/.cairn/authority: damaged");
  const auto known = WhenKnown(kOtherNode);
  Pass(std::chrono::milliseconds(200));
  EXPECT_TRUE(*known);
  by_hand_.context.phase = Phase::kQuiescing;
  const auto late = WhenKnown(kOtherNode);
  by_hand_.RunAll();
  EXPECT_TRUE(*late);
}

}  // namespace
}  // namespace cairn
