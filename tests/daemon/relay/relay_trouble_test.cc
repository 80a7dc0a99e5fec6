// Sequences of events in which links between nodes and a home once got lost, stood still, or stayed for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/daemon/relay/relaying_nodes.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using EndPtr = RelayingNodes::EndPtr;

// With so many nodes, of which the first is the home, all linked.
class Linked {
 public:
  Linked(std::uint64_t seed, std::uint32_t count, std::size_t fan_in) : nodes(seed, {.fan_in = fan_in}) {
    for (std::uint32_t number = 1; number <= count; ++number) nodes.Start(number, number == 1);
    for (std::uint32_t number = 2; number <= count; ++number) {
      ends[number] = nodes.Linked(number, 1);
      nodes.Say(ends[number]);
      nodes.RunFor(milliseconds(20));
    }
  }
  EndPtr HomeEndOf(std::uint32_t number) {
    const auto& all = nodes[1].at_home;
    return *std::ranges::find_if(all, [&](const EndPtr& end) { return end->name == ends[number]->name; });
  }

  RelayingNodes nodes;
  std::map<std::uint32_t, EndPtr> ends;
};

TEST(RelayTroubleTest, ALargeFrameBehindASmallOneArrives) {
  Linked two(1, 2, 2);
  two.nodes.Say(two.ends[2], 2'000'000);
  two.nodes.Say(two.ends[2]);
  EXPECT_TRUE(two.nodes.RunUntil([&] { return two.HomeEndOf(2)->came.size() == 3; }, milliseconds(1'000)));
}

// A node finds that its parent is gone before the grandparent does, and finds another way by that one.
TEST(RelayTroubleTest, WhatWasSentByAWayThatIsNoneDoesNotEndTheLink) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Linked all(seed, 15, 2);
    std::uint32_t parent = 0, node = 0;
    for (const std::uint32_t first : all.nodes.Below(1)) {
      for (const std::uint32_t second : all.nodes.Below(first)) {
        for (const std::uint32_t third : all.nodes.Below(second)) std::tie(parent, node) = std::pair(second, third);
      }
    }
    ASSERT_NE(node, 0u);
    const EndPtr at_home = all.HomeEndOf(node);
    all.nodes.network.Block(all.nodes.AddressOf(node), all.nodes.AddressOf(parent));
    all.nodes.network.Block(all.nodes.AddressOf(parent), all.nodes.AddressOf(node));
    all.nodes[node].loop->Run([&] { all.nodes[node].relay->IsMissing(NodeOf(parent)); });
    for (int i = 0; i < 300; ++i) {
      all.nodes.Say(at_home);
      all.nodes.RunFor(milliseconds(1));
    }
    ASSERT_TRUE(all.nodes.RunUntil([&] { return all.ends[node]->came.size() == 300; }, milliseconds(3'000)))
        << "seed " << seed;
    ASSERT_FALSE(all.ends[node]->closed) << "seed " << seed;
  }
}

TEST(RelayTroubleTest, AChildThatOthersDoNotReachKeepsNobodyOut) {
  Linked all(3, 3, 2);
  for (std::uint32_t number = 4; number <= 5; ++number) {
    all.nodes.Start(number);
    all.nodes.network.Block(all.nodes.AddressOf(number), all.nodes.AddressOf(2));
    const EndPtr end = all.nodes.Dial(number, 1);
    EXPECT_TRUE(all.nodes.RunUntil([&] { return end->link != nullptr; }, milliseconds(6'000))) << number;
  }
}

TEST(RelayTroubleTest, ADaemonThatNobodyNeedsOnTheWayLetsGo) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Linked all(seed, 3, 1);
    all.ends[2]->link = nullptr;
    all.nodes.RunFor(milliseconds(50));
    EXPECT_EQ(all.nodes.Below(1), std::vector<std::uint32_t>{2}) << "it is on the way of the third";
    all.nodes.network.BreakLinks(all.nodes.AddressOf(1), all.nodes.AddressOf(2));
    all.nodes.RunFor(milliseconds(10'000));
    EXPECT_TRUE(all.nodes.Below(3).empty()) << "seed " << seed;
    all.ends[3]->link = nullptr;
    all.nodes.RunFor(milliseconds(10'000));
    EXPECT_TRUE(all.nodes.Below(1).empty()) << "seed " << seed;
  }
}

TEST(RelayTroubleTest, AllWhoComeAtOnceFindAPlaceNearTheHome) {
  constexpr std::uint32_t kCount = 120;
  RelayingNodes nodes(7, {.fan_in = 5});
  for (std::uint32_t number = 1; number <= kCount; ++number) nodes.Start(number, number == 1);
  std::vector<EndPtr> ends;
  for (std::uint32_t number = 2; number <= kCount; ++number) ends.push_back(nodes.Dial(number, 1));
  ASSERT_TRUE(
      nodes.RunUntil([&] { return std::ranges::all_of(ends, [](const EndPtr& end) { return end->link != nullptr; }); },
                     milliseconds(2'000)));
  std::map<std::uint32_t, int> depth{{1, 0}};
  std::vector<std::uint32_t> row = {1};
  while (!row.empty()) {
    std::vector<std::uint32_t> next;
    for (const std::uint32_t parent : row) {
      for (const std::uint32_t child : nodes.Below(parent)) {
        depth[child] = depth[parent] + 1;
        next.push_back(child);
      }
    }
    row = std::move(next);
  }
  EXPECT_EQ(depth.size(), kCount);
  for (const auto& [number, links] : depth) EXPECT_LE(links, 4) << number << ": three would do";
}

// As a daemon does that quiesces, and finds by what a link says that it waits for nothing any more.
TEST(RelayTroubleTest, ARelayMayGoInsideAReportOfItsLinks) {
  for (const bool home : {true, false}) {
    RelayingNodes nodes(1);
    nodes.Start(1, /*serves=*/!home);
    nodes.Start(2);
    auto& node = nodes[home ? 1 : 2];
    std::shared_ptr<PeerLink> held;
    const auto hold = [&](std::unique_ptr<PeerLink> link) {
      held = std::move(link);
      held->Start({.on_frame =
                       [&](const peer::Frame&) {
                         if (node.relay == nullptr) return;
                         node.relay->Serve(nullptr);
                         node.loop->Post([link = std::exchange(held, nullptr)] {});
                         node.relay = nullptr;
                       },
                   .on_closed = [](const absl::Status&) {}});
    };
    EndPtr end;
    if (home) {
      node.loop->Run([&] { node.relay->Serve(hold); });
      end = nodes.Linked(2, 1);
      nodes.Say(end);
    } else {
      node.loop->Run([&] {
        node.relay->Dial(NodeOf(1), nodes.AddressOf(1), milliseconds(5'000), [&](auto link) {
          hold(*std::move(link));
          peer::Frame frame;
          frame.mutable_to_home()->mutable_failed()->set_dataset(1'000'000);
          held->Send(std::move(frame));
        });
      });
      ASSERT_TRUE(nodes.RunUntil([&] { return nodes[1].at_home.size() == 1; }));
      nodes.Say(nodes[1].at_home[0]);
    }
    EXPECT_TRUE(nodes.RunUntil([&] { return node.relay == nullptr; }, milliseconds(3'000)));
    nodes.RunFor(milliseconds(100));
    held = nullptr;
  }
}

}  // namespace
}  // namespace cairn
