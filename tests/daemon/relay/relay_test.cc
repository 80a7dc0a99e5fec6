// Links to a launch's home go by way of other daemons, and outlive broken connections: daemon/relay/relay.h.
#include "daemon/relay/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/daemon/relay/relaying_nodes.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using EndPtr = RelayingNodes::EndPtr;

std::vector<std::uint64_t> UpTo(std::uint64_t last) {
  std::vector<std::uint64_t> all(last);
  std::iota(all.begin(), all.end(), 1);
  return all;
}

// Node 1 is the home.
class RelayTest : public ::testing::Test {
 protected:
  void StartUpTo(std::uint32_t last) {
    for (std::uint32_t number = 1; number <= last; ++number) nodes.Start(number, /*serves=*/number == 1);
  }
  std::vector<EndPtr>& at_home() { return nodes[1].at_home; }
  EndPtr HomeEndOf(std::uint32_t from) {
    for (const EndPtr& end : std::vector(at_home().rbegin(), at_home().rend())) {
      if (end->link && !end->closed && end->link->peer().node == NodeOf(from)) return end;
    }
    return nullptr;
  }
  // A number goes up and one comes down.
  void ExpectTalks(std::uint32_t from, const EndPtr& end) {
    const auto came = end->came.size();
    nodes.Say(end);
    ASSERT_TRUE(nodes.RunUntil([&] { return HomeEndOf(from) && HomeEndOf(from)->came == UpTo(end->sent); })) << from;
    nodes.Say(HomeEndOf(from));
    ASSERT_TRUE(nodes.RunUntil([&] { return end->came == UpTo(came + 1); })) << from;
  }

  RelayingNodes nodes{1, {.fan_in = 2}};
};

TEST_F(RelayTest, WhatIsSentArrivesOnceInOrderAtBothEnds) {
  StartUpTo(2);
  const EndPtr end = nodes.Linked(2, 1);
  EXPECT_EQ(end->link->peer(), (PeerIdentity{.run = RelayingNodes::kRun, .node = NodeOf(1), .incarnation = 1}));
  for (int i = 0; i < 100; ++i) nodes.Say(end, 20'000);  // more than may be on the way at a time
  ASSERT_TRUE(nodes.RunUntil([&] { return at_home().size() == 1 && at_home()[0]->came.size() == 100; }));
  EXPECT_EQ(at_home()[0]->came, UpTo(100));
  EXPECT_EQ(at_home()[0]->link->peer().node, NodeOf(2));
  for (int i = 0; i < 100; ++i) nodes.Say(at_home()[0], 20'000);
  ASSERT_TRUE(nodes.RunUntil([&] { return end->came.size() == 100; }));
  EXPECT_EQ(end->came, UpTo(100));
}

TEST_F(RelayTest, NobodyHasMoreLinksThanItTakesAndAllReachTheHome) {
  StartUpTo(12);
  std::vector<EndPtr> ends;
  for (std::uint32_t number = 2; number <= 12; ++number) ends.push_back(nodes.Linked(number, 1));
  for (std::uint32_t number = 1; number <= 12; ++number) EXPECT_LE(nodes.Below(number).size(), 2u) << number;
  for (std::uint32_t number = 2; number <= 12; ++number) ExpectTalks(number, ends[number - 2]);
  EXPECT_THAT(at_home(), SizeIs(11));
}

TEST_F(RelayTest, WhatComesAtTheSameTimeReachesTheHomeInFewFrames) {
  StartUpTo(14);
  std::vector<EndPtr> ends;
  for (std::uint32_t number = 2; number <= 14; ++number) {
    ends.push_back(nodes.Linked(number, 1));
    ExpectTalks(number, ends.back());
  }
  nodes.network.traffic(nodes.AddressOf(1)) = {};
  for (int i = 0; i < 10; ++i) {
    for (const EndPtr& end : ends) nodes.Say(end);
  }
  ASSERT_TRUE(nodes.RunUntil(
      [&] { return std::ranges::all_of(at_home(), [](const EndPtr& end) { return end->came.size() == 11; }); }));
  EXPECT_LT(nodes.network.traffic(nodes.AddressOf(1)).frames_in, 30u) << "of 130 numbers";
}

TEST_F(RelayTest, ABrokenConnectionCostsNoLinkAndNoFrame) {
  StartUpTo(4);
  std::vector<EndPtr> ends;
  for (std::uint32_t number = 2; number <= 4; ++number) {
    ends.push_back(nodes.Linked(number, 1));
    ExpectTalks(number, ends.back());
  }
  for (int round = 0; round < 30; ++round) {
    for (const EndPtr& end : ends) nodes.Say(end);
    for (std::uint32_t number = 2; number <= 4; ++number) nodes.Say(HomeEndOf(number));
    nodes.RunFor(milliseconds(1 + round % 7));
    const std::uint32_t a = 1 + round % 3, b = 2 + round % 3;
    nodes.network.BreakLinks(nodes.AddressOf(a), nodes.AddressOf(b));
  }
  nodes.RunFor(milliseconds(3'000));
  EXPECT_THAT(at_home(), SizeIs(3)) << "no link was made anew";
  for (std::uint32_t number = 2; number <= 4; ++number) {
    const EndPtr& end = ends[number - 2];
    EXPECT_FALSE(end->closed) << number;
    EXPECT_EQ(HomeEndOf(number)->came, UpTo(31)) << number;
    EXPECT_EQ(end->came, UpTo(31)) << number;
  }
}

TEST_F(RelayTest, ThoseBelowADaemonThatDiesFindAnotherWay) {
  StartUpTo(7);
  std::vector<EndPtr> ends;
  for (std::uint32_t number = 2; number <= 7; ++number) {
    ends.push_back(nodes.Linked(number, 1));
    ExpectTalks(number, ends.back());
  }
  const std::vector<std::uint32_t> direct = nodes.Below(1);
  ASSERT_THAT(direct, SizeIs(2));
  const std::vector<std::uint32_t> orphans = nodes.Below(direct[0]);
  ASSERT_FALSE(orphans.empty());
  for (const std::uint32_t orphan : orphans) nodes.Say(HomeEndOf(orphan));
  nodes.Kill(direct[0]);
  nodes.RunFor(milliseconds(3'000));
  for (std::uint32_t number = 2; number <= 7; ++number) {
    if (number == direct[0]) continue;
    EXPECT_FALSE(ends[number - 2]->closed) << number;
    ExpectTalks(number, ends[number - 2]);
  }
}

TEST_F(RelayTest, AHomeThatWasStartedAgainIsAnotherOne) {
  StartUpTo(2);
  const EndPtr end = nodes.Linked(2, 1);
  ExpectTalks(2, end);
  nodes.Kill(1);
  nodes.Start(1, true);
  ASSERT_TRUE(nodes.RunUntil([&] { return end->closed.has_value(); }, milliseconds(5'000)));
  EXPECT_THAT(end->closed->ToString(), HasSubstr("started again"));
  const EndPtr again = nodes.Linked(2, 1);
  EXPECT_EQ(again->link->peer().incarnation, 2u);
  ExpectTalks(2, again);
}

TEST_F(RelayTest, WhoeverHasNoWayForTooLongLosesTheLinkAtBothEnds) {
  StartUpTo(2);
  const EndPtr end = nodes.Linked(2, 1);
  ExpectTalks(2, end);
  nodes.network.Block(nodes.AddressOf(2), nodes.AddressOf(1));
  nodes.network.BreakLinks(nodes.AddressOf(1), nodes.AddressOf(2));
  nodes.RunFor(milliseconds(4'000));
  EXPECT_FALSE(end->closed);
  EXPECT_FALSE(at_home()[0]->closed);
  nodes.RunFor(milliseconds(2'000));
  EXPECT_TRUE(end->closed);
  EXPECT_TRUE(at_home()[0]->closed);
  nodes.network.UnblockAll();
  ExpectTalks(2, nodes.Linked(2, 1));
}

TEST_F(RelayTest, WhatWasSentBeforeTheEndStillArrives) {
  StartUpTo(4);
  for (std::uint32_t number = 2; number <= 4; ++number) ExpectTalks(number, nodes.Linked(number, 1));
  const EndPtr end = nodes.Linked(4, 1);
  for (int i = 0; i < 200; ++i) nodes.Say(end, 20'000);  // not much more is still said
  end->link = nullptr;
  ASSERT_TRUE(nodes.RunUntil([&] { return at_home().size() == 4 && at_home().back()->closed; }));
  EXPECT_EQ(at_home().back()->came, UpTo(200));
  EXPECT_EQ(at_home().back()->closed->code(), absl::StatusCode::kCancelled);
}

TEST_F(RelayTest, WhoLetsGoAtHomeIsHeardBelow) {
  StartUpTo(4);
  std::vector<EndPtr> ends;
  for (std::uint32_t number = 2; number <= 4; ++number) {
    ends.push_back(nodes.Linked(number, 1));
    ExpectTalks(number, ends.back());
  }
  HomeEndOf(4)->link = nullptr;
  ASSERT_TRUE(nodes.RunUntil([&] { return ends[2]->closed.has_value(); }, milliseconds(1'000)));
  EXPECT_EQ(ends[2]->closed->code(), absl::StatusCode::kCancelled);
  ExpectTalks(4, nodes.Linked(4, 1));
}

TEST_F(RelayTest, AHomeThatIsNotThereIsNotWaitedFor) {
  StartUpTo(2);
  const EndPtr end = nodes.Dial(2, 9);
  ASSERT_TRUE(nodes.RunUntil([&] { return end->failed.has_value(); }, milliseconds(100)));
  EXPECT_EQ(end->failed->code(), absl::StatusCode::kUnavailable);
}

TEST_F(RelayTest, OneThatIsNoHomeLetsNobodyIn) {
  StartUpTo(3);
  const EndPtr end = nodes.Dial(2, 3);
  ASSERT_TRUE(nodes.RunUntil([&] { return end->failed.has_value(); }, milliseconds(6'000)));
  EXPECT_THAT(end->failed->ToString(), HasSubstr("it serves no rank of that launch"));
}

TEST_F(RelayTest, ALinkThatNobodyNeedsAnyMoreEnds) {
  StartUpTo(2);
  EndPtr end = nodes.Linked(2, 1);
  ExpectTalks(2, end);
  end->link = nullptr;
  ASSERT_TRUE(nodes.RunUntil([&] { return nodes.Below(1).empty(); }, milliseconds(1'000)));
}

TEST_F(RelayTest, WhoseFramesAreNotReadDoesNotFillTheOthersMemory) {
  StartUpTo(2);
  const EndPtr end = nodes.Linked(2, 1);
  ExpectTalks(2, end);
  nodes.network.Block(nodes.AddressOf(2), nodes.AddressOf(1));  // it is not broken, but stands
  nodes.network.traffic(nodes.AddressOf(2)) = {};
  for (int i = 0; i < 100; ++i) nodes.Say(end, 100'000);
  nodes.RunFor(milliseconds(1'000));
  EXPECT_LT(nodes.network.traffic(nodes.AddressOf(2)).bytes_out, 300'000u) << "on the way";
  for (int i = 0; i < 100 && !end->closed; ++i) nodes.Say(end, 3'000'000);
  ASSERT_TRUE(nodes.RunUntil([&] { return end->closed.has_value(); }, milliseconds(1'000)));
  EXPECT_EQ(end->closed->code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace cairn
