// A run's own authority: who is a member, and who is not.
#include "daemon/trust/authority.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>

#include "daemon/trust/member_name.h"
#include "storage/base/quoted.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::CredentialOf;
using testing::Forge;
using testing::MemberOf;
using testing::NewAuthority;
using testing::Noon;
using testing::RunOf;
using testing::SignerOf;

class AuthorityTest : public ::testing::Test {
 protected:
  Flaw FlawOf(X509* certificate, WallTime now = Noon()) {
    const auto judged = authority_->Judge(certificate, now);
    if (std::holds_alternative<PeerIdentity>(judged)) return Flaw::kBroken;  // never an authority's word
    text_ = std::get<Refusal>(judged).text;
    return std::get<Refusal>(judged).flaw;
  }
  Flaw FlawOf(const Credential& credential, WallTime now = Noon()) { return FlawOf(credential.certificate.get(), now); }
  bool IsMember(X509* certificate, WallTime now = Noon()) {
    const auto judged = authority_->Judge(certificate, now);
    return std::holds_alternative<PeerIdentity>(judged) && std::get<PeerIdentity>(judged) == member_;
  }
  bool Says(std::string_view part) const { return text_.find(part) != std::string::npos; }

  const PeerIdentity member_ = MemberOf(RunOf(1), 7, 42);
  const std::shared_ptr<const Authority> authority_ = NewAuthority(RunOf(1));
  const Credential signer_ = SignerOf(*authority_);
  std::string text_;
};

TEST_F(AuthorityTest, WhomItSignsForIsAMember) {
  const Credential credential = CredentialOf(*authority_, member_, Noon());
  EXPECT_TRUE(IsMember(credential.certificate.get()));
  EXPECT_EQ(X509_check_private_key(credential.certificate.get(), credential.key.get()), 1);
  const Credential other = CredentialOf(*authority_, member_, Noon());
  EXPECT_NE(Fingerprint(credential.certificate.get()), Fingerprint(other.certificate.get()));
  EXPECT_NE(EVP_PKEY_eq(credential.key.get(), other.key.get()), 1) << "each has a key of its own";
}

TEST_F(AuthorityTest, ACertificateHoldsFromTwoHoursBeforeUntilItsTimeIsOver) {
  const Credential credential = CredentialOf(*authority_, member_, Noon());
  X509* const x = credential.certificate.get();
  EXPECT_TRUE(IsMember(x, Noon() - hours(2)));
  EXPECT_TRUE(IsMember(x, Noon() + hours(24) - seconds(1)));
  EXPECT_EQ(FlawOf(x, Noon() - hours(2) - seconds(1)), Flaw::kNotYetValid);
  EXPECT_TRUE(Says("valid from " + TextOf(Noon() - hours(2)))) << text_;
  EXPECT_EQ(FlawOf(x, Noon() + hours(24) + seconds(1)), Flaw::kExpired);
  EXPECT_TRUE(Says("expired at " + TextOf(Noon() + hours(24)))) << text_;
}

TEST_F(AuthorityTest, AnotherAuthoritysMembersAreNone) {
  const auto elsewhere = NewAuthority(RunOf(2));
  EXPECT_EQ(FlawOf(CredentialOf(*elsewhere, MemberOf(RunOf(2), 7), Noon())), Flaw::kForeign);
  EXPECT_TRUE(Says(RunOf(2).Hex())) << text_;
  // One that calls itself this run's, and has another key.
  const auto pretender = NewAuthority(RunOf(1));
  EXPECT_EQ(FlawOf(CredentialOf(*pretender, member_, Noon())), Flaw::kForeign);
  // And does not even say which key.
  const Credential pretending = SignerOf(*pretender);
  const std::string name = "cairn run " + RunOf(1).Hex();
  EXPECT_NE(FlawOf(Forge({.uri = MemberName(member_), .issuer = name}, &pretending)), Flaw::kBroken);
}

TEST_F(AuthorityTest, WhoSignsForHimselfIsNone) {
  EXPECT_EQ(FlawOf(Forge({.uri = MemberName(member_), .common_name = "me"}, nullptr)), Flaw::kSelfSigned);
  EXPECT_TRUE(Says("me")) << text_;
}

TEST_F(AuthorityTest, AMemberCannotSignForOthers) {
  const Credential inside = CredentialOf(*authority_, member_, Noon());
  EXPECT_NE(FlawOf(Forge({.uri = MemberName(member_)}, &inside)), Flaw::kBroken);
  const Credential between =
      Forge({.uri = MemberName(member_), .common_name = "authority", .is_authority = true}, &signer_);
  EXPECT_NE(FlawOf(Forge({.uri = MemberName(member_)}, &between)), Flaw::kBroken);
}

TEST_F(AuthorityTest, TheAuthorityItselfIsNoMember) {
  EXPECT_NE(FlawOf(authority_->certificate()), Flaw::kBroken);
}

// Whoever has the key can make these; none is mistaken for a member.
TEST_F(AuthorityTest, ACertificateThatNamesNoMemberJustSoIsRefused) {
  const std::string name = MemberName(member_);
  EXPECT_TRUE(IsMember(Forge({.uri = name}, &signer_).certificate.get()));
  EXPECT_EQ(FlawOf(Forge({}, &signer_)), Flaw::kUnspecific) << "it is not even a certificate by RFC 5280";
  EXPECT_EQ(FlawOf(Forge({.uri = name + "0"}, &signer_)), Flaw::kMalformed);
  EXPECT_EQ(FlawOf(Forge({.uri = "https://example.org"}, &signer_)), Flaw::kMalformed);
  EXPECT_EQ(FlawOf(Forge({.uri = name, .second_uri = name}, &signer_)), Flaw::kMalformed);
  EXPECT_EQ(FlawOf(Forge({.uri = name, .dns = "node7"}, &signer_)), Flaw::kMalformed);
  EXPECT_EQ(FlawOf(Forge({.dns = "node7"}, &signer_)), Flaw::kMalformed);
  EXPECT_EQ(FlawOf(Forge({.uri = name, .common_name = "node7"}, &signer_)), Flaw::kMalformed);
  const PeerIdentity elsewhere = MemberOf(RunOf(2), 7);
  EXPECT_EQ(FlawOf(Forge({.uri = MemberName(elsewhere)}, &signer_)), Flaw::kOtherRun);
}

TEST_F(AuthorityTest, NoBitOfACertificateCanBeChanged) {
  const Credential credential = CredentialOf(*authority_, member_, Noon());
  ASSERT_OK_AND_ASSIGN(const std::string bytes, BytesOf(credential.certificate.get()));
  int parsed = 0;
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    const auto certificate = CertificateOf(changed);
    if (!certificate.ok()) continue;
    ++parsed;
    EXPECT_NE(FlawOf(certificate->get()), Flaw::kBroken) << "bit " << bit;
  }
  EXPECT_GT(parsed, 100);
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(CertificateOf(bytes.substr(0, n)).ok()) << n;
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, CertificateOf(bytes + "x"), "behind");
}

TEST_F(AuthorityTest, ItsRecordIsReadBackAsTheSame) {
  ASSERT_OK_AND_ASSIGN(const AuthorityRecord record, authority_->ToRecord());
  ASSERT_OK_AND_ASSIGN(const auto again, Authority::Parse(RunOf(1), record));
  const Credential credential = CredentialOf(*again, member_, Noon());
  EXPECT_TRUE(IsMember(credential.certificate.get()));
}

TEST_F(AuthorityTest, ARecordThatIsNotOneIsDamaged) {
  constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
  ASSERT_OK_AND_ASSIGN(const AuthorityRecord record, authority_->ToRecord());
  ASSERT_OK_AND_ASSIGN(const AuthorityRecord other, NewAuthority(RunOf(1))->ToRecord());
  const auto parse = [](const AuthorityRecord& given) { return Authority::Parse(RunOf(1), given); };
  EXPECT_STATUS(kDataLoss, Authority::Parse(RunOf(2), record), "not of run " + RunOf(2).Hex());
  EXPECT_STATUS(kDataLoss, parse({.key = other.key, .certificate = record.certificate}), "not the certificate's");
  EXPECT_STATUS(kDataLoss, parse({.key = "", .certificate = record.certificate}), "KEY");
  EXPECT_STATUS(kDataLoss, parse({.key = record.key, .certificate = ""}), "CERTIFICATE");
  EXPECT_STATUS(kDataLoss, parse({.key = record.key + "\n", .certificate = record.certificate}), "KEY: more");
  EXPECT_STATUS(kDataLoss, parse({.key = record.key, .certificate = record.certificate + other.certificate}),
                "CERTIFICATE: more");
  // A certificate that fits the key, and is no authority's.
  const Credential plain = Forge({.common_name = "cairn run " + RunOf(1).Hex()}, nullptr);
  ASSERT_OK_AND_ASSIGN(const std::string plain_key, TextOf(plain.key.get()));
  ASSERT_OK_AND_ASSIGN(const std::string plain_text, TextOf(plain.certificate.get()));
  EXPECT_STATUS(kDataLoss, parse({.key = plain_key, .certificate = plain_text}), "no authority's");
}

// (The key's format has a number of a version in it, which OpenSSL keeps and does not read.)
TEST_F(AuthorityTest, NoByteOfItsRecordCanBeChangedThatMeansAnything) {
  ASSERT_OK_AND_ASSIGN(const AuthorityRecord record, authority_->ToRecord());
  for (std::size_t at = 0; at < record.certificate.size(); ++at) {
    AuthorityRecord changed = record;
    changed.certificate[at] = changed.certificate[at] == 'A' ? 'B' : 'A';
    EXPECT_STATUS(absl::StatusCode::kDataLoss, Authority::Parse(RunOf(1), changed), "") << "certificate, " << at;
  }
  for (std::size_t at = 0; at < record.key.size(); ++at) {
    AuthorityRecord changed = record;
    changed.key[at] = changed.key[at] == 'A' ? 'B' : 'A';
    const auto parsed = Authority::Parse(RunOf(1), changed);
    if (!parsed.ok()) {
      EXPECT_STATUS(absl::StatusCode::kDataLoss, parsed, "") << "key, " << at;
    } else {
      EXPECT_TRUE(IsMember(CredentialOf(**parsed, member_, Noon()).certificate.get())) << "key, " << at;
    }
  }
}

}  // namespace
}  // namespace cairn
