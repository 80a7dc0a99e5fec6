#include "daemon/trust/authority.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <array>
#include <utility>

#include "daemon/trust/certificate_maker.h"
#include "daemon/trust/member_name.h"
#include "daemon/trust/verification.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using GeneralNames = std::unique_ptr<GENERAL_NAMES, FreedBy<&GENERAL_NAMES_free>>;

std::string AuthorityName(const RunId& run) {
  return "cairn run " + run.Hex();
}

// The one URI that the certificate names its holder by.
absl::StatusOr<std::string> NameIn(X509* certificate) {
  if (X509_NAME_entry_count(X509_get_subject_name(certificate)) != 0) {
    return InvalidArgument("it has a subject besides the name");
  }
  int critical = -1;
  const GeneralNames names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, &critical, nullptr)));
  if (names == nullptr) {
    ERR_clear_error();
    return InvalidArgument("{}", critical == -2 ? "it has more than one set of names" : "it has no name");
  }
  if (sk_GENERAL_NAME_num(names.get()) != 1) return InvalidArgument("it has not exactly one name");
  const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), 0);
  if (name->type != GEN_URI) return InvalidArgument("its name is no URI");
  const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                     static_cast<std::size_t>(ASN1_STRING_length(uri)));
}

absl::StatusOr<PeerIdentity> MemberIn(X509* certificate) {
  CAIRN_ASSIGN_OR_RETURN(const std::string name, NameIn(certificate));
  return ParseMemberName(name);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Authority>> Authority::Of(const RunId& run, PrivateKey key,
                                                               Certificate certificate) {
  CertificateStore store(X509_STORE_new());
  if (store == nullptr || X509_STORE_add_cert(store.get(), certificate.get()) != 1) {
    return Internal("no store of certificates: {}", OpenSslErrors());
  }
  return std::shared_ptr<const Authority>(new Authority(run, std::move(key), std::move(certificate), std::move(store)));
}

// It has no times of its own: who can read its key can make one with any. A run may live for years, and the clock of
// the node that makes it may be wrong.
absl::StatusOr<std::shared_ptr<const Authority>> Authority::Make(const RunId& run) {
  CAIRN_ASSIGN_OR_RETURN(PrivateKey key, NewKey());
  CAIRN_ASSIGN_OR_RETURN(Certificate certificate, MakeSelfSigned(AuthorityName(run), key.get()));
  return Of(run, std::move(key), std::move(certificate));
}

absl::StatusOr<std::shared_ptr<const Authority>> Authority::Parse(const RunId& run, const AuthorityRecord& record) {
  auto key = ParseKey(record.key);
  if (!key.ok()) return DataLoss("KEY: {}", MessageOf(key.status()));
  auto certificate = ParseCertificate(record.certificate);
  if (!certificate.ok()) return DataLoss("CERTIFICATE: {}", MessageOf(certificate.status()));
  X509* const x = certificate->get();
  if (!IsKeyOf(key->get(), x)) return DataLoss("KEY is not the certificate's");
  if (X509_verify(x, key->get()) != 1) {
    ERR_clear_error();
    return DataLoss("CERTIFICATE is not signed by itself");
  }
  // What another release made of other times or numbers is an authority, too; what it may do and for which run is not
  // to be another.
  if (X509_check_ca(x) != 1) return DataLoss("CERTIFICATE is no authority's");
  std::array<char, 64> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, name.data(), name.size());
  if (X509_NAME_entry_count(X509_get_subject_name(x)) != 1 || name.data() != AuthorityName(run)) {
    return DataLoss("CERTIFICATE is of {}, not of run {}", TextOf(X509_get_subject_name(x)), run.Hex());
  }
  return Of(run, *std::move(key), *std::move(certificate));
}

absl::StatusOr<AuthorityRecord> Authority::ToRecord() const {
  AuthorityRecord record;
  CAIRN_ASSIGN_OR_RETURN(record.key, TextOf(key_.get()));
  CAIRN_ASSIGN_OR_RETURN(record.certificate, TextOf(certificate_.get()));
  return record;
}

absl::StatusOr<Credential> Authority::Sign(const PeerIdentity& member, WallTime now, const Validity& validity) const {
  CAIRN_CHECK(member.run == run_);
  Credential credential{.certificate = Certificate(X509_new()), .key = nullptr};
  CAIRN_CHECK(credential.certificate != nullptr);
  CAIRN_ASSIGN_OR_RETURN(credential.key, NewKey());
  X509* const x = credential.certificate.get();
  CertificateMaker maker(x);
  maker.ValidFrom(now - validity.before)
      .ValidTo(now + validity.after)
      .Step(X509_set_issuer_name(x, X509_get_subject_name(certificate_.get())))
      .Step(X509_set_pubkey(x, credential.key.get()))
      .Extend(NID_basic_constraints, "critical,CA:FALSE", certificate_.get())
      .Extend(NID_key_usage, "critical,digitalSignature", certificate_.get())
      .Extend(NID_ext_key_usage, "serverAuth,clientAuth", certificate_.get())
      .Extend(NID_authority_key_identifier, "keyid:always", certificate_.get())
      .Extend(NID_subject_alt_name, "critical,URI:" + MemberName(member), certificate_.get());
  CAIRN_RETURN_IF_ERROR(maker.Sign(key_.get()));
  return credential;
}

std::variant<PeerIdentity, Refusal> Authority::Judge(X509* certificate, WallTime now) const {
  // Depth 0: the authority signs members, and no further authorities.
  if (auto refusal = VerifyChain({.trusted = store_.get(), .certificate = certificate}, now, "this run's")) {
    return *std::move(refusal);
  }
  const auto member = MemberIn(certificate);
  if (!member.ok()) return Refusal{Flaw::kMalformed, fmt::format("its certificate: {}", MessageOf(member.status()))};
  if (member->run != run_) {
    return Refusal{Flaw::kOtherRun, fmt::format("it is a member of run {}, not of {}", member->run.Hex(), run_.Hex())};
  }
  return *member;
}

absl::StatusOr<std::shared_ptr<const Authority>> OpenAuthority(Disk& disk, const std::string& prefix,
                                                               const RunId& run) {
  auto record = authority_record::Read(disk, prefix, run);
  if (absl::IsNotFound(record.status())) {
    CAIRN_ASSIGN_OR_RETURN(const auto fresh, Authority::Make(run));
    CAIRN_ASSIGN_OR_RETURN(const AuthorityRecord made, fresh->ToRecord());
    const absl::Status status = authority_record::Make(disk, prefix, run, made);
    if (status.ok()) return fresh;
    if (!absl::IsAlreadyExists(status)) return status;
    record = authority_record::Read(disk, prefix, run);
  }
  const std::string path = authority_record::PathOf(prefix, run);
  constexpr std::string_view kRemedy = "remove it while no daemon serves the run, and a new one is made";
  if (absl::IsDataLoss(record.status())) return DataLoss("{}; {}", MessageOf(record.status()), kRemedy);
  if (!record.ok()) return record.status();
  auto authority = Authority::Parse(run, *record);
  if (absl::IsDataLoss(authority.status())) {
    return DataLoss("{}: {}; {}", path, MessageOf(authority.status()), kRemedy);
  }
  return authority;
}

}  // namespace cairn
