// Which ranks are put in a set: as SCR does it, and where SCR could not.
#include "storage/format/scr/sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "storage/format/kvtree/tree.h"
#include "tests/storage/format/scr/scr_vectors.h"

namespace cairn::scr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Groups = std::vector<std::string>;

// World ranks by set and set rank. What the descriptors say of each other has been compared.
std::vector<std::vector<Rank>> Members(const std::vector<SetDescriptor>& descriptors) {
  std::vector<std::vector<Rank>> sets(descriptors.front().groups);
  for (std::size_t rank = 0; rank < descriptors.size(); ++rank) {
    const SetDescriptor& one = descriptors[rank];
    EXPECT_EQ(one.world_rank, rank);
    EXPECT_EQ(one.world_ranks, descriptors.size());
    EXPECT_EQ(one.groups, sets.size());
    EXPECT_EQ(one.rank, sets.at(one.group).size()) << "in the order of world ranks";
    sets.at(one.group).push_back(one.world_rank);
  }
  for (const SetDescriptor& one : descriptors) EXPECT_EQ(one.ranks, sets[one.group].size());
  return sets;
}

std::vector<std::vector<Rank>> MembersOf(const SetWish& wish, const Groups& groups) {
  const auto descriptors = MakeSets(wish, groups);
  EXPECT_TRUE(descriptors.ok()) << descriptors.status();
  return descriptors.ok() ? Members(*descriptors) : std::vector<std::vector<Rank>>();
}

TEST(SetsTest, ColumnsAreCutAsScrCutsThem) {
  const SetWish pairs = {.scheme = Scheme::kXor, .members_min = 2};
  EXPECT_THAT(MembersOf({.scheme = Scheme::kXor}, {"a", "b", "c", "d"}), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(MembersOf(pairs, {"a", "b", "c", "d"}), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(MembersOf(pairs, {"a", "b", "c", "d", "e"}), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4)));
  EXPECT_THAT(MembersOf(pairs, {"a", "a", "b", "b"}), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(MembersOf(pairs, {"b", "a", "b", "a"}), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(SetsTest, RanksOfOneGroupCannotProtectEachOther) {
  const auto descriptors = MakeSets({.scheme = Scheme::kRs, .members_min = 4, .checksums = 2}, Groups{"a", "a", "a"});
  ASSERT_TRUE(descriptors.ok()) << descriptors.status();
  EXPECT_THAT(Members(*descriptors), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  for (const SetDescriptor& one : *descriptors) {
    EXPECT_EQ(one.scheme, Scheme::kSingle);
    EXPECT_EQ(one.checksums, 0u);
  }
}

TEST(SetsTest, OneChecksumIsXor) {
  const auto descriptors = MakeSets({.scheme = Scheme::kRs, .checksums = 1}, Groups{"a", "b", "c"});
  ASSERT_TRUE(descriptors.ok()) << descriptors.status();
  EXPECT_EQ(descriptors->front().scheme, Scheme::kXor);
  EXPECT_EQ(descriptors->front().checksums, 0u);
}

TEST(SetsTest, WhereAColumnIsTooShortTheRanksAreDealt) {
  // The column of the third ranks would be rank 2 alone.
  EXPECT_THAT(MembersOf({.scheme = Scheme::kPartner}, {"a", "a", "a", "b", "b", "c"}),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5)));
}

TEST(SetsTest, AGroupThatIsTooLargeIsNamed) {
  const auto two = MakeSets({.scheme = Scheme::kXor}, Groups{"cn1", "cn7", "cn7"});
  EXPECT_EQ(two.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(two.status().ToString(), HasSubstr("2 of 3 ranks are in failure group 'cn7'"));
  // Each set of two: enough for XOR, and not for two checksums.
  const Groups half = {"a", "a", "b", "c"};
  EXPECT_TRUE(MakeSets({.scheme = Scheme::kXor}, half).ok());
  EXPECT_EQ(MakeSets({.scheme = Scheme::kRs, .checksums = 2}, half).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SetsTest, WhatNoSchemeHasIsRefused) {
  const Groups groups = {"a", "b", "c", "d"};
  for (const SetWish& wish : std::vector<SetWish>{{.scheme = Scheme::kXor, .members_min = 1},
                                                  {.scheme = Scheme::kPartner, .members_min = 65},
                                                  {.scheme = Scheme::kRs, .members_min = 4},
                                                  {.scheme = Scheme::kRs, .members_min = 4, .checksums = 4}}) {
    EXPECT_EQ(MakeSets(wish, groups).status().code(), absl::StatusCode::kInvalidArgument) << wish.members_min;
  }
}

TEST(SetsTest, NobodyIsNoSet) {
  const auto none = MakeSets({.scheme = Scheme::kXor}, Groups());
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->empty());
}

// Whatever the groups: each rank is in one set, which has as many members as the scheme needs, and no two of a group.
TEST(SetsTest, LosingAGroupCostsEachSetOneMember) {
  std::mt19937_64 random(17);
  int refused = 0;
  for (int round = 0; round < 2'000; ++round) {
    const auto ranks = 1 + random() % 60, names = 1 + random() % 12;
    Groups groups;
    for (std::size_t rank = 0; rank < ranks; ++rank) groups.push_back("cn" + std::to_string(random() % names));
    SetWish wish = {.scheme = static_cast<Scheme>(1 + random() % 3),
                    .members_min = static_cast<std::uint32_t>(2 + random() % 8)};
    if (wish.scheme == Scheme::kRs) wish.checksums = static_cast<std::uint32_t>(1 + random() % (wish.members_min - 1));
    std::map<std::string, std::size_t> sizes;
    for (const std::string& group : groups) ++sizes[group];
    std::size_t largest = 0;
    for (const auto& [name, size] : sizes) largest = std::max(largest, size);
    const std::size_t needed = std::max(wish.checksums, 1u) + 1;

    const auto descriptors = MakeSets(wish, groups);
    if (sizes.size() > 1) {
      // As many sets as the largest group has ranks cannot be filled: then, and only then, it is refused.
      ASSERT_EQ(descriptors.ok(), ranks >= needed * largest) << descriptors.status();
    }
    if (!descriptors.ok()) {
      ++refused;
      continue;
    }
    for (const std::vector<Rank>& set : Members(*descriptors)) {
      std::set<std::string> of_set;
      for (const Rank rank : set) of_set.insert(groups[rank]);
      ASSERT_EQ(of_set.size(), set.size()) << "round " << round;
      ASSERT_GE(set.size(), sizes.size() > 1 ? needed : 1) << "round " << round;
      ASSERT_LT(set.size(), 2 * wish.members_min);
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 1'500);
}

// SCR's jobs ran with one failure group a node. That SCR_SET_SIZE was as small as the smallest set does not matter: the
// column is cut into as many.
TEST(SetsVectorTest, AreThoseThatScrMade) {
  struct Job {
    std::map<Rank, std::string> nodes;
    std::map<Rank, SetDescriptor> sets;
  };
  std::map<std::string, Job> jobs;  // by scenario and dataset
  for (const testing::ScrVector& vector : testing::ScrVectors("set descriptor file for data files")) {
    const auto name = ParseRedsetName(vector.path.substr(vector.path.rfind('/') + 1));
    const auto tree = kvtree::Decode(vector.path, vector.bytes);
    ASSERT_TRUE(name.has_value() && tree.ok()) << vector.path;
    const auto sets = GetSetDescriptors(*tree);
    ASSERT_TRUE(sets.ok()) << vector.path << ": " << sets.status();
    const std::size_t node = vector.path.find("/nodes/") + 7, dataset = vector.path.find("scr.dataset.");
    Job& job = jobs[vector.scenario + " " + vector.path.substr(dataset, vector.path.find('/', dataset) - dataset)];
    job.nodes[name->rank] = vector.path.substr(node, vector.path.find('/', node) - node);
    job.sets[name->rank] = sets->at(name->rank);
  }
  int compared = 0;
  for (const auto& [name, job] : jobs) {
    SetWish wish = {.scheme = job.sets.begin()->second.scheme};
    Groups groups;
    for (const auto& [rank, node] : job.nodes) groups.push_back(node);
    if (groups.size() != job.sets.begin()->second.world_ranks) continue;  // of a job that has lost nodes
    for (const auto& [rank, set] : job.sets) wish.members_min = std::min(wish.members_min, std::max(set.ranks, 2u));
    wish.checksums = job.sets.begin()->second.checksums;
    const auto descriptors = MakeSets(wish, groups);
    ASSERT_TRUE(descriptors.ok()) << name << ": " << descriptors.status();
    for (const auto& [rank, theirs] : job.sets) {
      const SetDescriptor& ours = (*descriptors)[rank];
      EXPECT_EQ(ours.scheme, theirs.scheme) << name;
      EXPECT_EQ(ours.groups, theirs.groups) << name;
      EXPECT_EQ(ours.group, theirs.group) << name << ", rank " << rank;
      EXPECT_EQ(ours.ranks, theirs.ranks) << name << ", rank " << rank;
      EXPECT_EQ(ours.rank, theirs.rank) << name << ", rank " << rank;
      EXPECT_EQ(ours.replicas, theirs.replicas) << name;
      EXPECT_EQ(ours.checksums, theirs.checksums) << name;
    }
    ++compared;
  }
  EXPECT_GE(compared, jobs.empty() ? 0 : 6);
}

}  // namespace
}  // namespace cairn::scr
