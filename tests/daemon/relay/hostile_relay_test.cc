// A member of the run that says what it must not where links are carried: it costs its own connection, or the link that
// it speaks of, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/relay/relaying_nodes.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using EndPtr = RelayingNodes::EndPtr;

constexpr std::uint32_t kNumber = 66;

// Node 1 is the home, node 2 has a link to it.
class HostileRelayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    nodes.Start(1, /*serves=*/true);
    nodes.Start(2);
    sound = nodes.Linked(2, 1);
    nodes.Say(sound);
    ASSERT_TRUE(nodes.RunUntil([this] { return nodes[1].at_home.size() == 1; }));
    loop = std::make_unique<SteppedLoop>(nodes.stepper());
    net = &nodes.network.Open(nodes.AddressOf(kNumber), self, *loop);
  }
  void TearDown() override {
    links.clear();
    nodes.network.Die(nodes.AddressOf(kNumber));
    loop->Stop();
  }

  void Take(std::unique_ptr<PeerLink> link) {
    links.push_back(std::move(link));
    said.clear();
    closed = false;
    const std::size_t number = links.size();
    links.back()->Start({.on_frame = [this](peer::Frame frame) { said.push_back(std::move(frame)); },
                         .on_closed = [this, number](const absl::Status&) { closed |= number == links.size(); }});
  }
  void Dial() {
    const std::size_t before = links.size();
    loop->Run([this] {
      net->Dial(RelayingNodes::kRun, nodes.AddressOf(1), milliseconds(1'000), [this](auto link) {
        ASSERT_OK(link);
        Take(*std::move(link));
      });
    });
    ASSERT_TRUE(nodes.RunUntil([&] { return links.size() > before; }));
  }
  void Say(const peer::Frame& frame) {
    loop->Run([&] { links.back()->Send(frame); });
    nodes.RunFor(milliseconds(50));
  }
  static peer::Frame Attach(std::uint32_t home = 1) {
    peer::Frame frame;
    frame.mutable_attach()->set_home(NodeOf(home));
    frame.mutable_attach()->set_address("10.0.0.66:17001");
    return frame;
  }
  peer::Carried Sound() const {
    peer::Carried carried;
    carried.set_node(self.node);
    carried.set_incarnation(self.incarnation);
    carried.set_way(1);
    carried.set_link(1);
    carried.set_number(1);
    carried.mutable_to_home()->mutable_failed()->set_dataset(1);
    return carried;
  }
  static peer::Frame Carry(const peer::Carried& carried) {
    peer::Frame frame;
    *frame.mutable_carry()->add_carried() = carried;
    return frame;
  }
  void ExpectSoundGoesOn() {
    ASSERT_FALSE(sound->closed);
    nodes.Say(sound);
    ASSERT_TRUE(nodes.RunUntil([this] { return nodes[1].at_home[0]->came.size() == sound->sent; }));
  }

  const PeerIdentity self{.run = RelayingNodes::kRun, .node = NodeOf(kNumber), .incarnation = 7};
  RelayingNodes nodes{3};
  EndPtr sound;
  std::unique_ptr<SteppedLoop> loop;
  PeerNet* net = nullptr;
  std::vector<std::unique_ptr<PeerLink>> links;
  std::vector<peer::Frame> said;
  bool closed = false;
};

TEST_F(HostileRelayTest, AttachIsForOneHomeAndComesOnce) {
  ASSERT_NO_FATAL_FAILURE(Dial());
  Say(Attach(/*home=*/5));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].elsewhere().why(), peer::Elsewhere::UNATTACHED);
  EXPECT_TRUE(closed);
  ASSERT_NO_FATAL_FAILURE(Dial());
  peer::Frame long_address = Attach();
  long_address.mutable_attach()->set_address(std::string(1'000, 'a'));
  Say(long_address);
  EXPECT_TRUE(closed);
  ASSERT_NO_FATAL_FAILURE(Dial());
  Say(Attach());
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].attached().path_size(), 1);
  EXPECT_FALSE(closed);
  Say(Attach());
  EXPECT_TRUE(closed);
  ExpectSoundGoesOn();
}

TEST_F(HostileRelayTest, WhatCannotComeFromBelowCostsTheConnection) {
  using Spoil = std::function<void(peer::Carried&)>;
  const std::vector<Spoil> spoils = {
      [](peer::Carried& carried) { carried.set_node("../../etc/passwd"); },
      [](peer::Carried& carried) { carried.set_node(NodeOf(1)); },  // the home's own
      [](peer::Carried& carried) { carried.set_incarnation(8); },   // not of its certificate
      [](peer::Carried& carried) { carried.set_way(0); },
      [](peer::Carried& carried) { carried.mutable_from_home()->mutable_whole(); },
      [](peer::Carried& carried) { carried.mutable_to_home()->mutable_failed()->set_why(std::string(3'300'000, 'x')); },
  };
  for (const Spoil& spoil : spoils) {
    ASSERT_NO_FATAL_FAILURE(Dial());
    Say(Attach());
    peer::Carried carried = Sound();
    spoil(carried);
    Say(Carry(carried));
    EXPECT_TRUE(closed) << carried.ShortDebugString();
  }
  ASSERT_NO_FATAL_FAILURE(Dial());
  Say(Attach());
  peer::Frame taken;
  taken.mutable_carry()->set_taken(1'000'000);  // more than was sent to it
  Say(taken);
  EXPECT_TRUE(closed);
  ExpectSoundGoesOn();
}

TEST_F(HostileRelayTest, WhatCannotBeOfALinkCostsTheLink) {
  using Spoil = std::function<void(peer::Carried&)>;
  const std::vector<Spoil> spoils = {
      [](peer::Carried& carried) { carried.set_number(3); },  // the second is missing
      [](peer::Carried& carried) { carried.set_heard(1); },   // nothing was said
      [](peer::Carried& carried) { carried.clear_body(); },
  };
  std::uint64_t link = 0;
  for (const Spoil& spoil : spoils) {
    ASSERT_NO_FATAL_FAILURE(Dial());
    Say(Attach());
    peer::Carried carried = Sound();
    carried.set_link(++link);
    Say(Carry(carried));
    ASSERT_EQ(nodes[1].at_home.size(), 1 + link);
    EXPECT_FALSE(nodes[1].at_home.back()->closed);
    carried.set_number(2);
    spoil(carried);
    Say(Carry(carried));
    EXPECT_TRUE(nodes[1].at_home.back()->closed) << carried.ShortDebugString();
    EXPECT_FALSE(closed);
  }
  ExpectSoundGoesOn();
}

TEST_F(HostileRelayTest, ALinkBeginsOnceAndOfANodeTheOldestGo) {
  ASSERT_NO_FATAL_FAILURE(Dial());
  Say(Attach());
  for (std::uint64_t link = 1; link <= 6; ++link) {
    peer::Carried carried = Sound();
    carried.set_link(link);
    Say(Carry(carried));
  }
  ASSERT_EQ(nodes[1].at_home.size(), 1 + 6u);
  for (int link = 1; link <= 6; ++link) EXPECT_EQ(nodes[1].at_home[link]->closed.has_value(), link <= 2) << link;
  peer::Carried end;
  end.set_kind(peer::Carried::CLOSED);
  end.set_node(self.node);
  end.set_incarnation(self.incarnation);
  end.set_way(1);
  end.set_link(5);
  Say(Carry(end));
  EXPECT_TRUE(nodes[1].at_home[5]->closed);
  peer::Carried again = Sound();
  again.set_link(5);
  Say(Carry(again));
  EXPECT_EQ(nodes[1].at_home.size(), 1 + 6u) << "its first frame came before";
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said.back().carry().carried(0).kind(), peer::Carried::CLOSED);
  ExpectSoundGoesOn();
}

TEST_F(HostileRelayTest, SomebodyWhoSaysThatAnotherNodeIsLostCutsOnlyWhatGoesByWayOfIt) {
  ASSERT_NO_FATAL_FAILURE(Dial());
  Say(Attach());
  peer::Carried lost;
  lost.set_kind(peer::Carried::LOST);
  lost.set_node(NodeOf(2));
  lost.set_incarnation(1);
  lost.set_way(99);
  Say(Carry(lost));
  nodes.RunFor(milliseconds(10'000));
  ExpectSoundGoesOn();
}

// As a parent.
TEST_F(HostileRelayTest, WhoAnswersAnAttachWithNonsenseIsNoParent) {
  using Spoil = std::function<void(peer::Frame&)>;
  const std::vector<Spoil> spoils = {
      [](peer::Frame& frame) { frame.mutable_attached()->clear_path(); },
      [](peer::Frame& frame) { frame.mutable_attached()->set_path(0, NodeOf(1)); },
      [](peer::Frame& frame) { frame.mutable_attached()->add_path(NodeOf(2)); },
      [](peer::Frame& frame) { frame.mutable_attached()->set_incarnation(99); },
      [](peer::Frame& frame) { frame.mutable_pulse(); },
  };
  for (const Spoil& spoil : spoils) {
    loop->Run([this, spoil] {
      net->Serve(RelayingNodes::kRun, [this, spoil](std::unique_ptr<PeerLink> link) {
        Take(std::move(link));
        peer::Frame answer;
        answer.mutable_attached()->set_incarnation(self.incarnation);
        answer.mutable_attached()->add_path(self.node);
        spoil(answer);
        links.back()->Send(answer);
      });
    });
    const EndPtr end = nodes.Dial(2, kNumber);
    ASSERT_TRUE(nodes.RunUntil([&] { return end->failed.has_value(); }, milliseconds(6'000)));
    EXPECT_EQ(end->link, nullptr);
  }
  ExpectSoundGoesOn();
}

}  // namespace
}  // namespace cairn
