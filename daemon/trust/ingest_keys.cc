#include "daemon/trust/ingest_keys.h"

#include <openssl/x509v3.h>

#include <array>
#include <span>

#include "daemon/trust/certificate_maker.h"
#include "daemon/trust/openssl.h"
#include "storage/base/check.h"
#include "storage/base/random.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

std::string NewName() {
  std::array<unsigned char, 16> bytes{};
  FillRandom(std::as_writable_bytes(std::span(bytes)));
  std::string name;
  for (const unsigned char byte : bytes) name += fmt::format("{:02x}", byte);
  return name + ".ingest.cairn";
}

struct Signer {
  PrivateKey key;
  Certificate certificate;
};

// Certificate and key of one who is named `name`, and is `what` (extendedKeyUsage).
absl::Status Sign(const Signer& authority, const std::string& name, const std::string& what, std::string* certificate,
                  std::string* key_text) {
  Certificate made(X509_new());
  CAIRN_CHECK(made != nullptr);
  CAIRN_ASSIGN_OR_RETURN(const PrivateKey key, NewKey());
  X509* const issuer = authority.certificate.get();
  CertificateMaker maker(made.get());
  maker.ValidForGood()
      .Step(X509_set_issuer_name(made.get(), X509_get_subject_name(issuer)))
      .Step(X509_set_pubkey(made.get(), key.get()))
      .Extend(NID_basic_constraints, "critical,CA:FALSE", issuer)
      .Extend(NID_key_usage, "critical,digitalSignature", issuer)
      .Extend(NID_ext_key_usage, what, issuer)
      .Extend(NID_authority_key_identifier, "keyid:always", issuer)
      .Extend(NID_subject_alt_name, "critical,DNS:" + name, issuer);
  CAIRN_RETURN_IF_ERROR(maker.Sign(authority.key.get()));
  CAIRN_ASSIGN_OR_RETURN(*certificate, TextOf(made.get()));
  CAIRN_ASSIGN_OR_RETURN(*key_text, TextOf(key.get()));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<IngestKeys> MakeIngestKeys() {
  IngestKeys keys;
  keys.name = NewName();
  Signer authority;
  CAIRN_ASSIGN_OR_RETURN(authority.key, NewKey());
  CAIRN_ASSIGN_OR_RETURN(authority.certificate, MakeSelfSigned(keys.name, authority.key.get()));
  CAIRN_ASSIGN_OR_RETURN(keys.authority, TextOf(authority.certificate.get()));
  CAIRN_RETURN_IF_ERROR(Sign(authority, keys.name, "serverAuth", &keys.daemon_certificate, &keys.daemon_key));
  CAIRN_RETURN_IF_ERROR(
      Sign(authority, "client." + keys.name, "clientAuth", &keys.client_certificate, &keys.client_key));
  return keys;
}

}  // namespace cairn
