// OpenSSL's objects with owners, keys and certificates as text, and what OpenSSL says when something fails. Stateless,
// hence thread-safe.
#ifndef CAIRN_DAEMON_TRUST_OPENSSL_H_
#define CAIRN_DAEMON_TRUST_OPENSSL_H_

#include <absl/status/statusor.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace cairn {

template <auto kFree>
struct FreedBy {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using PrivateKey = std::unique_ptr<EVP_PKEY, FreedBy<&EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreedBy<&X509_free>>;
using CertificateStore = std::unique_ptr<X509_STORE, FreedBy<&X509_STORE_free>>;
using TlsContext = std::unique_ptr<SSL_CTX, FreedBy<&SSL_CTX_free>>;

using WallTime = std::chrono::system_clock::time_point;

// What went wrong on this thread since the last call, "; " between several.
std::string OpenSslErrors();

absl::StatusOr<PrivateKey> NewKey();  // on the curve P-256

// PEM. Parsing takes exactly what writing gives: one block, nothing around it. kInvalidArgument: anything else.
absl::StatusOr<std::string> TextOf(EVP_PKEY* key);
absl::StatusOr<std::string> TextOf(X509* certificate);
absl::StatusOr<PrivateKey> ParseKey(const std::string& text);
absl::StatusOr<Certificate> ParseCertificate(const std::string& text);

// DER. Parsing takes all bytes, or kInvalidArgument.
absl::StatusOr<std::string> BytesOf(X509* certificate);
absl::StatusOr<Certificate> CertificateOf(std::string_view bytes);

// Both halves of the key: what it says that it can sign, and what it signs.
bool IsKeyOf(EVP_PKEY* key, X509* certificate);

std::string Fingerprint(X509* certificate);  // SHA-256 of its DER, in hex

std::string TextOf(const ASN1_TIME* time);  // "2026-01-31 12:00:00 UTC"
std::string TextOf(WallTime time);          // the same form
// On one line, bounded: foreign names may hold anything.
std::string TextOf(const X509_NAME* name);

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_OPENSSL_H_
