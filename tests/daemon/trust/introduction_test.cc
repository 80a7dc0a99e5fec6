// What is shown inside TLS: membership under a site's authority, and MUNGE's word. Bound to one connection and one end.
#include "daemon/trust/introduction.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "storage/base/status.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using introduction::Introduction;
using std::chrono::hours;
using testing::CredentialOf;
using testing::MemberOf;
using testing::NewAuthority;
using testing::Noon;
using testing::RunOf;

// MUNGE as it works: it knows each credential that was made, by whom, and whether it was decoded. It can be down.
class FakeMunge final : public Munge {
 public:
  absl::StatusOr<std::string> Encode(std::string_view payload) const override {
    if (down) return Unavailable("down");
    const std::string credential = fmt::format("MUNGE:{}", made_.size());
    made_[credential] = {.uid = uid, .payload = std::string(payload)};
    return credential;
  }
  absl::StatusOr<Decoded> Decode(const std::string& credential) const override {
    if (down) return Unavailable("down");
    const auto found = made_.find(credential);
    if (found == made_.end()) return PermissionDenied("invalid credential");
    if (!std::exchange(decoded_[credential], true)) return found->second;
    return PermissionDenied("replayed credential");
  }
  std::uint32_t uid = ::geteuid();
  bool down = false;

 private:
  mutable std::map<std::string, Decoded> made_;
  mutable std::map<std::string, bool> decoded_;
};

class IntroductionTest : public ::testing::Test {
 protected:
  // Of one connection, as both ends have it. Under a site's authority TLS says nothing of members.
  IntroductionFacts Facts(TlsSide side, bool site, const std::string& binding = std::string(32, 'b')) {
    const bool dials = side == TlsSide::kDials;
    const PeerIdentity& me = dials ? client_ : server_;
    IntroductionFacts facts{.authority = authority_,
                            .credential = nullptr,
                            .peer = dials ? server_ : client_,
                            .now = Noon(),
                            .side = side,
                            .binding = binding,
                            .ours = dials ? "client's" : "server's",
                            .theirs = dials ? "server's" : "client's",
                            .munge = nullptr,
                            .munge_required = false};
    if (site) {
      facts.credential = std::make_shared<const Credential>(CredentialOf(*authority_, me, Noon()));
      facts.peer.reset();
    }
    return facts;
  }
  static Introduction Made(const IntroductionFacts& facts) {
    const auto made = MakeIntroduction(facts);
    EXPECT_OK(made);
    return *made;
  }
  // "": it is the client.
  std::string Judge(const IntroductionFacts& facts, const Introduction& theirs) {
    const auto judged = JudgeIntroduction(facts, theirs);
    if (const auto* refusal = std::get_if<Refusal>(&judged)) return refusal->text;
    return std::get<PeerIdentity>(judged) == client_ ? "" : "somebody else";
  }

  const std::shared_ptr<const Authority> authority_ = NewAuthority(RunOf(1));
  const PeerIdentity client_ = MemberOf(RunOf(1), 7), server_ = MemberOf(RunOf(1), 8);
  const std::shared_ptr<FakeMunge> munge_ = std::make_shared<FakeMunge>();
};

TEST_F(IntroductionTest, WhereTlsHasProvenAllNothingIsShown) {
  const Introduction made = Made(Facts(TlsSide::kDials, false));
  EXPECT_EQ(made.ByteSizeLong(), 0u);
  EXPECT_EQ(Judge(Facts(TlsSide::kAnswers, false), made), "");
}

TEST_F(IntroductionTest, UnderASitesAuthorityAMemberShowsThatItIsOne) {
  const Introduction made = Made(Facts(TlsSide::kDials, true));
  EXPECT_EQ(Judge(Facts(TlsSide::kAnswers, true), made), "");
  EXPECT_NE(Judge(Facts(TlsSide::kAnswers, true), Introduction()), "");
}

TEST_F(IntroductionTest, WhatIsShownServesOneEndOfOneConnection) {
  const Introduction made = Made(Facts(TlsSide::kDials, true));
  const std::string no_key = "it shows a member's certificate, and has not its key";
  EXPECT_EQ(Judge(Facts(TlsSide::kAnswers, true, std::string(32, 'c')), made), no_key) << "another connection";
  EXPECT_EQ(Judge(Facts(TlsSide::kDials, true), made), no_key) << "given back to its maker";
  IntroductionFacts other_certificate = Facts(TlsSide::kAnswers, true);
  other_certificate.theirs = "another of the site's";
  EXPECT_EQ(Judge(other_certificate, made), no_key) << "another certificate of the site's";
}

// Two daemons of one node may have the same file of the site's.
TEST_F(IntroductionTest, ItIsOfOneEndAlsoWhereBothShowTheSameCertificate) {
  IntroductionFacts dials = Facts(TlsSide::kDials, true), answers = Facts(TlsSide::kAnswers, true);
  dials.ours = dials.theirs = answers.ours = answers.theirs = "the node's";
  dials.munge = answers.munge = munge_;
  EXPECT_EQ(Judge(answers, Made(dials)), "");
  EXPECT_NE(Judge(dials, Made(dials)), "") << "given back to its maker";
  dials.peer = client_;  // TLS has proven the member; MUNGE's word, too, is of one end
  dials.credential = nullptr;
  EXPECT_EQ(Judge(dials, Made(dials)), "its MUNGE credential is not for this connection");
}

TEST_F(IntroductionTest, OnlyThisRunsMembersAreTaken) {
  IntroductionFacts facts = Facts(TlsSide::kDials, true);
  const auto elsewhere = NewAuthority(RunOf(2));
  facts.credential = std::make_shared<const Credential>(CredentialOf(*elsewhere, MemberOf(RunOf(2), 7), Noon()));
  EXPECT_NE(Judge(Facts(TlsSide::kAnswers, true), Made(facts)).find("not of this run's authority"), std::string::npos);
  facts.credential = std::make_shared<const Credential>(CredentialOf(*authority_, client_, Noon() - hours(72)));
  EXPECT_NE(Judge(Facts(TlsSide::kAnswers, true), Made(facts)).find("expired"), std::string::npos);
}

TEST_F(IntroductionTest, NoBitOfTheProofCanBeChanged) {
  const IntroductionFacts facts = Facts(TlsSide::kAnswers, true);
  const Introduction made = Made(Facts(TlsSide::kDials, true));
  const std::string signature = made.signature(), certificate = made.certificate();
  for (std::size_t bit = 0; bit < signature.size() * 8; ++bit) {
    Introduction changed = made;
    (*changed.mutable_signature())[bit / 8] ^= static_cast<char>(1 << bit % 8);
    ASSERT_NE(Judge(facts, changed), "") << bit;
  }
  for (std::size_t bit = 0; bit < certificate.size() * 8; ++bit) {
    Introduction changed = made;
    (*changed.mutable_certificate())[bit / 8] ^= static_cast<char>(1 << bit % 8);
    ASSERT_NE(Judge(facts, changed), "") << bit;
  }
  Introduction bare = made;
  bare.clear_signature();
  EXPECT_NE(Judge(facts, bare), "");
}

TEST_F(IntroductionTest, MungeProvesTheUser) {
  for (const bool site : {false, true}) {
    IntroductionFacts dials = Facts(TlsSide::kDials, site), answers = Facts(TlsSide::kAnswers, site);
    dials.munge = answers.munge = munge_;
    answers.munge_required = true;
    const Introduction made = Made(dials);
    EXPECT_EQ(Judge(answers, made), "");
    EXPECT_EQ(Judge(answers, made), "its MUNGE credential: replayed credential");
  }
}

TEST_F(IntroductionTest, AnotherUsersCredentialIsRefusedAlsoWhereNoneIsRequired) {
  IntroductionFacts dials = Facts(TlsSide::kDials, false), answers = Facts(TlsSide::kAnswers, false);
  dials.munge = answers.munge = munge_;
  munge_->uid = ::geteuid() + 1;
  EXPECT_EQ(Judge(answers, Made(dials)),
            fmt::format("MUNGE says that it runs as user {}, we run as {}", ::geteuid() + 1, ::geteuid()));
}

TEST_F(IntroductionTest, ACredentialOfAnotherConnectionIsRefused) {
  IntroductionFacts dials = Facts(TlsSide::kDials, false, std::string(32, 'c'));
  IntroductionFacts answers = Facts(TlsSide::kAnswers, false);
  dials.munge = answers.munge = munge_;
  EXPECT_EQ(Judge(answers, Made(dials)), "its MUNGE credential is not for this connection");
  IntroductionFacts back = Facts(TlsSide::kAnswers, false);
  back.munge = munge_;
  EXPECT_EQ(Judge(answers, Made(back)), "its MUNGE credential is not for this connection") << "our own, given back";
  Introduction foreign;
  foreign.set_munge("MUNGE:foreign");
  EXPECT_EQ(Judge(answers, foreign), "its MUNGE credential: invalid credential");
}

TEST_F(IntroductionTest, WhereItIsRequiredNobodyComesWithout) {
  IntroductionFacts answers = Facts(TlsSide::kAnswers, false), dials = Facts(TlsSide::kDials, false);
  answers.munge = munge_;
  EXPECT_EQ(Judge(answers, Introduction()), "") << "auto: it may have no MUNGE";
  answers.munge_required = true;
  EXPECT_EQ(Judge(answers, Introduction()), "it shows no MUNGE credential, and peers.munge is require");
  munge_->down = true;
  dials.munge = munge_;
  EXPECT_EQ(Made(dials).munge(), "");
  dials.munge_required = true;
  EXPECT_STATUS(absl::StatusCode::kUnavailable, MakeIntroduction(dials), "MUNGE: down");
}

TEST_F(IntroductionTest, ADaemonOfMungeThatIsDownSaysNothingOfACredential) {
  IntroductionFacts dials = Facts(TlsSide::kDials, false), answers = Facts(TlsSide::kAnswers, false);
  dials.munge = answers.munge = munge_;
  const Introduction made = Made(dials);
  munge_->down = true;
  EXPECT_EQ(Judge(answers, made), "");
  answers.munge_required = true;
  EXPECT_EQ(Judge(answers, made), "its MUNGE credential: down");
}

}  // namespace
}  // namespace cairn
