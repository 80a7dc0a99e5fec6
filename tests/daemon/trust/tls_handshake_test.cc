// Mutual TLS 1.3 of a run: who gets in, and what both sides say of the others.
#include "daemon/trust/tls_handshake.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/trust/member_name.h"
#include "tests/daemon/trust/members.h"
#include "tests/daemon/trust/tls_pair.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::hours;
using testing::Forge;
using testing::MemberOf;
using testing::NewAuthority;
using testing::Noon;
using testing::RunOf;
using testing::Shake;
using testing::SignerOf;
using testing::TlsEnd;

class TlsHandshakeTest : public ::testing::Test {
 protected:
  std::shared_ptr<MemberProof> MemberAt(const std::shared_ptr<const Authority>& authority, std::uint8_t node,
                                        WallTime now = Noon()) {
    return std::make_shared<MemberProof>(authority, MemberOf(authority->run(), node), [now] { return now; });
  }
  static TlsEnd Dialling(std::shared_ptr<MemberProof> proof, std::string_view protocol = kLinkProtocol) {
    return {TlsSide::kDials, TlsHandshake::Dialling(std::move(proof), nullptr, protocol)};
  }
  static TlsEnd Answering(std::shared_ptr<MemberProof> proof) {
    auto find = [proof](const RunId& run) { return proof->me().run == run ? proof : nullptr; };
    return {TlsSide::kAnswers, TlsHandshake::Answering(find, nullptr)};
  }
  // A client of anything, which shows this certificate and trusts everybody.
  static TlsEnd Stranger(const Credential* shown, const RunId& run, int version = TLS1_3_VERSION,
                         const std::string& protocol = std::string(kLinkProtocol)) {
    return {TlsSide::kDials, [&](SSL* ssl) {
              SSL_set_min_proto_version(ssl, TLS1_VERSION);
              SSL_set_max_proto_version(ssl, version);
              if (run != RunId()) SSL_set_tlsext_host_name(ssl, RunServerName(run).c_str());
              if (shown != nullptr) {
                SSL_use_certificate(ssl, shown->certificate.get());
                SSL_use_PrivateKey(ssl, shown->key.get());
              }
              const std::string wire = std::string(1, static_cast<char>(protocol.size())) + protocol;
              if (protocol.empty()) return;
              SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(wire.data()),
                                  static_cast<unsigned int>(wire.size()));
            }};
  }
  // What our server says of a stranger, and he hears.
  struct Heard {
    Refusal ours;
    std::string alert;
  };
  Heard Refused(TlsEnd stranger) {
    TlsEnd answers = Answering(server_);
    Shake(stranger, answers);
    EXPECT_FALSE(answers.done());
    const unsigned long error = answers.Step();
    EXPECT_NE(error, 0u);
    return {answers.handshake().Explain(error), AlertOf(stranger.Step())};
  }
  static std::string AlertOf(unsigned long error) {
    const int alert = ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET;
    if (alert < 0) return "none";
    return alert == SSL_AD_CERTIFICATE_REQUIRED ? "certificate required"  // OpenSSL has no words for it
                                                : SSL_alert_desc_string_long(alert);
  }

  const std::shared_ptr<const Authority> authority_ = NewAuthority(RunOf(1));
  const std::shared_ptr<MemberProof> client_ = MemberAt(authority_, 7), server_ = MemberAt(authority_, 8);
};

TEST_F(TlsHandshakeTest, TwoMembersLearnWhoTheOtherIs) {
  TlsEnd dials = Dialling(client_), answers = Answering(server_);
  Shake(dials, answers);
  ASSERT_TRUE(dials.done() && answers.done());
  EXPECT_FALSE(dials.handshake().Finish().has_value());
  EXPECT_FALSE(answers.handshake().Finish().has_value());
  EXPECT_EQ(dials.handshake().peer(), server_->me());
  EXPECT_EQ(answers.handshake().peer(), client_->me());
  EXPECT_EQ(SSL_version(dials.ssl()), TLS1_3_VERSION);
  EXPECT_EQ(dials.handshake().OurFingerprint(), answers.handshake().TheirFingerprint());
}

TEST_F(TlsHandshakeTest, WhoDialsSaysWhatTravelsInside) {
  for (const std::string_view protocol : {kLinkProtocol, kBulkProtocol}) {
    TlsEnd dials = Dialling(client_, protocol), answers = Answering(server_);
    Shake(dials, answers);
    ASSERT_TRUE(dials.done() && answers.done());
    EXPECT_FALSE(dials.handshake().Finish().has_value());
    EXPECT_FALSE(answers.handshake().Finish().has_value());
    EXPECT_EQ(dials.handshake().protocol(), protocol);
    EXPECT_EQ(answers.handshake().protocol(), protocol);
  }
}

TEST_F(TlsHandshakeTest, OnlyTheTwoEndsOfOneConnectionHaveItsBinding) {
  TlsEnd dials = Dialling(client_), answers = Answering(server_);
  Shake(dials, answers);
  ASSERT_OK_AND_ASSIGN(const std::string one, dials.handshake().Binding("link"));
  ASSERT_OK_AND_ASSIGN(const std::string same, answers.handshake().Binding("link"));
  ASSERT_OK_AND_ASSIGN(const std::string other_use, answers.handshake().Binding("introduction"));
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other_use);
  TlsEnd dials_again = Dialling(client_), answers_again = Answering(server_);
  Shake(dials_again, answers_again);
  ASSERT_OK_AND_ASSIGN(const std::string other, dials_again.handshake().Binding("link"));
  EXPECT_NE(one, other);
}

TEST_F(TlsHandshakeTest, NothingCanBeResumed) {
  TlsEnd dials = Dialling(client_), answers = Answering(server_);
  Shake(dials, answers);
  ASSERT_TRUE(dials.done() && answers.done());
  EXPECT_FALSE(SSL_SESSION_is_resumable(SSL_get0_session(dials.ssl())));
  // One who asks for it all the same gets a whole handshake.
  TlsEnd again = Dialling(client_), answers_again = Answering(server_);
  SSL_set_session(again.ssl(), SSL_get0_session(dials.ssl()));
  Shake(again, answers_again);
  EXPECT_FALSE(SSL_session_reused(again.ssl()));
  EXPECT_FALSE(SSL_session_reused(answers_again.ssl()));
}

TEST_F(TlsHandshakeTest, OldTlsIsRefused) {
  const Credential credential = testing::CredentialOf(*authority_, client_->me(), Noon());
  for (const int version : {TLS1_2_VERSION, TLS1_1_VERSION, TLS1_VERSION}) {
    const Heard heard = Refused(Stranger(&credential, RunOf(1), version));
    EXPECT_EQ(heard.ours.flaw, Flaw::kOldTls) << heard.ours.text;
    EXPECT_EQ(heard.ours.text, "it does not speak TLS 1.3");
    EXPECT_EQ(heard.alert, "protocol version");
  }
}

TEST_F(TlsHandshakeTest, AServerOfOldTlsIsRefused) {
  TlsEnd dials = Dialling(client_);
  const Credential credential = testing::CredentialOf(*authority_, server_->me(), Noon());
  TlsEnd old(TlsSide::kAnswers, [&](SSL* ssl) {
    SSL_set_max_proto_version(ssl, TLS1_2_VERSION);
    SSL_use_certificate(ssl, credential.certificate.get());
    SSL_use_PrivateKey(ssl, credential.key.get());
  });
  Shake(dials, old);
  EXPECT_EQ(dials.handshake().Explain(dials.Step()).flaw, Flaw::kOldTls);
}

TEST_F(TlsHandshakeTest, WhatIsNoTlsIsToldApart) {
  for (const std::string& garbage : {std::string(200, 'x'), std::string("GET / HTTP/1.1\r\n\r\n"),
                                     std::string(64, '\0'), std::string("SSH-2.0-x\r\n")}) {
    TlsEnd answers = Answering(server_);
    answers.Give(garbage);
    const unsigned long error = answers.Step();
    ASSERT_NE(error, 0u) << garbage;
    const Refusal refusal = answers.handshake().Explain(error);
    EXPECT_EQ(refusal.flaw, Flaw::kNotTls) << refusal.text;
    TlsEnd dials = Dialling(client_);
    dials.Step();
    dials.Give(garbage);
    EXPECT_EQ(dials.handshake().Explain(dials.Step()).flaw, Flaw::kNotTls) << garbage;
  }
}

TEST_F(TlsHandshakeTest, WhoShowsNoCertificateIsRefused) {
  const Heard heard = Refused(Stranger(nullptr, RunOf(1)));
  EXPECT_EQ(heard.ours.flaw, Flaw::kNoCertificate) << heard.ours.text;
  EXPECT_EQ(heard.alert, "certificate required");
}

TEST_F(TlsHandshakeTest, CertificatesThatProveNothingAreToldApart) {
  const auto elsewhere = NewAuthority(RunOf(2)), pretender = NewAuthority(RunOf(1));
  const Credential signer = SignerOf(*authority_);
  const std::string name = MemberName(client_->me());
  struct Case {
    Credential shown;
    Flaw flaw;
    std::string alert;
  };
  std::vector<Case> cases;
  cases.push_back({testing::CredentialOf(*elsewhere, MemberOf(RunOf(2), 7), Noon()), Flaw::kForeign, "unknown CA"});
  cases.push_back({testing::CredentialOf(*pretender, client_->me(), Noon()), Flaw::kForeign, "unknown CA"});
  cases.push_back({Forge({.uri = name, .common_name = "me"}, nullptr), Flaw::kSelfSigned, "unknown CA"});
  cases.push_back(
      {testing::CredentialOf(*authority_, client_->me(), Noon() - hours(48)), Flaw::kExpired, "certificate expired"});
  cases.push_back(
      {testing::CredentialOf(*authority_, client_->me(), Noon() + hours(48)), Flaw::kNotYetValid, "bad certificate"});
  cases.push_back({Forge({.uri = name + "x"}, &signer), Flaw::kMalformed, "bad certificate"});
  cases.push_back({Forge({.uri = MemberName(MemberOf(RunOf(2), 7))}, &signer), Flaw::kOtherRun, "unknown CA"});
  for (const Case& one : cases) {
    const Heard heard = Refused(Stranger(&one.shown, RunOf(1)));
    EXPECT_EQ(heard.ours.flaw, one.flaw) << heard.ours.text;
    EXPECT_EQ(heard.alert, one.alert) << heard.ours.text;
  }
}

// The same, the other way: who dials does not take any server for a member.
TEST_F(TlsHandshakeTest, AServerThatProvesNothingIsRefusedAndHearsIt) {
  const auto pretender = NewAuthority(RunOf(1));
  TlsEnd dials = Dialling(client_), answers = Answering(MemberAt(pretender, 8));
  Shake(dials, answers);
  EXPECT_FALSE(dials.done());
  EXPECT_EQ(dials.handshake().Explain(dials.Step()).flaw, Flaw::kForeign);
  const Refusal told = answers.handshake().Explain(answers.Step());
  EXPECT_EQ(told.flaw, Flaw::kRefusedUs);
  EXPECT_EQ(told.text, "it refuses us: our certificate is not of an authority that it trusts for this run");
}

TEST_F(TlsHandshakeTest, WhoDialsHearsWhyHeIsRefused) {
  // By the other's clock ours has expired; the other's holds by both.
  const auto late = std::make_shared<MemberProof>(
      authority_, server_->me(), [] { return Noon() + hours(25); }, Validity{.before = hours(48)});
  TlsEnd dials = Dialling(client_), answers = Answering(late);
  Shake(dials, answers);
  EXPECT_EQ(answers.handshake().Explain(answers.Step()).flaw, Flaw::kExpired);
  const Refusal told = dials.handshake().Explain(dials.Step());
  EXPECT_EQ(told.flaw, Flaw::kRefusedUs);
  EXPECT_EQ(told.text, "it refuses us: our certificate has expired by its clock");
}

TEST_F(TlsHandshakeTest, ARunThatIsNotServedIsToldApart) {
  TlsEnd dials = Dialling(MemberAt(NewAuthority(RunOf(2)), 7)), answers = Answering(server_);
  Shake(dials, answers);
  const Refusal ours = answers.handshake().Explain(answers.Step());
  EXPECT_EQ(ours.flaw, Flaw::kUnknownRun);
  EXPECT_EQ(ours.text, "it asks for run " + RunOf(2).Hex() + ", which is not served here");
  const Refusal theirs = dials.handshake().Explain(dials.Step());
  EXPECT_EQ(theirs.text, "it does not serve this run");
  EXPECT_STATUS(absl::StatusCode::kUnavailable, ToStatus(theirs), "does not serve");
  EXPECT_EQ(Refused(Stranger(nullptr, RunId())).ours.text, "it asks for no run");
}

TEST_F(TlsHandshakeTest, AnotherProtocolInsideIsRefused) {
  const Credential credential = testing::CredentialOf(*authority_, client_->me(), Noon());
  const Heard heard = Refused(Stranger(&credential, RunOf(1), TLS1_3_VERSION, "h2"));
  EXPECT_EQ(heard.ours.flaw, Flaw::kProtocol) << heard.ours.text;
  // Who names none at all gets through TLS, and no further.
  TlsEnd silent = Stranger(&credential, RunOf(1), TLS1_3_VERSION, ""), answers = Answering(server_);
  Shake(silent, answers);
  ASSERT_TRUE(answers.done());
  ASSERT_TRUE(answers.handshake().Finish().has_value());
  EXPECT_EQ(answers.handshake().Finish()->flaw, Flaw::kProtocol);
}

TEST_F(TlsHandshakeTest, WhatIsChangedOnTheWayEndsIt) {
  for (std::size_t at : {std::size_t{20}, std::size_t{100}, std::size_t{300}, std::size_t{600}, std::size_t{900}}) {
    std::size_t seen = 0;
    bool changed = false;
    TlsEnd dials = Dialling(client_), answers = Answering(server_);
    Shake(dials, answers, [&](std::string& bytes) {
      if (seen <= at && at < seen + bytes.size()) {
        bytes[at - seen] = static_cast<char>(bytes[at - seen] ^ 1);
        changed = true;
      }
      seen += bytes.size();
    });
    ASSERT_TRUE(changed) << at;
    EXPECT_FALSE(dials.done() && answers.done()) << at;
  }
}

TEST_F(TlsHandshakeTest, WhatWasHeardBeforeDoesNotOpenIt) {
  std::vector<std::string> recorded;
  TlsEnd dials = Dialling(client_), answers = Answering(server_);
  Shake(dials, answers, [&](std::string& bytes) { recorded.push_back(bytes); });
  ASSERT_TRUE(answers.done());
  TlsEnd again = Answering(server_);
  for (std::size_t i = 0; i < recorded.size(); i += 2) {
    again.Give(recorded[i]);
    again.Step();
  }
  EXPECT_FALSE(again.done());
}

TEST_F(TlsHandshakeTest, ALaterHandshakeShowsARenewedCertificate) {
  WallTime now = Noon();
  const auto renewing = std::make_shared<MemberProof>(authority_, client_->me(), [&] { return now; });
  TlsEnd first = Dialling(renewing), answers = Answering(server_);
  Shake(first, answers);
  ASSERT_TRUE(first.done() && answers.done());
  now += hours(13);
  TlsEnd second = Dialling(renewing), answers_again = Answering(MemberAt(authority_, 8, now));
  Shake(second, answers_again);
  ASSERT_TRUE(second.done() && answers_again.done());
  EXPECT_NE(first.handshake().OurFingerprint(), second.handshake().OurFingerprint());
}

}  // namespace
}  // namespace cairn
