// The peer door between two daemons in one process: links and their ends. (Who is refused: peer_refusals_test.cc.)
#include "daemon/door/peer_door.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/clock.h"
#include "tests/daemon/door/peer_node.h"
#include "tests/daemon/door/raw_peer.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::LinkInHand;
using testing::NewAuthority;
using testing::PeerNode;
using testing::RunOf;

constexpr auto kCancelled = absl::StatusCode::kCancelled;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

const RunId kRun = RunOf(1);

struct BothEnds {
  std::unique_ptr<LinkInHand> ours, theirs;
};

class PeerDoorTest : public ::testing::Test {
 protected:
  // Both ends started.
  BothEnds Linked(PeerNode& from, PeerNode& to, const RunId& run = kRun) {
    auto ours = from.Dial(run, to.address());
    EXPECT_OK(ours);
    BothEnds ends{.ours = ours.ok() ? *std::move(ours) : nullptr, .theirs = to.Dialled()};
    if (ends.ours != nullptr) ends.ours->Start();
    if (ends.theirs != nullptr) ends.theirs->Start();
    return ends;
  }

  const std::shared_ptr<const Authority> authority_ = NewAuthority(kRun);
};

TEST_F(PeerDoorTest, TwoMembersAreLinkedAndKnowWhoTheOtherIs) {
  PeerNode a(0xaa), b(0xbb);
  a.Enter(authority_);
  b.Enter(authority_);
  const BothEnds ends = Linked(a, b);
  ASSERT_TRUE(ends.ours && ends.theirs);
  EXPECT_EQ(ends.ours->peer(), b.In(kRun));
  EXPECT_EQ(ends.theirs->peer(), a.In(kRun));
}

TEST_F(PeerDoorTest, FramesComeInOrderBothWaysAtOnce) {
  PeerNode a(1), b(2);
  a.Enter(authority_);
  b.Enter(authority_);
  const BothEnds ends = Linked(a, b);
  for (int i = 0; i < 2000; ++i) {
    ends.ours->Send(fmt::format("a{}", i));
    ends.theirs->Send(fmt::format("b{}", i));
  }
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(ends.theirs->Receive(), fmt::format("a{}", i));
    ASSERT_EQ(ends.ours->Receive(), fmt::format("b{}", i));
  }
}

TEST_F(PeerDoorTest, AFrameOfAlmostAllSizesComesWhole) {
  PeerNode a(1), b(2);
  a.Enter(authority_);
  b.Enter(authority_);
  const BothEnds ends = Linked(a, b);
  for (const std::size_t bytes : {0ul, 1ul, 16383ul, 16384ul, 65536ul, 1ul << 20, (4ul << 20) - 64}) {
    const std::string text(bytes, static_cast<char>('a' + bytes % 23));
    ends.ours->Send(text);
    ASSERT_EQ(ends.theirs->Receive(), text) << bytes;
    ends.theirs->Send(text);
    ASSERT_EQ(ends.ours->Receive(), text) << bytes;
  }
}

TEST_F(PeerDoorTest, AFrameThatIsTooLargeCostsTheLink) {
  PeerNode a(1), b(2);
  a.Enter(authority_);
  b.Enter(authority_);
  const BothEnds ends = Linked(a, b);
  ends.ours->Send(std::string((4u << 20) + 1, 'x'));
  EXPECT_STATUS(kResourceExhausted, ends.ours->Closed(), "a link takes 4194304");
  EXPECT_STATUS(kUnavailable, ends.theirs->Closed(), "");
}

TEST_F(PeerDoorTest, WhatCameBeforeStartIsKept) {
  PeerNode a(1), b(2);
  a.Enter(authority_);
  b.Enter(authority_);
  ASSERT_OK_AND_ASSIGN(const auto ours, a.Dial(kRun, b.address()));
  const auto theirs = b.Dialled();
  theirs->Start();
  theirs->Send("first");
  theirs->Send("second");
  theirs->Close();
  ours->Start();
  EXPECT_EQ(ours->Receive(), "first");
  EXPECT_EQ(ours->Receive(), "second");
  EXPECT_EQ(ours->Receive(), std::nullopt);
  EXPECT_STATUS(kCancelled, ours->Closed(), "has closed the link");
}

TEST_F(PeerDoorTest, WhatWasSentBeforeAnEndIsClosedStillArrives) {
  PeerNode a(1), b(2);
  a.Enter(authority_);
  b.Enter(authority_);
  for (const bool by_who_dialled : {true, false}) {
    const BothEnds ends = Linked(a, b);
    LinkInHand& closes = by_who_dialled ? *ends.ours : *ends.theirs;
    LinkInHand& stays = by_who_dialled ? *ends.theirs : *ends.ours;
    for (int i = 0; i < 100; ++i) closes.Send(std::string(10'000, 'x') + std::to_string(i));
    closes.Close();
    for (int i = 0; i < 100; ++i) ASSERT_EQ(stays.Receive(), std::string(10'000, 'x') + std::to_string(i));
    EXPECT_STATUS(kCancelled, stays.Closed(), "has closed the link");
    EXPECT_FALSE(closes.closed()) << "who has let go is not called any more";
  }
}

TEST_F(PeerDoorTest, ADoorThatGoesTakesItsLinksWithIt) {
  PeerNode a(1), b(2);
  a.Enter(authority_);
  b.Enter(authority_);
  const BothEnds there = Linked(a, b), back = Linked(b, a);
  b.Shut();
  EXPECT_STATUS(kUnavailable, there.ours->Closed(), "");
  EXPECT_STATUS(kUnavailable, back.theirs->Closed(), "");
  EXPECT_FALSE(there.theirs->closed());
  there.theirs->Send("into nothing");
  EXPECT_STATUS(kUnavailable, a.Dial(kRun, "127.0.0.1:1"), "");
}

TEST_F(PeerDoorTest, APeerThatAnswersNoPingsIsGone) {
  PeerDoor::Options options;
  options.ping_every = std::chrono::milliseconds(1000);
  options.ping_answer = std::chrono::milliseconds(200);
  PeerNode a(1, options);
  a.Enter(authority_);
  // A member, which says all that a member says first, and then nothing any more.
  const Credential credential = testing::CredentialOf(*authority_, testing::MemberOf(kRun, 9), WallNow());
  testing::RawServer mute([&](testing::RawPeer peer) {
    EXPECT_EQ(peer.Answer({.shown = &credential}), "");
    EXPECT_TRUE(peer.Introduce());
    EXPECT_NE(peer.End(), "still open after a minute");
  });
  ASSERT_OK_AND_ASSIGN(const auto link, a.Dial(kRun, mute.address()));
  EXPECT_EQ(link->peer(), testing::MemberOf(kRun, 9));
  link->Start();
  EXPECT_STATUS(kUnavailable, link->Closed(), "");
}

TEST_F(PeerDoorTest, WhoLeavesTooMuchUnreadLosesTheLink) {
  PeerDoor::Options options;
  options.queue_bytes_max = 1u << 20;
  PeerNode a(1, options), b(2);
  a.Enter(authority_);
  b.Enter(authority_);
  ASSERT_OK_AND_ASSIGN(const auto ours, a.Dial(kRun, b.address()));
  const auto theirs = b.Dialled();  // never started: it takes one frame, and no more
  ours->Start();
  for (int i = 0; i < 1000 && !ours->closed(); ++i) ours->Send(std::string(100'000, 'x'));
  EXPECT_STATUS(kResourceExhausted, ours->Closed(), "unread");
  theirs->Start();
  EXPECT_STATUS(kUnavailable, theirs->Closed(), "");
  EXPECT_LT(theirs->received(), 200u) << "what flows on the way has its bounds, too";
}

TEST_F(PeerDoorTest, ManyLinksOfManyRunsShareThePort) {
  PeerNode a(1), b(2);
  std::vector<BothEnds> links;
  for (std::uint8_t i = 1; i <= 8; ++i) {
    const auto authority = NewAuthority(RunOf(i));
    a.Enter(authority);
    b.Enter(authority);
    for (int j = 0; j < 4; ++j) links.push_back(Linked(a, b, RunOf(i)));
    EXPECT_EQ(links.back().theirs->peer().run, RunOf(i));
  }
  for (std::size_t i = 0; i < links.size(); ++i) links[i].ours->Send(std::to_string(i));
  for (std::size_t i = 0; i < links.size(); ++i) EXPECT_EQ(links[i].theirs->Receive(), std::to_string(i));
}

TEST_F(PeerDoorTest, LinksStayWhileCertificatesAreRenewed) {
  std::atomic<std::int64_t> hours{0};
  PeerDoor::Options options;
  options.wall = [&] { return testing::Noon() + std::chrono::hours(hours.load()); };
  PeerNode a(1, options), b(2, options);
  a.Enter(authority_);
  b.Enter(authority_);
  const BothEnds first = Linked(a, b);
  for (int day = 1; day <= 5; ++day) {
    hours = 20 * day;
    const BothEnds later = Linked(a, b);
    later.ours->Send("later");
    EXPECT_EQ(later.theirs->Receive(), "later");
    first.ours->Send("first");
    EXPECT_EQ(first.theirs->Receive(), "first");
  }
}

TEST_F(PeerDoorTest, ClocksMayDifferByAnHour) {
  PeerDoor::Options ahead, behind;
  ahead.wall = [] { return testing::Noon() + std::chrono::hours(1); };
  behind.wall = [] { return testing::Noon(); };
  PeerNode a(1, ahead), b(2, behind);
  a.Enter(authority_);
  b.Enter(authority_);
  EXPECT_TRUE(Linked(a, b).theirs);
  EXPECT_TRUE(Linked(b, a).theirs);
}

TEST_F(PeerDoorTest, TheFirstFreePortOfTheRangeIsTaken) {
  const std::unique_ptr<Loop> loop = MakeThreadLoop();
  const auto listen = [&](const std::string& ports) {
    PeerDoor::Options options = PeerNode::Loopback(1);
    options.peers.ports = ports;
    return PeerDoor::Listen(options, *loop);
  };
  ASSERT_OK_AND_ASSIGN(auto first, listen("20000-29999"));
  const std::string address = first->address();
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  ASSERT_OK_AND_ASSIGN(auto second, listen(fmt::format("{}-29999", port)));
  EXPECT_NE(second->address(), address);
  EXPECT_STATUS(kUnavailable, listen(std::to_string(port)), "all ports from");
  first.reset();
  EXPECT_OK(listen(std::to_string(port)));
}

TEST_F(PeerDoorTest, SettingsThatCannotBeAreNamed) {
  const std::unique_ptr<Loop> loop = MakeThreadLoop();
  const auto listen = [&](const std::string& interface, const std::string& munge = "off") {
    PeerDoor::Options options = PeerNode::Loopback(1);
    options.peers.interface = interface;
    options.peers.munge = munge;
    return PeerDoor::Listen(options, *loop);
  };
  EXPECT_OK(listen("lo"));
  EXPECT_STATUS(kInvalidArgument, listen("nosuch0"), "neither a network interface here nor an address");
  EXPECT_STATUS(kInvalidArgument, listen("0.0.0.0"), "stands for any address");
  EXPECT_STATUS(kInvalidArgument, listen("::"), "stands for any address");
  EXPECT_STATUS(kUnavailable, listen("192.0.2.1"), "cannot listen on 192.0.2.1");
  PeerDoor::Options options = PeerNode::Loopback(1);
  options.peers.tls_ca = options.peers.tls_cert = options.peers.tls_key = "/nowhere.pem";
  EXPECT_STATUS(kInvalidArgument, PeerDoor::Listen(options, *loop), "peers.tls_ca /nowhere.pem");
}

}  // namespace
}  // namespace cairn
