#include "daemon/trust/tls_handshake.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <array>
#include <exception>
#include <utility>
#include <variant>

#include "daemon/trust/member_name.h"
#include "daemon/trust/verification.h"
#include "storage/base/check.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// A stranger may make us keep so much of what he shows.
constexpr long kCertificateBytesMax = 16 << 10;

int AttachedAt() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}
TlsHandshake* AttachedTo(const SSL* ssl) {
  return static_cast<TlsHandshake*>(SSL_get_ex_data(ssl, AttachedAt()));
}

// A name of a protocol as TLS has it: behind its length.
std::string WireOf(std::string_view protocol) {
  return std::string(1, static_cast<char>(protocol.size())) + std::string(protocol);
}
std::string& Protocols() {
  static std::string names = WireOf(kLinkProtocol) + WireOf(kBulkProtocol);
  return names;
}

// --- What OpenSSL calls. Nothing may be thrown through it: out of memory is a no. ---

template <typename Ask>
bool YesOf(Ask ask) noexcept {
  try {
    return ask();
  } catch (const std::exception&) {
    return false;
  }
}

int OnServerName(SSL* ssl, int* alert, void*) noexcept {
  const char* const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (YesOf([&] { return AttachedTo(ssl)->PickRun(name); })) return SSL_TLSEXT_ERR_OK;
  *alert = SSL_AD_UNRECOGNIZED_NAME;
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

int OnProtocols(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes, const unsigned char* offered,
                unsigned int offered_bytes, void* ours) noexcept {
  const auto& protocols = *static_cast<const std::string*>(ours);
  unsigned char* out = nullptr;
  const int found = SSL_select_next_proto(&out, chosen_bytes, reinterpret_cast<const unsigned char*>(protocols.data()),
                                          static_cast<unsigned int>(protocols.size()), offered, offered_bytes);
  *chosen = out;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

int OnCertificate(X509_STORE_CTX* shown, void*) noexcept {
  auto* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(shown, SSL_get_ex_data_X509_STORE_CTX_idx()));
  if (YesOf([&] { return AttachedTo(ssl)->JudgePeer(shown); })) return 1;
  if (X509_STORE_CTX_get_error(shown) == X509_V_OK) X509_STORE_CTX_set_error(shown, X509_V_ERR_OUT_OF_MEM);
  return 0;
}

// --- Why it failed ---

Refusal FromAlert(int alert) {
  const auto told = [](std::string_view what) { return fmt::format("it refuses us: {}", what); };
  switch (alert) {
    case SSL_AD_UNRECOGNIZED_NAME:
      return {Flaw::kUnknownRun, "it does not serve this run"};
    case SSL_AD_PROTOCOL_VERSION:
      return {Flaw::kOldTls, "it does not speak TLS 1.3"};
    case SSL_AD_NO_APPLICATION_PROTOCOL:
      return {Flaw::kProtocol, told("it speaks another protocol inside TLS")};
    case SSL_AD_CERTIFICATE_EXPIRED:
      return {Flaw::kRefusedUs, told("our certificate has expired by its clock")};
    case SSL_AD_UNKNOWN_CA:
      return {Flaw::kRefusedUs, told("our certificate is not of an authority that it trusts for this run")};
    case SSL_AD_DECRYPT_ERROR:
      return {Flaw::kRefusedUs, told("the signature of our certificate does not fit")};
    case SSL_AD_BAD_CERTIFICATE:
      return {Flaw::kRefusedUs, told("our certificate names no member, or is not valid yet by its clock")};
    case SSL_AD_CERTIFICATE_REQUIRED:
      return {Flaw::kRefusedUs, told("we showed no certificate")};
    default:
      return {Flaw::kRefusedUs, told(fmt::format("{} ({})", SSL_alert_desc_string_long(alert), alert))};
  }
}

Refusal FromReason(int reason) {
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_DATA_LENGTH_TOO_LONG:
    case SSL_R_RECORD_LENGTH_MISMATCH:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_UNEXPECTED_MESSAGE:
    case SSL_R_UNEXPECTED_RECORD:
    case SSL_R_LENGTH_MISMATCH:
      return {Flaw::kNotTls, "what it sends is no TLS"};
    case SSL_R_UNSUPPORTED_PROTOCOL:
      return {Flaw::kOldTls, "it does not speak TLS 1.3"};
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return {Flaw::kNoCertificate, "it shows no certificate"};
    case SSL_R_NO_APPLICATION_PROTOCOL:
      return {Flaw::kProtocol, "it speaks no protocol of ours inside TLS"};
    default:
      return {Flaw::kUnspecific, ""};
  }
}

}  // namespace

absl::StatusOr<TlsContext> MakeTlsContext(TlsSide side) {
  TlsContext context(SSL_CTX_new(side == TlsSide::kDials ? TLS_client_method() : TLS_server_method()));
  if (context == nullptr) return Internal("no TLS: {}", OpenSslErrors());
  SSL_CTX* const c = context.get();
  // Nothing of the machine's openssl.cnf may bring older versions back.
  if (SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1 || SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_num_tickets(c, 0) != 1 || SSL_CTX_set_max_early_data(c, 0) != 1) {
    return Internal("TLS 1.3 cannot be set up: {}", OpenSslErrors());
  }
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_max_cert_list(c, kCertificateBytesMax);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(c, OnCertificate, nullptr);
  if (side == TlsSide::kAnswers) {
    SSL_CTX_set_tlsext_servername_callback(c, OnServerName);
    SSL_CTX_set_alpn_select_cb(c, OnProtocols, &Protocols());
  }
  return context;
}

TlsHandshake::TlsHandshake(TlsSide side, FindMemberProof find, std::shared_ptr<MemberProof> proof,
                           std::shared_ptr<const SiteTrust> site, std::string_view protocol)
    : side_(side), find_(std::move(find)), site_(std::move(site)), proof_(std::move(proof)), protocol_(protocol) {}

std::unique_ptr<TlsHandshake> TlsHandshake::Dialling(std::shared_ptr<MemberProof> proof,
                                                     std::shared_ptr<const SiteTrust> site, std::string_view protocol) {
  CAIRN_CHECK(proof != nullptr && (protocol == kLinkProtocol || protocol == kBulkProtocol));
  return std::unique_ptr<TlsHandshake>(
      new TlsHandshake(TlsSide::kDials, nullptr, std::move(proof), std::move(site), protocol));
}
std::unique_ptr<TlsHandshake> TlsHandshake::Answering(FindMemberProof find, std::shared_ptr<const SiteTrust> site) {
  return std::unique_ptr<TlsHandshake>(
      new TlsHandshake(TlsSide::kAnswers, std::move(find), nullptr, std::move(site), {}));
}

absl::Status TlsHandshake::Attach(SSL* ssl) {
  ssl_ = ssl;
  if (SSL_set_ex_data(ssl, AttachedAt(), this) != 1) return Internal("TLS: {}", OpenSslErrors());
  if (side_ == TlsSide::kAnswers) return absl::OkStatus();  // what is shown follows from the run that is asked for
  const std::string name = RunServerName(proof_->me().run);
  const std::string protocol = WireOf(protocol_);
  // The second answers 0 if it succeeds.
  if (SSL_set_tlsext_host_name(ssl, name.c_str()) != 1 ||
      SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(protocol.data()),
                          static_cast<unsigned int>(protocol.size())) != 0) {
    return Internal("TLS: {}", OpenSslErrors());
  }
  return ShowCertificate();
}

absl::Status TlsHandshake::ShowCertificate() {
  if (site_ != nullptr) return site_->Show(ssl_);
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const Credential> current, proof_->Current());
  // OpenSSL counts its users of both.
  if (SSL_use_certificate(ssl_, current->certificate.get()) == 1 && SSL_use_PrivateKey(ssl_, current->key.get()) == 1) {
    return absl::OkStatus();
  }
  return Internal("our certificate cannot be shown: {}", OpenSslErrors());
}

bool TlsHandshake::PickRun(const char* server_name) {
  const auto run = ParseRunServerName(server_name == nullptr ? "" : server_name);
  if (!run) {
    refusal_ = {Flaw::kUnknownRun, server_name == nullptr
                                       ? "it asks for no run"
                                       : fmt::format("it asks for {}, which is no run", Quoted(server_name))};
    return false;
  }
  proof_ = find_(*run);
  if (proof_ == nullptr) {
    refusal_ = {Flaw::kUnknownRun, fmt::format("it asks for run {}, which is not served here", run->Hex())};
    return false;
  }
  const absl::Status shown = ShowCertificate();
  if (!shown.ok()) refusal_ = {Flaw::kUnspecific, std::string(MessageOf(shown))};
  return shown.ok();
}

bool TlsHandshake::JudgePeer(X509_STORE_CTX* shown) {
  X509* const certificate = X509_STORE_CTX_get0_cert(shown);
  if (site_ != nullptr) {
    refusal_ = site_->Judge(certificate, X509_STORE_CTX_get0_untrusted(shown), side_ == TlsSide::kDials, proof_->now());
  } else {
    auto judged = proof_->authority().Judge(certificate, proof_->now());
    if (auto* member = std::get_if<PeerIdentity>(&judged)) peer_ = std::move(*member);
    if (auto* refusal = std::get_if<Refusal>(&judged)) refusal_ = std::move(*refusal);
  }
  X509_STORE_CTX_set_error(shown, refusal_ ? VerificationErrorOf(refusal_->flaw) : X509_V_OK);
  return !refusal_;
}

std::optional<Refusal> TlsHandshake::Finish() {
  if (refusal_) return refusal_;
  // Proven already, each by its own callback; asked again, since all else rests on it.
  CAIRN_CHECK(SSL_version(ssl_) == TLS1_3_VERSION && proof_ != nullptr);
  CAIRN_CHECK(SSL_get0_peer_certificate(ssl_) != nullptr && (peer_ || site_ != nullptr));
  const unsigned char* name = nullptr;
  unsigned int bytes = 0;
  SSL_get0_alpn_selected(ssl_, &name, &bytes);
  const std::string_view chosen(reinterpret_cast<const char*>(name), bytes);
  for (const std::string_view known : {kLinkProtocol, kBulkProtocol}) {
    if (chosen != known || (side_ == TlsSide::kDials && known != protocol_)) continue;
    protocol_ = known;
    return std::nullopt;
  }
  return Refusal{Flaw::kProtocol, "it speaks no protocol of ours inside TLS"};  // it has offered none at all
}

absl::StatusOr<std::string> TlsHandshake::Binding(std::string_view use) const {
  std::string bytes(32, '\0');
  const std::string label = "EXPORTER-cairn-" + std::string(use);
  if (SSL_export_keying_material(ssl_, reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), label.data(),
                                 label.size(), nullptr, 0, 0) != 1) {
    return Internal("TLS gives no binding: {}", OpenSslErrors());
  }
  return bytes;
}

Refusal TlsHandshake::Explain(unsigned long error) const {
  if (refusal_) return *refusal_;
  if (error == 0) return {Flaw::kBroken, "the connection ended during the handshake"};
  const int reason = ERR_GET_REASON(error);
  if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason >= SSL_AD_REASON_OFFSET) {
    return FromAlert(reason - SSL_AD_REASON_OFFSET);
  }
  Refusal refusal = ERR_GET_LIB(error) == ERR_LIB_SSL ? FromReason(reason) : Refusal();
  if (refusal.text.empty()) {
    std::array<char, 256> text{};
    ERR_error_string_n(error, text.data(), text.size());
    refusal.text = fmt::format("TLS failed: {}", text.data());
  }
  return refusal;
}

}  // namespace cairn
