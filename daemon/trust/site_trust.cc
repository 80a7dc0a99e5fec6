#include "daemon/trust/site_trust.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "daemon/trust/verification.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using Bio = std::unique_ptr<BIO, FreedBy<&BIO_free_all>>;

Bio Reading(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}
int RefusePassword(char*, int, int, void*) {
  return -1;
}

absl::StatusOr<std::vector<Certificate>> ParseAll(const std::string& text) {
  std::vector<Certificate> all;
  const Bio bio = Reading(text);
  while (bio != nullptr) {
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, RefusePassword, nullptr));
    if (next == nullptr) break;
    all.push_back(std::move(next));
  }
  const unsigned long error = ERR_peek_last_error();
  const bool at_the_end = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  const std::string why = OpenSslErrors();
  if (!at_the_end) return InvalidArgument("not PEM certificates: {}", why);
  if (all.empty()) return InvalidArgument("no certificate in it");
  return all;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SiteTrust>> SiteTrust::Parse(const std::string& authorities,
                                                                  const std::string& certificates,
                                                                  const std::string& key) {
  const auto trusted = ParseAll(authorities);
  if (!trusted.ok()) return Annotate(trusted.status(), "the authorities");
  auto ours = ParseAll(certificates);
  if (!ours.ok()) return Annotate(ours.status(), "the certificate");
  PrivateKey own_key(PEM_read_bio_PrivateKey(Reading(key).get(), nullptr, RefusePassword, nullptr));
  if (own_key == nullptr) return InvalidArgument("the key: no PEM key without a password: {}", OpenSslErrors());
  if (!IsKeyOf(own_key.get(), ours->front().get())) return InvalidArgument("the key is not the certificate's");
  CertificateStore store(X509_STORE_new());
  if (store == nullptr) return Internal("no store of certificates: {}", OpenSslErrors());
  for (const Certificate& authority : *trusted) {
    if (X509_STORE_add_cert(store.get(), authority.get()) != 1) {
      return InvalidArgument("the authorities: {}", OpenSslErrors());
    }
  }
  return std::shared_ptr<const SiteTrust>(new SiteTrust(std::move(store), *std::move(ours), std::move(own_key)));
}

absl::Status SiteTrust::Show(SSL* ssl) const {
  bool shown = SSL_use_certificate(ssl, ours_.front().get()) == 1 && SSL_use_PrivateKey(ssl, key_.get()) == 1;
  for (std::size_t i = 1; i < ours_.size(); ++i) shown = shown && SSL_add1_chain_cert(ssl, ours_[i].get()) == 1;
  return shown ? absl::OkStatus() : Internal("the site's certificate cannot be shown: {}", OpenSslErrors());
}

std::optional<Refusal> SiteTrust::Judge(X509* certificate, STACK_OF(X509) * between, bool of_server,
                                        WallTime now) const {
  return VerifyChain({.trusted = store_.get(),
                      .certificate = certificate,
                      .between = between,
                      .between_max = 4,
                      .purpose = of_server ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT,
                      .strict = false},
                     now, "the site's");
}

}  // namespace cairn
