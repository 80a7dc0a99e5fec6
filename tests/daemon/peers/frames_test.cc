// What members say to each other, there and back; and what is refused of it, by the name of the field.
#include "daemon/peers/frames.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "storage/place/arbiter/lease_series.h"
#include "tests/daemon/peers/sample.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;

CoordinatorName Name(std::uint64_t epoch = 4) {
  return {.epoch = epoch, .node = NodeOf(9), .incarnation = 3, .host = "node9", .address = "10.0.0.9:17001"};
}

TEST(FramesTest, MembersAndPlacesComeBackAsTheyWere) {
  EXPECT_EQ(*frames::ToMember(frames::From(MemberOf(1)), "m"), MemberOf(1));
  for (const bool attached : {false, true}) {
    const frames::Place place{.coordinator = Name(), .path = {NodeOf(9), NodeOf(8)}, .attached = attached};
    EXPECT_EQ(*frames::ToPlace(frames::From(place), "p"), place);
  }
  EXPECT_EQ(*frames::ToPlace(frames::From(frames::Place()), "p"), frames::Place());
}

TEST(FramesTest, EachFieldOfAMemberIsLookedAtAndNamed) {
  const std::vector<std::pair<std::string, std::function<void(peer::Member&)>>> bad = {
      {"m.node", [](auto& m) { m.set_node(""); }},
      {"m.node", [](auto& m) { m.set_node(std::string(33, 'a')); }},
      {"m.node", [](auto& m) { m.set_node(std::string(32, 'A')); }},
      {"m.node", [](auto& m) { m.set_node(std::string(1 << 20, 'a')); }},
      {"m.host", [](auto& m) { m.set_host(""); }},
      {"m.host", [](auto& m) { m.set_host(std::string(65, 'h')); }},
      {"m.host", [](auto& m) { m.set_host("a\nb"); }},
      {"m.address", [](auto& m) { m.set_address(""); }},
      {"m.address", [](auto& m) { m.set_address(std::string(129, 'h')); }},
      {"m.address", [](auto& m) { m.set_address("a\x7f"); }},
      {"m.since_us", [](auto& m) { m.set_since_us(-1); }},
  };
  for (const auto& [field, spoil] : bad) {
    peer::Member message = frames::From(MemberOf(1));
    spoil(message);
    EXPECT_STATUS(StatusCode::kInvalidArgument, frames::ToMember(message, "m"), field + ": ");
    EXPECT_LT(frames::ToMember(message, "m").status().message().size(), 500U);
  }
}

TEST(FramesTest, EachFieldOfAPlaceIsLookedAtAndNamed) {
  const std::vector<std::pair<std::string, std::function<void(peer::Place&)>>> bad = {
      {"p.coordinator.epoch", [](auto& p) { p.mutable_coordinator()->set_epoch(lease_series::kEpochMax + 1); }},
      {"p.coordinator.node", [](auto& p) { p.mutable_coordinator()->set_node("x"); }},
      {"p.coordinator.host", [](auto& p) { p.mutable_coordinator()->set_host(""); }},
      {"p.coordinator.address", [](auto& p) { p.mutable_coordinator()->set_address(std::string(129, 'a')); }},
      {"p.path", [](auto& p) { p.add_path("y"); }},
      {"p.path",
       [](auto& p) {
         for (int i = 0; i < 70; ++i) p.add_path(NodeOf(1));
       }},
      {"p.attached", [](auto& p) { p.clear_coordinator(); }},
  };
  for (const auto& [field, spoil] : bad) {
    peer::Place message = frames::From(frames::Place{.coordinator = Name(), .path = {}, .attached = true});
    spoil(message);
    EXPECT_STATUS(StatusCode::kInvalidArgument, frames::ToPlace(message, "p"), field + ": ");
  }
}

TEST(FramesTest, LongListsGoIntoSeveralFramesOfBoundedSizeAndComeBack) {
  frames::BelowChange change;
  TableChange table;
  for (std::uint32_t i = 1; i <= 700; ++i) {
    change.now.push_back(MemberOf(i));
    table.entries.push_back({.member = MemberOf(i), .missing = i % 2 == 0});
    if (i > 300) continue;
    change.gone.push_back(
        {.node = NodeOf(1000 + i), .incarnation = i, .why = i % 2 == 0 ? GoneWhy::kLeft : GoneWhy::kLost});
    table.gone.push_back(change.gone.back());
  }
  frames::BelowChange below;
  const auto below_frames = frames::Below(change);
  EXPECT_EQ(below_frames.size(), 3U);
  for (const peer::Frame& frame : below_frames) {
    EXPECT_LT(frame.ByteSizeLong(), 100'000U);
    const auto part = frames::ToBelow(frame.below());
    ASSERT_OK(part);
    below.now.insert(below.now.end(), part->now.begin(), part->now.end());
    below.gone.insert(below.gone.end(), part->gone.begin(), part->gone.end());
  }
  EXPECT_EQ(below.now, change.now);
  EXPECT_EQ(below.gone, change.gone);
  TableChange back;
  const auto table_frames = frames::Table(4, 17, /*whole=*/true, table);
  for (std::size_t i = 0; i < table_frames.size(); ++i) {
    const auto part = frames::ToTable(table_frames[i].table());
    ASSERT_OK(part);
    EXPECT_EQ(part->epoch, 4U);
    EXPECT_EQ(part->version, 17U);
    EXPECT_EQ(part->whole, i == 0);
    EXPECT_EQ(part->more, i + 1 < table_frames.size());
    back.entries.insert(back.entries.end(), part->change.entries.begin(), part->change.entries.end());
    back.gone.insert(back.gone.end(), part->change.gone.begin(), part->change.gone.end());
  }
  EXPECT_EQ(back.entries, table.entries);
  EXPECT_EQ(back.gone, table.gone);
  EXPECT_EQ(frames::Table(4, 17, /*whole=*/false, {}).size(), 1U) << "a version alone is news, too";
  for (const bool gathers : {false, true}) {
    const MemberTable known{.epoch = 4, .version = 17, .entries = {}, .gathers = gathers};
    EXPECT_EQ(frames::ToTable(frames::WholeTable(known, {}).front().table())->gathers, gathers);
    EXPECT_EQ(frames::ToTable(frames::Table(4, 17, false, {}, gathers).front().table())->gathers, gathers);
  }
}

TEST(FramesTest, ListsThatAreTooLongAreRefused) {
  peer::Below below;
  for (std::size_t i = 0; i <= frames::kListMax; ++i) *below.add_now() = frames::From(MemberOf(i));
  EXPECT_STATUS(StatusCode::kInvalidArgument, frames::ToBelow(below), "below.now: 257 entries");
  below.clear_now();
  for (std::size_t i = 0; i <= frames::kListMax; ++i) below.add_gone()->set_node(NodeOf(i));
  EXPECT_STATUS(StatusCode::kInvalidArgument, frames::ToBelow(below), "below.gone: 257 entries");
  peer::Table table;
  EXPECT_STATUS(StatusCode::kInvalidArgument, frames::ToTable(table), "table.epoch");
  table.set_epoch(1);
  for (std::size_t i = 0; i <= frames::kListMax; ++i)
    *table.add_entries()->mutable_member() = frames::From(MemberOf(i));
  EXPECT_STATUS(StatusCode::kInvalidArgument, frames::ToTable(table), "table.entries: 257 entries");
}

TEST(FramesTest, WhatIsWrongInAListIsNamedWithItsPlace) {
  peer::Below below;
  *below.add_now() = frames::From(MemberOf(1));
  below.add_now();
  EXPECT_STATUS(StatusCode::kInvalidArgument, frames::ToBelow(below), "below.now[1].node");
  below.clear_now();
  below.add_gone()->set_node(NodeOf(1));
  EXPECT_STATUS(StatusCode::kInvalidArgument, frames::ToBelow(below), "below.gone[0].why: 0 is not known");
  below.mutable_gone(0)->set_why(static_cast<peer::Gone::Why>(17));
  EXPECT_STATUS(StatusCode::kInvalidArgument, frames::ToBelow(below), "below.gone[0].why: 17 is not known");
  peer::Table table;
  table.set_epoch(1);
  table.add_entries();
  EXPECT_STATUS(StatusCode::kInvalidArgument, frames::ToTable(table), "table.entries[0].member.node");
}

TEST(FramesTest, AJoinMustMakeSense) {
  const auto join = [](const std::function<void(peer::Join&)>& spoil) {
    peer::Join message;
    *message.mutable_self() = frames::From(MemberOf(1));
    *message.add_below() = frames::From(MemberOf(2));
    message.set_members_below(1);
    message.set_height(1);
    spoil(message);
    return frames::ToJoined(message);
  };
  EXPECT_EQ(*join([](auto&) {}), (std::vector<Member>{MemberOf(1), MemberOf(2)}));
  EXPECT_STATUS(StatusCode::kInvalidArgument, join([](auto& m) { m.clear_self(); }), "join.self.node");
  EXPECT_STATUS(StatusCode::kInvalidArgument, join([](auto& m) { m.set_epoch(UINT64_MAX); }), "join.epoch");
  EXPECT_STATUS(StatusCode::kInvalidArgument, join([](auto& m) { m.set_height(65); }), "join.height");
  EXPECT_STATUS(StatusCode::kInvalidArgument, join([](auto& m) { m.set_members_below(0); }), "join.members_below");
  EXPECT_STATUS(StatusCode::kInvalidArgument, join([](auto& m) { *m.mutable_below(0) = m.self(); }), "join.below");
}

TEST(FramesTest, AJoinWithManyBelowIsGoneOnWith) {
  std::vector<Member> below;
  for (std::uint32_t i = 2; i < 602; ++i) below.push_back(MemberOf(i));
  const auto list = frames::Join(7, MemberOf(1), 3, below);
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].join().epoch(), 7U);
  EXPECT_EQ(list[0].join().height(), 3U);
  EXPECT_EQ(list[0].join().members_below(), 600U);
  std::vector<Member> all = *frames::ToJoined(list[0].join());
  EXPECT_EQ(all.size(), 257U);
  for (std::size_t i = 1; i < list.size(); ++i) {
    const auto part = frames::ToBelow(list[i].below());
    ASSERT_OK(part);
    all.insert(all.end(), part->now.begin(), part->now.end());
  }
  below.insert(below.begin(), MemberOf(1));
  EXPECT_EQ(all, below);
  EXPECT_EQ(frames::Join(7, MemberOf(1), 0, {}).size(), 1U);
}

TEST(FramesTest, TextsForTheLogAreCutAndCleaned) {
  const auto frame = frames::Elsewhere(peer::Elsewhere::FULL, std::string(900, 'x') + "\n", {}, "10.0.0.1:1");
  EXPECT_EQ(frame.elsewhere().text().size(), 500U);
  EXPECT_FALSE(frame.elsewhere().has_coordinator());
  EXPECT_OK(frames::Check(frame.elsewhere()));
  peer::Elsewhere bad = frame.elsewhere();
  bad.set_text("a\nb");
  EXPECT_STATUS(StatusCode::kInvalidArgument, frames::Check(bad), "elsewhere.text");
  bad = frame.elsewhere();
  bad.set_address(std::string(200, 'a'));
  EXPECT_STATUS(StatusCode::kInvalidArgument, frames::Check(bad), "elsewhere.address");
}

}  // namespace
}  // namespace cairn
