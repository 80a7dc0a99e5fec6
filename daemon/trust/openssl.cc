#include "daemon/trust/openssl.h"

#include <fmt/chrono.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>
#include <ctime>

#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using Bio = std::unique_ptr<BIO, FreedBy<&BIO_free_all>>;

std::string Taken(const Bio& bio) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio.get(), &data);
  return bytes <= 0 ? std::string() : std::string(data, static_cast<std::size_t>(bytes));
}

// Runs a PEM writer into memory.
template <typename Write>
absl::StatusOr<std::string> Written(Write write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) return Internal("PEM cannot be written: {}", OpenSslErrors());
  return Taken(bio);
}

// A PEM parser skips what it does not know: before the block, behind it, in it. So the text must come out again.
template <typename Object, typename Read>
absl::StatusOr<Object> Parsed(std::string_view what, const std::string& text, Read read) {
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Object object(bio == nullptr ? nullptr : read(bio.get()));
  if (object == nullptr) return InvalidArgument("no {}: {}", what, OpenSslErrors());
  CAIRN_ASSIGN_OR_RETURN(const std::string again, TextOf(object.get()));
  if (again != text) return InvalidArgument("more, or other bytes, than one {}", what);
  return object;
}

// Never asks at the terminal for a password.
int NoPassword(char*, int, int, void*) {
  return -1;
}

}  // namespace

std::string OpenSslErrors() {
  std::string text;
  while (const unsigned long code = ERR_get_error()) {
    std::array<char, 256> line{};
    ERR_error_string_n(code, line.data(), line.size());
    text += (text.empty() ? "" : "; ") + std::string(line.data());
  }
  return text.empty() ? "no reason given" : text;
}

absl::StatusOr<PrivateKey> NewKey() {
  PrivateKey key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Internal("no key can be made: {}", OpenSslErrors());
  return key;
}

absl::StatusOr<std::string> TextOf(EVP_PKEY* key) {
  return Written(
      [key](BIO* bio) { return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
}
absl::StatusOr<std::string> TextOf(X509* certificate) {
  return Written([certificate](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}
absl::StatusOr<PrivateKey> ParseKey(const std::string& text) {
  return Parsed<PrivateKey>("private key", text,
                            [](BIO* bio) { return PEM_read_bio_PrivateKey(bio, nullptr, NoPassword, nullptr); });
}
absl::StatusOr<Certificate> ParseCertificate(const std::string& text) {
  return Parsed<Certificate>("certificate", text,
                             [](BIO* bio) { return PEM_read_bio_X509(bio, nullptr, NoPassword, nullptr); });
}

absl::StatusOr<std::string> BytesOf(X509* certificate) {
  const int bytes = i2d_X509(certificate, nullptr);
  if (bytes <= 0) return Internal("a certificate cannot be encoded: {}", OpenSslErrors());
  std::string der(static_cast<std::size_t>(bytes), '\0');
  auto* out = reinterpret_cast<unsigned char*>(der.data());
  i2d_X509(certificate, &out);
  return der;
}

absl::StatusOr<Certificate> CertificateOf(std::string_view bytes) {
  const auto* in = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto* const end = in + bytes.size();
  Certificate certificate(d2i_X509(nullptr, &in, static_cast<long>(bytes.size())));
  if (certificate == nullptr) return InvalidArgument("no certificate: {}", OpenSslErrors());
  if (in != end) return InvalidArgument("{} bytes behind the certificate", end - in);
  return certificate;
}

bool IsKeyOf(EVP_PKEY* key, X509* certificate) {
  // X509_check_private_key looks at the public half alone, which stands beside the other in the key's file.
  const std::unique_ptr<EVP_PKEY_CTX, FreedBy<&EVP_PKEY_CTX_free>> context(
      EVP_PKEY_CTX_new_from_pkey(nullptr, key, nullptr));
  const bool fits = X509_check_private_key(certificate, key) == 1 && context != nullptr &&
                    EVP_PKEY_pairwise_check(context.get()) == 1;
  ERR_clear_error();
  return fits;
}

std::string Fingerprint(X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int bytes = 0;
  if (X509_digest(certificate, EVP_sha256(), digest.data(), &bytes) != 1) return "";
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + bytes, ""));
}

std::string TextOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "no time";
  return fmt::format("{:%F %T} UTC", parts);
}

std::string TextOf(WallTime time) {
  return fmt::format("{:%F %T} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

std::string TextOf(const X509_NAME* name) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_ONELINE) < 0) return "unreadable";
  const std::string text = Taken(bio);
  return text.empty() ? "nobody" : Quoted(text);
}

}  // namespace cairn
