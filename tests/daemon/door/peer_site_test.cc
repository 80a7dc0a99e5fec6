// Links under a site's own authority, and with MUNGE: TLS' certificates say less then, and more is shown inside.
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "daemon/trust/member_name.h"
#include "tests/daemon/door/peer_node.h"
#include "tests/daemon/door/raw_peer.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/munged.h"
#include "tests/support/runfiles/runfiles.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::Munged;
using testing::NewAuthority;
using testing::PeerNode;
using testing::RawPeer;
using testing::RawServer;
using testing::RunOf;
using testing::WarningsHeard;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kPermissionDenied = absl::StatusCode::kPermissionDenied;

const RunId kRun = RunOf(1);

class PeerSiteTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = ::testing::TempDir() + "cairn-site-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    for (const char* site : {"ours", "theirs"}) {
      const std::string command = testing::Runfile("deploy/make-certs.sh") + " " + folder_ + "/" + site +
                                  " localhost >/dev/null 2>&1 </dev/null";
      ASSERT_EQ(std::system(command.c_str()), 0);
    }
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  static PeerDoor::Options Site(const std::string& site, const std::string& certificate = "peer") {
    PeerDoor::Options options;
    options.peers.tls_ca = folder_ + "/" + site + "/ca.pem";
    options.peers.tls_cert = folder_ + "/" + site + "/" + certificate + ".pem";
    options.peers.tls_key = folder_ + "/" + site + "/" + certificate + ".key";
    return options;
  }
  static Credential SitesOwn(const std::string& site) {
    const auto open = [&](const char* name) { return std::fopen((folder_ + "/" + site + "/" + name).c_str(), "r"); };
    std::FILE* const certificate = open("peer.pem");
    std::FILE* const key = open("peer.key");
    Credential credential{.certificate = Certificate(PEM_read_X509(certificate, nullptr, nullptr, nullptr)),
                          .key = PrivateKey(PEM_read_PrivateKey(key, nullptr, nullptr, nullptr))};
    std::fclose(certificate);
    std::fclose(key);
    return credential;
  }
  static PeerDoor::Options WithMunge(const std::string& mode, const std::string& socket) {
    PeerDoor::Options options;
    options.peers.munge = mode;
    options.munge_socket = socket;
    return options;
  }
  static void ExpectLinked(PeerNode& from, PeerNode& to) {
    ASSERT_OK_AND_ASSIGN(const auto ours, from.Dial(kRun, to.address()));
    const auto theirs = to.Dialled();
    ASSERT_TRUE(theirs);
    EXPECT_EQ(ours->peer(), to.In(kRun));
    EXPECT_EQ(theirs->peer(), from.In(kRun));
    ours->Start();
    theirs->Start();
    ours->Send("hello");
    EXPECT_EQ(theirs->Receive(), "hello");
  }

  inline static std::string folder_;
  const std::shared_ptr<const Authority> authority_ = NewAuthority(kRun);
};

TEST_F(PeerSiteTest, MembersAreLinkedAndKnowWhoTheOtherIs) {
  PeerNode a(1, Site("ours")), b(2, Site("ours"));
  a.Enter(authority_);
  b.Enter(authority_);
  ExpectLinked(a, b);
  ExpectLinked(b, a);
}

TEST_F(PeerSiteTest, AMemberOfAnotherAuthorityOfTheRunIsRefusedAndHearsIt) {
  PeerNode a(1, Site("ours")), b(2, Site("ours"));
  a.Enter(NewAuthority(kRun));
  b.Enter(authority_);
  const WarningsHeard log;
  EXPECT_STATUS(kPermissionDenied, a.Dial(kRun, b.address()), "not of this run's authority");
  EXPECT_TRUE(log.Wait("peer 127.0.0.1:")) << log.all();
  EXPECT_EQ(b.dialled(), 0u);
}

TEST_F(PeerSiteTest, AnotherSitesMemberIsRefused) {
  PeerNode a(1, Site("theirs")), b(2, Site("ours")), none(3);
  for (PeerNode* node : {&a, &b, &none}) node->Enter(authority_);
  EXPECT_STATUS(kPermissionDenied, a.Dial(kRun, b.address()), "not of the site's authority");
  EXPECT_STATUS(kPermissionDenied, none.Dial(kRun, b.address()), "not of this run's authority");
  EXPECT_STATUS(kPermissionDenied, b.Dial(kRun, none.address()), "not of the site's authority");
}

TEST_F(PeerSiteTest, TheSitesCertificateAloneMakesNoMember) {
  PeerNode node(1, Site("ours"));
  node.Enter(authority_);
  const Credential sites = SitesOwn("ours");
  const WarningsHeard log;
  RawPeer other = RawPeer::Connect(node.port());
  ASSERT_EQ(other.Dial({.shown = &sites, .server_name = RunServerName(kRun)}), "");
  EXPECT_FALSE(other.Introduce());
  EXPECT_TRUE(log.Wait("does not show that it is a member of the run")) << log.all();
  RawServer server([&](RawPeer peer) {
    EXPECT_EQ(peer.Answer({.shown = &sites}), "");
    EXPECT_FALSE(peer.Introduce());
  });
  EXPECT_STATUS(kPermissionDenied, node.Dial(kRun, server.address()), "does not show that it is a member");
}

// Who has the site's key and meets a member hears what it shows; to another member that proves nothing.
TEST_F(PeerSiteTest, WhatAMemberShowsCannotBeShownByAnother) {
  PeerNode a(1, Site("ours")), b(2, Site("ours"));
  a.Enter(authority_);
  b.Enter(authority_);
  const Credential sites = SitesOwn("ours");
  std::string shown;
  {
    RawServer between([&](RawPeer peer) {
      EXPECT_EQ(peer.Answer({.shown = &sites}), "");
      peer.Introduce("", &shown);
    });
    EXPECT_FALSE(a.Dial(kRun, between.address()).ok());
  }
  ASSERT_GT(shown.size(), 200u);
  const WarningsHeard log;
  RawPeer thief = RawPeer::Connect(b.port());
  ASSERT_EQ(thief.Dial({.shown = &sites, .server_name = RunServerName(kRun)}), "");
  EXPECT_FALSE(thief.Introduce(shown));
  EXPECT_TRUE(log.Wait("it shows a member's certificate, and has not its key")) << log.all();
  EXPECT_EQ(b.dialled(), 0u);
}

TEST_F(PeerSiteTest, ACertificateMustBeForBothSidesOfALink) {
  PeerNode a(1, Site("ours", "client")), b(2, Site("ours"));
  a.Enter(authority_);
  b.Enter(authority_);
  ExpectLinked(a, b);
  EXPECT_STATUS(kPermissionDenied, b.Dial(kRun, a.address()), "cannot be verified");
}

TEST_F(PeerSiteTest, FilesThatDoNotFitAreNamed) {
  const std::unique_ptr<Loop> loop = MakeThreadLoop();
  PeerDoor::Options mixed = PeerNode::Loopback(1, Site("ours"));
  mixed.peers.tls_key = folder_ + "/theirs/peer.key";
  EXPECT_STATUS(kInvalidArgument, PeerDoor::Listen(mixed, *loop), "the key is not the certificate's");
  PeerDoor::Options turned = PeerNode::Loopback(1, Site("ours"));
  turned.peers.tls_ca = turned.peers.tls_key;
  EXPECT_STATUS(kInvalidArgument, PeerDoor::Listen(turned, *loop), "the authorities: no certificate in it");
}

// --- MUNGE ---

TEST_F(PeerSiteTest, WhereMungeIsRequiredBothShowTheUser) {
  const auto munged = Munged::Start(std::string(64, 'k'));
  PeerNode a(1, WithMunge("require", munged->socket())), b(2, WithMunge("require", munged->socket()));
  a.Enter(authority_);
  b.Enter(authority_);
  ExpectLinked(a, b);
  ExpectLinked(b, a);
}

TEST_F(PeerSiteTest, WhereMungeIsRequiredNobodyComesWithout) {
  const auto munged = Munged::Start(std::string(64, 'k'));
  PeerNode a(1), b(2, WithMunge("require", munged->socket()));
  a.Enter(authority_);
  b.Enter(authority_);
  const WarningsHeard log;
  EXPECT_STATUS(kPermissionDenied, a.Dial(kRun, b.address()), "it shows no MUNGE credential");
  EXPECT_STATUS(kPermissionDenied, b.Dial(kRun, a.address()), "it shows no MUNGE credential");
  EXPECT_TRUE(log.Wait("refused: it shows no MUNGE credential, and peers.munge is require"));
  EXPECT_TRUE(log.Wait("refused: it refuses us: 'it shows no MUNGE credential"));
}

TEST_F(PeerSiteTest, AnotherRealmsCredentialIsRefusedAlsoByAuto) {
  const auto ours = Munged::Start(std::string(64, 'k')), theirs = Munged::Start(std::string(64, 'f'));
  PeerNode a(1, WithMunge("auto", theirs->socket())), b(2, WithMunge("auto", ours->socket())), without(3);
  for (PeerNode* node : {&a, &b, &without}) node->Enter(authority_);
  EXPECT_STATUS(kPermissionDenied, a.Dial(kRun, b.address()), "MUNGE credential: Invalid credential");
  ExpectLinked(without, b);
  ExpectLinked(b, without);
}

TEST_F(PeerSiteTest, AMungedThatIsGoneIsRefusedWhereItIsRequiredAndElseDoneWithout) {
  const auto munged = Munged::Start(std::string(64, 'k'));
  PeerNode strict(1, WithMunge("require", munged->socket())), easy(2, WithMunge("auto", munged->socket())), other(3);
  for (PeerNode* node : {&strict, &easy, &other}) node->Enter(authority_);
  munged->Kill();
  EXPECT_STATUS(kPermissionDenied, strict.Dial(kRun, other.address()), "MUNGE: munged makes no credential");
  ExpectLinked(easy, other);
}

}  // namespace
}  // namespace cairn
