#include "daemon/trust/certificate_maker.h"

#include <openssl/x509v3.h>

#include <array>
#include <span>

#include "storage/base/check.h"
#include "storage/base/random.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using BigNumber = std::unique_ptr<BIGNUM, FreedBy<&BN_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, FreedBy<&X509_EXTENSION_free>>;

constexpr char kBegins[] = "20000101000000Z", kEnds[] = "99991231235959Z";  // RFC 5280, 4.1.2.5

int SetTime(ASN1_TIME* field, WallTime time) {
  return ASN1_TIME_set(field, std::chrono::system_clock::to_time_t(time)) != nullptr ? 1 : 0;
}

}  // namespace

// Two certificates of one authority never have the same number: 127 random bits.
CertificateMaker::CertificateMaker(X509* certificate) : certificate_(certificate) {
  std::array<unsigned char, 16> bytes{};
  FillRandom(std::as_writable_bytes(std::span(bytes)));
  bytes[0] &= 0x7f;
  const BigNumber number(BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  Step(X509_set_version(certificate, X509_VERSION_3));
  Step(number != nullptr && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate_)) != nullptr);
}

CertificateMaker& CertificateMaker::ValidFrom(WallTime begin) {
  return Step(SetTime(X509_getm_notBefore(certificate_), begin));
}

CertificateMaker& CertificateMaker::ValidTo(WallTime end) {
  return Step(SetTime(X509_getm_notAfter(certificate_), end));
}

CertificateMaker& CertificateMaker::ValidForGood() {
  return Step(ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate_), kBegins))
      .Step(ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate_), kEnds));
}

CertificateMaker& CertificateMaker::Extend(int nid, const std::string& value, X509* issuer) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate_, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return Step(extension != nullptr && X509_add_ext(certificate_, extension.get(), -1) == 1);
}

absl::Status CertificateMaker::Sign(EVP_PKEY* key) {
  ok_ = ok_ && X509_sign(certificate_, key, EVP_sha256()) > 0;
  return ok_ ? absl::OkStatus() : Internal("a certificate cannot be made: {}", OpenSslErrors());
}

absl::StatusOr<Certificate> MakeSelfSigned(const std::string& name, EVP_PKEY* key) {
  Certificate certificate(X509_new());
  CAIRN_CHECK(certificate != nullptr);
  X509* const x = certificate.get();
  CertificateMaker maker(x);
  maker.ValidForGood()
      .Step(X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                                       reinterpret_cast<const unsigned char*>(name.data()),
                                       static_cast<int>(name.size()), -1, 0))
      .Step(X509_set_issuer_name(x, X509_get_subject_name(x)))
      .Step(X509_set_pubkey(x, key))
      .Extend(NID_basic_constraints, "critical,CA:TRUE,pathlen:0", x)
      .Extend(NID_key_usage, "critical,keyCertSign", x)
      .Extend(NID_subject_key_identifier, "hash", x);
  CAIRN_RETURN_IF_ERROR(maker.Sign(key));
  return certificate;
}

}  // namespace cairn
