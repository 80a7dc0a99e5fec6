#include "tests/daemon/trust/members.h"

#include <openssl/x509v3.h>

#include <vector>

namespace cairn::testing {
namespace {

void Extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  ASSERT_NE(extension, nullptr) << value;
  EXPECT_EQ(X509_add_ext(certificate, extension, -1), 1);
  X509_EXTENSION_free(extension);
}

void SetCommonName(X509_NAME* name, const std::string& text) {
  EXPECT_EQ(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(text.data()),
                                       static_cast<int>(text.size()), -1, 0),
            1);
}

std::string NamesOf(const ForgedCertificate& wanted) {
  std::string names;
  const auto add = [&](const std::string& kind, const std::string& name) {
    if (!name.empty()) names += (names.empty() ? "" : ",") + kind + name;
  };
  add("URI:", wanted.uri);
  add("URI:", wanted.second_uri);
  add("DNS:", wanted.dns);
  return names;
}

}  // namespace

Credential Forge(const ForgedCertificate& wanted, const Credential* signer) {
  Credential made{.certificate = Certificate(X509_new()), .key = nullptr};
  auto key = NewKey();
  EXPECT_OK(key);
  made.key = *std::move(key);
  X509* const x = made.certificate.get();
  X509* const issuer = signer == nullptr ? x : signer->certificate.get();
  X509_set_version(x, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x), 7);
  ASN1_TIME_set(X509_getm_notBefore(x), std::chrono::system_clock::to_time_t(wanted.from));
  ASN1_TIME_set(X509_getm_notAfter(x), std::chrono::system_clock::to_time_t(wanted.until));
  if (!wanted.common_name.empty()) SetCommonName(X509_get_subject_name(x), wanted.common_name);
  X509_set_issuer_name(x, X509_get_subject_name(issuer));
  if (!wanted.issuer.empty()) {
    X509_NAME* const name = X509_NAME_new();
    SetCommonName(name, wanted.issuer);
    X509_set_issuer_name(x, name);
    X509_NAME_free(name);
  }
  X509_set_pubkey(x, made.key.get());
  Extend(x, issuer, NID_basic_constraints, wanted.is_authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
  Extend(x, issuer, NID_key_usage, wanted.is_authority ? "critical,keyCertSign" : "critical,digitalSignature");
  if (wanted.is_authority || signer == nullptr) Extend(x, issuer, NID_subject_key_identifier, "hash");
  const bool issuer_has_id = X509_get_ext_by_NID(issuer, NID_subject_key_identifier, -1) >= 0;
  if (signer != nullptr && wanted.issuer.empty() && issuer_has_id)
    Extend(x, issuer, NID_authority_key_identifier, "keyid:always");
  const std::string names = NamesOf(wanted);
  if (!names.empty()) Extend(x, issuer, NID_subject_alt_name, "critical," + names);
  EXPECT_GT(X509_sign(x, signer == nullptr ? made.key.get() : signer->key.get(), EVP_sha256()), 0);
  return made;
}

Credential SignerOf(const Authority& authority) {
  const auto record = authority.ToRecord();
  EXPECT_OK(record);
  auto key = ParseKey(record->key);
  auto certificate = ParseCertificate(record->certificate);
  EXPECT_OK(key);
  EXPECT_OK(certificate);
  return {.certificate = *std::move(certificate), .key = *std::move(key)};
}

}  // namespace cairn::testing
