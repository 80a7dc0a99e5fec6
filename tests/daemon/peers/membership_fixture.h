// Members of a run in a simulated network, and what is said of them. For tests.
#ifndef CAIRN_TESTS_DAEMON_PEERS_MEMBERSHIP_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_PEERS_MEMBERSHIP_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "daemon/peers/membership.h"
#include "tests/daemon/peers/sim_cluster.h"

namespace cairn {

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() {
    sim_.after_step = [this] { EXPECT_LE(sim_.Acting().size(), 1U); };
  }
  std::chrono::milliseconds term() const { return sim_.settings.term; }
  void StartAll(std::uint32_t count) {
    for (std::uint32_t number = 1; number <= count; ++number) sim_.Start(number);
    ASSERT_TRUE(Settles()) << sim_.Settled();
  }
  bool Settles(int terms = 6) {
    return sim_.RunUntil([this] { return sim_.IsSettled(); }, terms * term());
  }
  std::uint32_t Top() { return sim_.Acting().at(0); }
  std::uint32_t NotTop() { return Top() == 1 ? 2 : 1; }
  std::uint64_t EpochAt(std::uint32_t number) { return sim_.at(number).coordinator().name.epoch; }
  Membership::Knowledge KnowledgeOf(std::uint32_t number) { return sim_.at(number).knowledge(); }
  bool Attached(std::uint32_t number) { return sim_.at(number).coordinator().attached; }
  // At no time one of `those` says that it knows all, and does not know one of `members` but `lost`. Until all do.
  std::chrono::milliseconds KnowsAllWithoutGap(const std::vector<std::uint32_t>& those,
                                               const std::vector<std::uint32_t>& members, std::uint32_t lost) {
    return Took([&, this] {
      bool all = true;
      for (const std::uint32_t number : those) {
        const bool knows_all = KnowledgeOf(number) == Membership::Knowledge::kAll;
        all = all && knows_all;
        for (const std::uint32_t who : members) {
          EXPECT_TRUE(!knows_all || who == lost || Knows(number, who)) << number << " of " << who;
        }
      }
      return all || HasFailure();
    });
  }
  bool Knows(std::uint32_t number, std::uint32_t who) {
    const auto& entries = sim_.at(number).table().entries;
    const auto entry = entries.find(SimCluster::IdOf(who));
    return entry != entries.end() && !entry->second.missing;
  }
  // What a member was told of a node that has gone.
  std::optional<GoneWhy> GoneAt(std::uint32_t number, std::uint32_t who) {
    for (const GoneMember& gone : sim_.node(number).gone) {
      if (gone.node == SimCluster::IdOf(who)) return gone.why;
    }
    return std::nullopt;
  }
  std::chrono::milliseconds Took(const std::function<bool()>& holds, int terms = 10) {
    const auto begun = sim_.stepper().now();
    EXPECT_TRUE(sim_.RunUntil(holds, terms * term())) << sim_.Settled();
    return std::chrono::duration_cast<std::chrono::milliseconds>(sim_.stepper().now() - begun);
  }
  void FailArbiter(std::set<std::uint32_t> whom) {
    sim_.arbiter_fails = [whom](const SimCluster::ArbiterCall& call) {
      return whom.contains(call.node) ? absl::UnavailableError("out of reach") : absl::OkStatus();
    };
  }

  SimCluster sim_{1};
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_PEERS_MEMBERSHIP_FIXTURE_H_
