// The peer door and those who must not get in: each is refused, said apart in the log, and keeps nobody else out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "daemon/trust/member_name.h"
#include "storage/base/clock.h"
#include "tests/daemon/door/peer_node.h"
#include "tests/daemon/door/raw_peer.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::hours;
using testing::CredentialOf;
using testing::MemberOf;
using testing::NewAuthority;
using testing::PeerNode;
using testing::RawPeer;
using testing::RawServer;
using testing::RunOf;
using testing::WarningsHeard;

constexpr auto kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr auto kPermissionDenied = absl::StatusCode::kPermissionDenied;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

const RunId kRun = RunOf(1);

class PeerRefusalsTest : public ::testing::Test {
 protected:
  RawPeer::Tls Showing(const Credential* credential) const {
    return {.shown = credential, .server_name = RunServerName(kRun)};
  }
  // A stranger who shows this to `node`: both sides' words.
  void ExpectRefused(PeerNode& node, const RawPeer::Tls& tls, const std::string& logged, const std::string& told) {
    const WarningsHeard log;
    RawPeer stranger = RawPeer::Connect(node.port());
    std::string heard = stranger.Dial(tls);
    if (heard.empty()) heard = stranger.End();  // TLS 1.3: who dials is done before he is judged
    EXPECT_NE(heard.find(told), std::string::npos) << heard << ", expected " << told;
    EXPECT_TRUE(log.Wait(logged)) << log.all();
    EXPECT_NE(log.all().find("peer 127.0.0.1:"), std::string::npos) << log.all();
    EXPECT_EQ(node.dialled(), 0u);
  }
  // What our Dial says of a server that shows this.
  absl::Status DialTo(PeerNode& node, const Credential& shown, int version_max = TLS1_3_VERSION) {
    RawServer server([&](RawPeer peer) {
      peer.Answer({.shown = &shown, .version_max = version_max});
      peer.End();
    });
    return node.Dial(kRun, server.address()).status();
  }

  const std::shared_ptr<const Authority> authority_ = NewAuthority(kRun);
};

TEST_F(PeerRefusalsTest, StrangersAreToldApartOnBothSides) {
  PeerNode node(1);
  node.Enter(authority_);
  const auto elsewhere = NewAuthority(RunOf(2)), pretender = NewAuthority(kRun);
  const Credential signer = testing::SignerOf(*authority_);
  const WallTime now = WallNow();
  const PeerIdentity member = MemberOf(kRun, 9);
  const Credential foreign = CredentialOf(*elsewhere, MemberOf(RunOf(2), 9), now);
  const Credential pretending = CredentialOf(*pretender, member, now);
  const Credential expired = CredentialOf(*authority_, member, now - hours(48));
  const Credential early = CredentialOf(*authority_, member, now + hours(48));
  const Credential itself = testing::Forge(
      {.uri = MemberName(member), .common_name = "me", .from = now - hours(1), .until = now + hours(1)}, nullptr);
  const Credential no_node = testing::Forge(
      {.uri = MemberName(member).substr(0, 60), .from = now - hours(1), .until = now + hours(1)}, &signer);
  const Credential good = CredentialOf(*authority_, member, now);

  ExpectRefused(node, Showing(&foreign), "its certificate is not of this run's authority, but of", "unknown ca");
  ExpectRefused(node, Showing(&pretending), "its certificate is not of this run's authority, but of", "unknown ca");
  ExpectRefused(node, Showing(&expired), "its certificate expired at", "certificate expired");
  ExpectRefused(node, Showing(&early), "its certificate is valid from", "bad certificate");
  ExpectRefused(node, Showing(&itself), "its certificate is signed by itself, as", "unknown ca");
  ExpectRefused(node, Showing(&no_node), "names no member of a run", "bad certificate");
  ExpectRefused(node, Showing(nullptr), "it shows no certificate", "certificate required");
  RawPeer::Tls old = Showing(&good);
  old.version_max = TLS1_2_VERSION;
  ExpectRefused(node, old, "it does not speak TLS 1.3", "protocol version");
  RawPeer::Tls other_run = Showing(&good);
  other_run.server_name = RunServerName(RunOf(2));
  ExpectRefused(node, other_run, "it asks for run " + RunOf(2).Hex() + ", which is not served here",
                "unrecognized name");
  RawPeer::Tls silent = Showing(&good);
  silent.protocol.clear();
  ExpectRefused(node, silent, "it speaks no protocol of ours", "unexpected eof");
}

// What a peer still sends when it is refused must not take back what it was told: a closed socket would.
TEST_F(PeerRefusalsTest, WhoIsRefusedWhileItStillSpeaksHearsWhy) {
  PeerNode node(1);
  node.Enter(authority_);
  const Credential expired = CredentialOf(*authority_, MemberOf(kRun, 9), WallNow() - hours(48));
  const WarningsHeard log;
  RawPeer stranger = RawPeer::Connect(node.port());
  ASSERT_EQ(stranger.Dial(Showing(&expired)), "");
  ASSERT_TRUE(log.Wait("its certificate expired at"));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(stranger.Send("on and on"));
  EXPECT_NE(stranger.End().find("certificate expired"), std::string::npos);
}

TEST_F(PeerRefusalsTest, GarbageIsRefused) {
  PeerNode node(1);
  node.Enter(authority_);
  const WarningsHeard log;
  for (const std::string& garbage : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1000, 'x')}) {
    RawPeer stranger = RawPeer::Connect(node.port());
    stranger.Send(garbage);
    stranger.End();
  }
  EXPECT_TRUE(log.Wait("what it sends is no TLS")) << log.all();
  EXPECT_EQ(node.dialled(), 0u);
}

TEST_F(PeerRefusalsTest, AServerThatIsNoMemberIsNotTalkedTo) {
  PeerNode node(1);
  node.Enter(authority_);
  const auto pretender = NewAuthority(kRun);
  const WallTime now = WallNow();
  const PeerIdentity member = MemberOf(kRun, 9);
  const WarningsHeard log;
  EXPECT_STATUS(kPermissionDenied, DialTo(node, CredentialOf(*pretender, member, now)), "not of this run's authority");
  EXPECT_STATUS(kPermissionDenied, DialTo(node, CredentialOf(*authority_, member, now - hours(48))), "expired at");
  EXPECT_STATUS(kPermissionDenied, DialTo(node, CredentialOf(*authority_, member, now + hours(48))), "valid from");
  EXPECT_STATUS(kPermissionDenied, DialTo(node, CredentialOf(*authority_, member, now), TLS1_2_VERSION), "TLS 1.3");
  EXPECT_TRUE(log.Wait("not of this run's authority"));
  EXPECT_TRUE(log.Wait("does not speak TLS 1.3"));
}

TEST_F(PeerRefusalsTest, WhoDialsHearsWhyItIsRefused) {
  // By its clock our certificate has expired; its own holds by both.
  PeerDoor::Options late;
  late.wall = [] { return WallNow() + hours(25); };
  late.validity.before = hours(48);
  PeerNode a(1), b(2, late);
  a.Enter(authority_);
  b.Enter(authority_);
  const WarningsHeard log;
  EXPECT_STATUS(kPermissionDenied, a.Dial(kRun, b.address()),
                "it refuses us: our certificate has expired by its clock");
  EXPECT_TRUE(log.Wait("its certificate expired at")) << log.all();
  EXPECT_TRUE(log.Wait("it refuses us: our certificate has expired")) << log.all();
  EXPECT_EQ(b.dialled(), 0u);
}

TEST_F(PeerRefusalsTest, WhereNobodyListensOrServesItIsUnavailable) {
  PeerNode a(1), b(2);
  a.Enter(authority_);
  EXPECT_STATUS(kUnavailable, a.Dial(kRun, "127.0.0.1:1"), "cannot be reached");
  EXPECT_STATUS(kUnavailable, a.Dial(kRun, "nonsense"), "no address and port");
  EXPECT_STATUS(kUnavailable, a.Dial(RunOf(2), b.address()), "takes no part in run");
  EXPECT_STATUS(kUnavailable, a.Dial(kRun, b.address()), "it does not serve this run");
  b.Join(authority_);
  EXPECT_STATUS(kUnavailable, a.Dial(kRun, b.address()), "it does not serve this run");
  b.Serve(kRun);
  EXPECT_OK(a.Dial(kRun, b.address()));
  EXPECT_TRUE(b.Dialled());
  b.ServeNobody(kRun);
  EXPECT_STATUS(kUnavailable, a.Dial(kRun, b.address()), "it does not serve this run");
  a.Leave(kRun);
  EXPECT_STATUS(kUnavailable, a.Dial(kRun, b.address()), "takes no part");
}

TEST_F(PeerRefusalsTest, WhatTakesTooLongEndsAtTheDeadline) {
  PeerNode a(1);
  a.Enter(authority_);
  RawServer mute([](RawPeer peer) { peer.End(); });  // takes the connection, and never answers
  EXPECT_STATUS(kDeadlineExceeded, a.Dial(kRun, mute.address(), std::chrono::milliseconds(100)), "in time");
}

TEST_F(PeerRefusalsTest, ASlowHandshakeIsCutOff) {
  PeerDoor::Options options;
  options.handshake = std::chrono::milliseconds(100);
  PeerNode node(1, options);
  node.Enter(authority_);
  const WarningsHeard log;
  RawPeer idle = RawPeer::Connect(node.port());
  EXPECT_NE(idle.End(), "still open after a minute");
  RawPeer begun = RawPeer::Connect(node.port());
  begun.Send("\x16\x03\x01\x02");  // a ClientHello that never goes on
  EXPECT_NE(begun.End(), "still open after a minute");
  EXPECT_TRUE(log.Wait("has not proven who it is in time")) << log.all();
}

TEST_F(PeerRefusalsTest, AMemberThatNeverBeginsItsLinkIsCutOff) {
  PeerDoor::Options options;
  options.handshake = std::chrono::milliseconds(2000);
  options.ping_every = hours(1);  // gRPC itself says nothing of a silent peer meanwhile
  PeerNode node(1, options);
  node.Enter(authority_);
  const Credential credential = CredentialOf(*authority_, MemberOf(kRun, 9), WallNow());
  RawPeer member = RawPeer::Connect(node.port());
  ASSERT_EQ(member.Dial(Showing(&credential)), "");
  EXPECT_TRUE(member.Introduce());
  EXPECT_NE(member.End(), "still open after a minute");
  EXPECT_EQ(node.dialled(), 0u);
}

TEST_F(PeerRefusalsTest, AMemberThatSpeaksNonsenseInsideIsCutOff) {
  PeerNode node(1);
  node.Enter(authority_);
  const Credential credential = CredentialOf(*authority_, MemberOf(kRun, 9), WallNow());
  for (const std::string& nonsense :
       {std::string(1000, 'x'), std::string("\xff\xff", 2), std::string("\x00\x03xyz", 5)}) {
    RawPeer member = RawPeer::Connect(node.port());
    ASSERT_EQ(member.Dial(Showing(&credential)), "");
    member.Send(nonsense);  // in place of an introduction
    EXPECT_NE(member.End(), "still open after a minute");
  }
  RawPeer later = RawPeer::Connect(node.port());
  ASSERT_EQ(later.Dial(Showing(&credential)), "");
  ASSERT_TRUE(later.Introduce());
  later.Send(std::string(1000, 'x'));  // in place of gRPC
  EXPECT_NE(later.End(), "still open after a minute");
  EXPECT_EQ(node.dialled(), 0u);
}

TEST_F(PeerRefusalsTest, AFloodOfStrangersKeepsNoMemberOut) {
  PeerDoor::Options options;
  options.handshakes_max = 8;
  options.handshake = std::chrono::seconds(600);
  PeerNode node(1, options), member(2);
  node.Enter(authority_);
  member.Enter(authority_);
  const WarningsHeard log;
  std::vector<RawPeer> strangers;
  for (int i = 0; i < 100; ++i) strangers.push_back(RawPeer::Connect(node.port()));
  EXPECT_NE(strangers.front().End(), "still open after a minute") << "the oldest had to go";
  EXPECT_OK(member.Dial(kRun, node.address()));
  EXPECT_TRUE(node.Dialled());
  EXPECT_TRUE(log.Wait("too many connections wait for their handshake")) << log.all();
}

TEST_F(PeerRefusalsTest, BeyondSoManyLinksMembersAreRefusedAndHearIt) {
  PeerDoor::Options options;
  options.links_max = 2;
  PeerNode node(1, options), member(2);
  node.Enter(authority_);
  member.Enter(authority_);
  const WarningsHeard log;
  ASSERT_OK_AND_ASSIGN(auto first, member.Dial(kRun, node.address()));
  ASSERT_OK_AND_ASSIGN(const auto second, member.Dial(kRun, node.address()));
  EXPECT_STATUS(kUnavailable, member.Dial(kRun, node.address()), "too many links already");
  EXPECT_TRUE(log.Wait("there are too many links already")) << log.all();
  const auto theirs = node.Dialled();
  theirs->Start();
  first->Start();
  first->Close();
  EXPECT_STATUS(absl::StatusCode::kCancelled, theirs->Closed(), "");
  // The connection ends a little after the link.
  absl::Status again;
  for (int i = 0; i < 1000 && !(again = member.Dial(kRun, node.address()).status()).ok(); ++i) {
  }
  EXPECT_OK(again);
}

}  // namespace
}  // namespace cairn
