#include "daemon/peers/register.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/peers/gathering.h"
#include "storage/place/prefix/coordinator_lease.h"
#include "tests/daemon/peers/sample.h"

namespace cairn {
namespace {

using std::chrono::seconds;
using Members = std::vector<Member>;
using Entries = std::vector<TableEntry>;
using Gone = std::vector<GoneMember>;

constexpr Register::Given kGiven{.missing_after = seconds(6), .gone_after = seconds(36)};

class RegisterTest : public ::testing::Test {
 protected:
  static Register::Time At(int second) { return Register::Time() + seconds(10'000 + second); }
  static MemberTable Known(const Members& members) {
    MemberTable table{.epoch = 3, .version = 77, .entries = {}};
    for (const Member& member : members) table.entries[member.node] = {.member = member, .missing = false};
    return table;
  }
  void Begin(const Members& known) { register_.emplace(kGiven, Known(known), awaited_, 4, MemberOf(1), At(0)); }
  void Now(int second, Members members) { register_->Change({std::move(members), {}}, At(second)); }
  void Cut(int second, std::uint32_t number, GoneWhy why = GoneWhy::kLost, std::uint64_t incarnation = 1) {
    register_->Change({{}, {{.node = NodeOf(number), .incarnation = incarnation, .why = why}}}, At(second));
  }
  TableChange Publish(int second) { return register_->Publish(At(second)); }

  Awaited awaited_;  // by Begin
  std::optional<Register> register_;
};

TEST_F(RegisterTest, BeginsWithItselfAtItsEpoch) {
  Begin({});
  EXPECT_EQ(Publish(0).entries, (Entries{{MemberOf(1), false}}));
  EXPECT_EQ(register_->table().epoch, 4U);
  EXPECT_EQ(register_->table().version, 1U);
  EXPECT_TRUE(Publish(1).empty());
  EXPECT_EQ(register_->table().version, 1U) << "a version is a change";
  EXPECT_FALSE(register_->next());
}

TEST_F(RegisterTest, WhoIsCutOffIsMissingAfterAWhileAndGoneAfterALongerOne) {
  Begin({});
  Now(0, {MemberOf(2)});
  Publish(0);
  Cut(10, 2);
  EXPECT_EQ(register_->next(), At(16));
  EXPECT_TRUE(Publish(15).empty());
  EXPECT_EQ(Publish(16).entries, (Entries{{MemberOf(2), true}}));
  EXPECT_EQ(register_->next(), At(46));
  EXPECT_TRUE(Publish(45).empty());
  EXPECT_EQ(Publish(46).gone, (Gone{{NodeOf(2), 1, GoneWhy::kLost}}));
  EXPECT_FALSE(register_->table().entries.contains(NodeOf(2)));
  EXPECT_FALSE(register_->next());
}

TEST_F(RegisterTest, WhoIsBackInTimeIsNotTalkedAbout) {
  Begin({});
  Now(0, {MemberOf(2)});
  Publish(0);
  Cut(10, 2);
  Now(12, {MemberOf(2)});
  EXPECT_TRUE(Publish(12).empty());
  Cut(20, 2);
  Publish(26);
  Now(27, {MemberOf(2)});
  EXPECT_EQ(Publish(27).entries, (Entries{{MemberOf(2), false}}));
  EXPECT_TRUE(Publish(100).empty());
}

TEST_F(RegisterTest, WhoHasLeftIsGoneAtOnce) {
  Begin({});
  Now(0, {MemberOf(2), MemberOf(3, 5)});
  Publish(0);
  Cut(1, 2, GoneWhy::kLeft);
  Cut(1, 3, GoneWhy::kLeft, /*incarnation=*/4);
  EXPECT_EQ(Publish(1).gone, (Gone{{NodeOf(2), 1, GoneWhy::kLeft}})) << "an earlier life of 3 has";
  EXPECT_TRUE(register_->table().entries.contains(NodeOf(3)));
}

// Links are heard of in any order.
TEST_F(RegisterTest, WhoWasCutOffAndThenHasLeftIsGoneAtOnceAndWhoIsStartedAgainIsThere) {
  Begin({});
  Now(0, {MemberOf(2), MemberOf(3)});
  Publish(0);
  Cut(1, 2);
  Cut(2, 2, GoneWhy::kLeft);
  Cut(2, 3, GoneWhy::kLeft);
  Now(2, {MemberOf(3, 2)});
  const TableChange change = Publish(2);
  EXPECT_EQ(change.gone, (Gone{{NodeOf(2), 1, GoneWhy::kLeft}}));
  EXPECT_EQ(change.entries, (Entries{{MemberOf(3, 2), false}}));
}

TEST_F(RegisterTest, ATakeOverLosesNobodyWhoComesInTime) {
  Begin({MemberOf(1), MemberOf(2), MemberOf(3), MemberOf(4, 1)});
  Now(0, {MemberOf(2)});
  EXPECT_TRUE(Publish(0).empty());
  EXPECT_EQ(register_->table().version, 1U);
  EXPECT_EQ(register_->table().entries.size(), 4U);
  Now(3, {MemberOf(4, 2)});
  EXPECT_EQ(Publish(3).entries, (Entries{{MemberOf(4, 2), false}}));
  EXPECT_EQ(Publish(6).entries, (Entries{{MemberOf(3), true}}));
  EXPECT_EQ(Publish(36).gone, (Gone{{NodeOf(3), 1, GoneWhy::kLost}}));
}

TEST_F(RegisterTest, NobodySaysAnythingOfTheCoordinatorButItself) {
  Begin({});
  Publish(0);
  Cut(1, 1, GoneWhy::kLeft);
  Now(1, {MemberOf(1, 9)});
  EXPECT_TRUE(Publish(2).empty());
  register_->SetSelf(MemberOf(1, 1, 2));
  EXPECT_EQ(Publish(3).entries, (Entries{{MemberOf(1, 1, 2), false}}));
}

TEST_F(RegisterTest, WhoComesAndGoesBetweenTwoVersionsWasNeverThere) {
  Begin({});
  Publish(0);
  Now(1, {MemberOf(2)});
  Cut(1, 2);
  EXPECT_TRUE(Publish(1).empty());
  EXPECT_FALSE(register_->next());
}

// --- Who may be there besides ---

std::string ShortOf(std::uint32_t number) {
  return coordinator_lease::ShortNode(NodeOf(number));
}

TEST_F(RegisterTest, WhoHasAllMembersGathersNobody) {
  Begin({MemberOf(2)});
  Publish(0);
  EXPECT_TRUE(register_->table().has_all());
  EXPECT_EQ(register_->MembersToTell(), (KnownMembers{.count = 2, .others = {ShortOf(2)}}));
  Now(1, {MemberOf(3)});
  EXPECT_EQ(register_->MembersToTell().count, 3U) << "before it is published";
  Cut(2, 2, GoneWhy::kLeft);
  EXPECT_EQ(register_->MembersToTell(), (KnownMembers{.count = 2, .others = {ShortOf(3)}}));
  Cut(2, 3);
  EXPECT_EQ(register_->MembersToTell().count, 2U) << "it is missing at most";
  EXPECT_EQ(Publish(38).gone.size(), 1U);
  EXPECT_EQ(register_->MembersToTell(), (KnownMembers{.count = 1, .others = {}}));
}

TEST_F(RegisterTest, ThoseWhoAreNamedAreWaitedForAndNobodyElse) {
  awaited_ = {.anybody = true, .count = 2, .nodes = {ShortOf(2), ShortOf(3)}, .within = seconds(6)};
  Begin({});
  Publish(0);
  EXPECT_FALSE(register_->table().has_all());
  EXPECT_EQ(register_->next(), At(36)) << "they are given up then";
  EXPECT_EQ(register_->MembersToTell(), (KnownMembers{.count = 3, .others = {ShortOf(2), ShortOf(3)}}));
  Now(1, {MemberOf(2), MemberOf(7), MemberOf(8)});
  Publish(1);
  EXPECT_TRUE(register_->table().gathers) << "7 and 8 are new";
  EXPECT_EQ(register_->MembersToTell().count, 5U);
  Now(2, {MemberOf(3, 2)});
  Cut(2, 3);
  EXPECT_TRUE(register_->table().gathers);
  Publish(2);
  EXPECT_TRUE(register_->table().has_all());
  EXPECT_EQ(register_->table().version, 3U);
  EXPECT_FALSE(register_->next());
}

TEST_F(RegisterTest, ThoseWhoDoNotComeAreWaitedForSoLong) {
  for (const std::uint32_t count : {0U, 40U}) {
    awaited_ = {.anybody = true, .count = count, .nodes = {}, .within = seconds(6)};
    Begin({});
    Publish(0);
    const KnownMembers told = register_->MembersToTell();
    EXPECT_EQ(told, (KnownMembers{.count = count == 0 ? 0U : 41U, .others = {}})) << "whoever follows waits, too";
    for (std::uint32_t i = 2; i < 60; ++i) Now(1, {MemberOf(i)});
    Publish(5);
    EXPECT_TRUE(register_->table().gathers);
    EXPECT_EQ(register_->next(), At(6));
    EXPECT_TRUE(Publish(6).empty());
    EXPECT_TRUE(register_->table().has_all());
    EXPECT_EQ(register_->table().version, 3U) << "it is news";
    EXPECT_EQ(register_->MembersToTell(), (KnownMembers{.count = 59, .others = {}})) << "too many to be named";
  }
}

TEST(MemberTableTest, ChangesLeadFromOneTableToTheOther) {
  MemberTable from, to;
  from.entries = {{NodeOf(1), {MemberOf(1), false}}, {NodeOf(2), {MemberOf(2), false}}};
  to.entries = {{NodeOf(2), {MemberOf(2), true}}, {NodeOf(3), {MemberOf(3), false}}};
  const TableChange change = ChangeBetween(from, to);
  EXPECT_EQ(change.entries, (Entries{{MemberOf(2), true}, {MemberOf(3), false}}));
  EXPECT_EQ(change.gone, (Gone{{NodeOf(1), 1, GoneWhy::kLost}}));
  EXPECT_FALSE(Apply(change, from).empty());
  EXPECT_EQ(from, to);
  EXPECT_TRUE(Apply(change, from).empty()) << "nothing of it is news";
}

}  // namespace
}  // namespace cairn
