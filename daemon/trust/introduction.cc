#include "daemon/trust/introduction.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

using DigestContext = std::unique_ptr<EVP_MD_CTX, FreedBy<&EVP_MD_CTX_free>>;

const unsigned char* In(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

TlsSide OtherThan(TlsSide side) {
  return side == TlsSide::kDials ? TlsSide::kAnswers : TlsSide::kDials;
}

// What the end `side` of this connection says, and no other end of any connection. `shown`: its TLS certificate.
std::string Statement(const IntroductionFacts& facts, std::string_view use, TlsSide side, const std::string& shown) {
  std::string binding;
  for (const char byte : facts.binding) binding += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return fmt::format("cairn {} 1 {} {} {}", use, side == TlsSide::kDials ? "dials" : "answers", binding, shown);
}
std::string OurStatement(const IntroductionFacts& facts, std::string_view use) {
  return Statement(facts, use, facts.side, facts.ours);
}
std::string TheirStatement(const IntroductionFacts& facts, std::string_view use) {
  return Statement(facts, use, OtherThan(facts.side), facts.theirs);
}

constexpr std::string_view kMemberUse = "member", kMungeUse = "munge";

absl::StatusOr<std::string> Signed(EVP_PKEY* key, std::string_view text) {
  const DigestContext context(EVP_MD_CTX_new());
  std::size_t bytes = 0;
  if (context == nullptr || EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &bytes, In(text), text.size()) != 1) {
    return Internal("nothing can be signed: {}", OpenSslErrors());
  }
  std::string signature(bytes, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &bytes, In(text),
                     text.size()) != 1) {
    return Internal("nothing can be signed: {}", OpenSslErrors());
  }
  signature.resize(bytes);
  return signature;
}

bool IsSigned(X509* by, std::string_view text, std::string_view signature) {
  const DigestContext context(EVP_MD_CTX_new());
  const bool fits = context != nullptr &&
                    EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, X509_get0_pubkey(by)) == 1 &&
                    EVP_DigestVerify(context.get(), In(signature), signature.size(), In(text), text.size()) == 1;
  ERR_clear_error();
  return fits;
}

std::variant<PeerIdentity, Refusal> JudgeMember(const IntroductionFacts& facts,
                                                const introduction::Introduction& theirs) {
  if (facts.peer) return *facts.peer;
  if (theirs.certificate().empty()) {
    return Refusal{Flaw::kProof, "it has the site's certificate, and does not show that it is a member of the run"};
  }
  const auto certificate = CertificateOf(theirs.certificate());
  if (!certificate.ok()) {
    return Refusal{Flaw::kProof,
                   fmt::format("what it shows for a member's certificate: {}", MessageOf(certificate.status()))};
  }
  auto judged = facts.authority->Judge(certificate->get(), facts.now);
  if (std::holds_alternative<Refusal>(judged)) return judged;
  if (!IsSigned(certificate->get(), TheirStatement(facts, kMemberUse), theirs.signature())) {
    return Refusal{Flaw::kProof, "it shows a member's certificate, and has not its key"};
  }
  return judged;
}

std::optional<Refusal> JudgeMunge(const IntroductionFacts& facts, const introduction::Introduction& theirs) {
  if (theirs.munge().empty()) {
    if (!facts.munge_required) return std::nullopt;
    return Refusal{Flaw::kMunge, "it shows no MUNGE credential, and peers.munge is require"};
  }
  if (facts.munge == nullptr) return std::nullopt;  // it has MUNGE, this node has not
  const auto decoded = facts.munge->Decode(theirs.munge());
  // Nothing can be said of the credential; that is as if MUNGE did not run here.
  if (absl::IsUnavailable(decoded.status()) && !facts.munge_required) return std::nullopt;
  if (!decoded.ok()) {
    return Refusal{Flaw::kMunge, fmt::format("its MUNGE credential: {}", MessageOf(decoded.status()))};
  }
  if (decoded->payload != TheirStatement(facts, kMungeUse)) {
    return Refusal{Flaw::kMunge, "its MUNGE credential is not for this connection"};
  }
  if (decoded->uid != ::geteuid()) {
    return Refusal{Flaw::kMunge,
                   fmt::format("MUNGE says that it runs as user {}, we run as {}", decoded->uid, ::geteuid())};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<IntroductionFacts> IntroductionFacts::Of(const TlsHandshake& handshake,
                                                        std::shared_ptr<const Munge> munge, bool munge_required) {
  MemberProof& proof = *handshake.proof();
  IntroductionFacts facts{.authority = proof.shared_authority(),
                          .credential = nullptr,
                          .peer = handshake.peer(),
                          .now = proof.now(),
                          .side = handshake.side(),
                          .binding = {},
                          .ours = handshake.OurFingerprint(),
                          .theirs = handshake.TheirFingerprint(),
                          .munge = std::move(munge),
                          .munge_required = munge_required};
  if (!facts.peer) {
    CAIRN_ASSIGN_OR_RETURN(facts.credential, proof.Current());
  }
  CAIRN_ASSIGN_OR_RETURN(facts.binding, handshake.Binding("introduction"));
  return facts;
}

absl::StatusOr<introduction::Introduction> MakeIntroduction(const IntroductionFacts& facts) {
  introduction::Introduction ours;
  if (facts.credential != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(*ours.mutable_certificate(), BytesOf(facts.credential->certificate.get()));
    CAIRN_ASSIGN_OR_RETURN(*ours.mutable_signature(),
                           Signed(facts.credential->key.get(), OurStatement(facts, kMemberUse)));
  }
  if (facts.munge != nullptr) {
    auto credential = facts.munge->Encode(OurStatement(facts, kMungeUse));
    // Without one the other side decides; where it is required it refuses, with this in our log.
    if (!credential.ok() && facts.munge_required) return Annotate(credential.status(), "MUNGE");
    if (credential.ok()) *ours.mutable_munge() = *std::move(credential);
  }
  return ours;
}

std::variant<PeerIdentity, Refusal> JudgeIntroduction(const IntroductionFacts& facts,
                                                      const introduction::Introduction& theirs) {
  auto judged = JudgeMember(facts, theirs);
  if (std::holds_alternative<Refusal>(judged)) return judged;
  if (auto refusal = JudgeMunge(facts, theirs)) return *std::move(refusal);
  return judged;
}

}  // namespace cairn
