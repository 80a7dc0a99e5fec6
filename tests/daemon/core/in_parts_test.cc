// Which parts of a dataset nodes have, which are lost, and by which sets these may be made anew: as the nodes say it.
#include "daemon/core/in_parts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn {
namespace {

constexpr std::uint32_t kRankCount = 4;

kept::Set SetOfRanks(kept::Scheme scheme, const std::vector<Rank>& ranks) {
  kept::Set set;
  set.set_scheme(scheme);
  set.set_groups(1);
  set.set_checksums(scheme == kept::RS ? 2 : 0);
  for (const Rank rank : ranks) set.add_ranks(rank);
  return set;
}

struct Says {
  std::string ranks;
  std::vector<std::pair<kept::Set, std::string>> keeps;  // and which of the ranks do
  bool says_who = true;
};

class InPartsTest : public ::testing::Test {
 protected:
  void Node(const Says& says) {
    peer::Holdings holdings;
    peer::Holding& holding = *holdings.add_datasets();
    holding.set_dataset(7);
    holding.set_launch(1);
    holding.set_mark("0123456789abcdef0123456789abcdef");
    holding.set_nranks(kRankCount);
    holding.set_ranks(says.ranks);
    for (const auto& [set, keepers] : says.keeps) {
      *holding.add_sets() = set;
      if (says.says_who) holding.add_keepers(keepers);
    }
    Member member;
    member.node = "n" + std::to_string(holdings_.size());
    holdings_.push_back({.member = member, .holdings = holdings});
  }
  // The one dataset; id 0: it is not whole, as far as numbers tell.
  Candidate Found(bool lacking = false) {
    const auto all = [](const Dataset&) { return true; };
    const std::vector<Candidate> found = InParts(holdings_, ledger_, {.wanted = all, .left = all, .lacking = lacking});
    return found.empty() ? Candidate() : found.front();
  }

  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
  Nodes::Holdings holdings_;
};

const kept::Set kOld = SetOfRanks(kept::RS, {0, 1, 2, 3}), kNew = SetOfRanks(kept::RS, {1, 0, 2, 3});

TEST_F(InPartsTest, OnlyWhoSaysSoKeepsSomething) {
  Node({.ranks = "0-1", .keeps = {{kOld, "0"}}});  // rank 1 was made anew here
  Node({.ranks = "2", .keeps = {{kOld, "2"}}});
  Node({.ranks = "3", .keeps = {{kOld, "3"}}});
  const Candidate found = Found();
  EXPECT_EQ(found.dataset.id, 7u);
  EXPECT_TRUE(found.keeps.contains(0));
  EXPECT_FALSE(found.keeps.contains(1));
  EXPECT_TRUE(found.keeps.contains(3));
}

// A node of an older release.
TEST_F(InPartsTest, WhereItIsNotSaidAllMembersThereDo) {
  Node({.ranks = "0-1", .keeps = {{kOld, ""}}, .says_who = false});
  Node({.ranks = "2-3", .keeps = {{kOld, ""}}, .says_who = false});
  EXPECT_EQ(Found().keeps.size(), kRankCount);
}

TEST_F(InPartsTest, TheNewestOfARankIsTheOneThatItKeeps) {
  Node({.ranks = "0-1", .keeps = {{kNew, "0-1"}, {kOld, "0-1"}}});
  Node({.ranks = "2-3", .keeps = {{kNew, "2"}, {kOld, "2-3"}}});
  const Candidate found = Found();
  EXPECT_EQ(found.keeps.at(0).ranks(0), 1u);
  EXPECT_EQ(found.keeps.at(2).ranks(0), 1u);
  EXPECT_EQ(found.keeps.at(3).ranks(0), 0u);
}

// Whichever was made last: fewer of its members are missing, or keep nothing for it.
TEST_F(InPartsTest, TheSetOfWhichTheMostIsLeftIsTriedFirst) {
  Node({.ranks = "0", .keeps = {{kNew, "0"}, {kOld, "0"}}});
  Node({.ranks = "1", .keeps = {{kOld, "1"}}});
  Node({.ranks = "2", .keeps = {{kOld, "2"}}});
  Candidate found = Found();
  ASSERT_EQ(found.lost.size(), 1u);
  ASSERT_EQ(found.lost.at(3).size(), 2u);
  EXPECT_EQ(found.lost.at(3)[0].ranks(0), 0u);
  holdings_.clear();
  Node({.ranks = "0", .keeps = {{kNew, "0"}, {kOld, "0"}}});
  Node({.ranks = "1", .keeps = {{kNew, "1"}, {kOld, "1"}}});
  Node({.ranks = "2", .keeps = {{kNew, "2"}}});
  found = Found();
  ASSERT_EQ(found.lost.at(3).size(), 2u);
  EXPECT_EQ(found.lost.at(3)[0].ranks(0), 1u);
}

TEST_F(InPartsTest, WhatNoSetBearsIsNoCandidate) {
  Node({.ranks = "0", .keeps = {{kOld, "0"}}});
  EXPECT_EQ(Found().dataset.id, 0u);
  Node({.ranks = "1", .keeps = {}});
  EXPECT_EQ(Found().dataset.id, 7u);
}

TEST_F(InPartsTest, WhatLacksPartsIsFoundIfThatIsAskedFor) {
  Node({.ranks = "0,3", .keeps = {}});
  EXPECT_EQ(Found().dataset.id, 0u);
  const Candidate lacking = Found(/*lacking=*/true);
  EXPECT_EQ(lacking.dataset.id, 7u);
  EXPECT_EQ(lacking.nowhere, 2u);
  Node({.ranks = "1-2", .keeps = {}});
  EXPECT_EQ(Found(/*lacking=*/true).nowhere, 0u);
}

}  // namespace
}  // namespace cairn
