#include "client/cli/redundancy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

kept::Set SetOfFour(kept::Scheme scheme) {
  kept::Set set;
  set.set_scheme(scheme);
  set.set_groups(1);
  set.set_replicas(scheme == kept::PARTNER ? 1 : 0);
  set.set_checksums(scheme == kept::RS ? 2 : 0);
  for (const Rank rank : {0, 1, 2, 3}) set.add_ranks(rank);
  return set;
}

// Rank r is on node n<r>.
admin::ShowReply Show(kept::Scheme scheme) {
  admin::ShowReply show;
  show.mutable_dataset()->set_dataset(7);
  show.mutable_dataset()->set_run("0123456789abcdef0123456789abcdef");
  show.mutable_dataset()->set_nranks(4);
  show.mutable_dataset()->set_in_cache(true);
  show.mutable_dataset()->set_level(local::REDUNDANT);
  for (Rank rank = 0; rank < 4; ++rank) {
    admin::RankRow& row = *show.add_ranks();
    row.set_rank(rank);
    row.set_in_cache(true);
    row.add_nodes("n" + std::to_string(rank));
    *row.mutable_set() = SetOfFour(scheme);
  }
  return show;
}

void Lose(admin::ShowReply& show, int rank) {
  show.mutable_ranks(rank)->clear_nodes();
  show.mutable_ranks(rank)->clear_set();
  show.mutable_ranks(rank)->set_in_cache(false);
}

int Bears(const admin::ShowReply& show) {
  const auto sets = SetsOf(show);
  EXPECT_EQ(sets.size(), 1u);
  return sets.empty() ? -2 : sets[0].bears;
}

TEST(RedundancyTextTest, SaysHowManyMembersMayStillBeLost) {
  EXPECT_EQ(Bears(Show(kept::PARTNER)), 1);
  EXPECT_EQ(Bears(Show(kept::XOR)), 1);
  EXPECT_EQ(Bears(Show(kept::RS)), 2);
  for (const auto& [scheme, one, two] : {std::tuple(kept::PARTNER, 0, -1), {kept::XOR, 0, -1}, {kept::RS, 1, 0}}) {
    admin::ShowReply show = Show(scheme);
    Lose(show, 1);
    EXPECT_EQ(Bears(show), one) << scheme;
    Lose(show, 2);
    EXPECT_EQ(Bears(show), two) << scheme;
  }
}

// Copies of two that are no neighbours are with two others.
TEST(RedundancyTextTest, CopiesBearTheLossOfMembersThatAreNoNeighbours) {
  admin::ShowReply show = Show(kept::PARTNER);
  Lose(show, 1);
  Lose(show, 3);
  EXPECT_EQ(Bears(show), 0);
}

TEST(RedundancyTextTest, AMemberThatKeepsNothingIsNoneTheLessThere) {
  admin::ShowReply show = Show(kept::RS);
  show.mutable_ranks(2)->clear_set();
  EXPECT_EQ(Bears(show), 1);
  const auto sets = SetsOf(show);
  EXPECT_EQ(sets[0].lost, 0u);
  EXPECT_THAT(sets[0].members[2].nodes, ElementsAre("n2"));
  EXPECT_FALSE(sets[0].members[2].keeps);
}

TEST(RedundancyTextTest, DrawsWhoKeepsWhat) {
  admin::ShowReply show = Show(kept::XOR);
  Lose(show, 3);
  const std::string text = DescribeRedundancy(show);
  EXPECT_THAT(text, HasSubstr("set 1 of 1 (xor): 1 lost, can be rebuilt; none of its members may be lost now"));
  EXPECT_THAT(text, HasSubstr("rank 0      [files] [keeps]  n0\n"));
  EXPECT_THAT(text, HasSubstr("rank 3      [.....] [.....]  on no node that answered\n"));
  Lose(show, 2);
  EXPECT_THAT(DescribeRedundancy(show), HasSubstr("2 lost, too many to rebuild"));
}

TEST(RedundancyTextTest, SaysWhyThereIsNone) {
  admin::ShowReply show = Show(kept::XOR);
  for (admin::RankRow& row : *show.mutable_ranks()) row.clear_set();
  show.set_not_redundant("all of it is on one node");
  EXPECT_THAT(DescribeRedundancy(show), HasSubstr("no rank keeps anything for others: all of it is on one node"));
}

TEST(RedundancyTextTest, SaysThatItIsInTheFolder) {
  admin::ShowReply show = Show(kept::XOR);
  for (admin::RankRow& row : *show.mutable_ranks()) row.clear_set();
  show.mutable_dataset()->set_in_folder(true);
  const std::string text = DescribeRedundancy(show);
  EXPECT_THAT(text, HasSubstr("it is in redundant.path, and survives the loss of all nodes"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("no rank keeps")));
  EXPECT_EQ(RedundancyJson(show)["in_folder"], true);
}

TEST(RedundancyTextTest, SaysWhatTheApplicationHasAskedFor) {
  admin::ShowReply show = Show(kept::XOR);
  EXPECT_THAT(DescribeRedundancy(show), ::testing::Not(HasSubstr("asked")));
  EXPECT_EQ(RedundancyJson(show)["asked_scheme"], "");
  show.set_asked_scheme(local::SCHEME_PARTNER);
  EXPECT_THAT(DescribeRedundancy(show), HasSubstr("  its application has asked for redundancy partner\n  set 1 of 1"));
  EXPECT_EQ(RedundancyJson(show)["asked_scheme"], "partner");
}

TEST(RedundancyTextTest, TheJsonHasTheSame) {
  const Json json = RedundancyJson(Show(kept::RS));
  EXPECT_EQ(json["sets"][0]["bears"], 2);
  EXPECT_EQ(json["sets"][0]["members"][1]["nodes"][0], "n1");
  EXPECT_EQ(json["level"], "redundant");
}

TEST(RebuiltTextTest, SaysOfWhatItWasMade) {
  admin::RebuildReply reply;
  EXPECT_EQ(DescribeRebuilt(7, reply), "dataset 7: nothing of it is lost\n");
  EXPECT_TRUE(RebuiltJson(reply).empty());
  admin::RebuiltRank& rank = *reply.add_ranks();
  rank.set_rank(3);
  rank.set_bytes(2048);
  rank.mutable_set()->set_scheme(kept::XOR);
  for (const Rank member : {0, 3, 5}) rank.mutable_set()->add_ranks(member);
  rank.add_nodes("n1");
  rank.add_nodes("n6");
  EXPECT_EQ(DescribeRebuilt(7, reply),
            "dataset 7: rank 3 (2.0 KiB) was rebuilt from what ranks 0, 5 have and keep on n1, n6 (xor)\n");
  const Json json = RebuiltJson(reply);
  EXPECT_EQ(json[0]["rank"], 3);
  EXPECT_EQ(json[0]["set"][1], 3);
  EXPECT_EQ(json[0]["nodes"][1], "n6");
}

}  // namespace
}  // namespace cairn::cli
