// Mutual TLS 1.3 between two members of a run: what a handshake must prove before a byte of ours goes over it, and, in
// words, why one failed. Knows nothing of sockets. One thread at a time.
//
// Who dials names the run by the server name; who answers picks that run's certificate and authority by it. The
// protocol name (ALPN) says what travels inside. There are no sessions to resume, no early data, no renegotiation.
#ifndef CAIRN_DAEMON_TRUST_TLS_HANDSHAKE_H_
#define CAIRN_DAEMON_TRUST_TLS_HANDSHAKE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/peers/link.h"
#include "daemon/trust/member_proof.h"
#include "daemon/trust/openssl.h"
#include "daemon/trust/refusal.h"
#include "daemon/trust/site_trust.h"

namespace cairn {

// What travels inside TLS. A further protocol gets a further name.
inline constexpr std::string_view kLinkProtocol = "cairn-link";    // gRPC's Peer.Link
inline constexpr std::string_view kBulkProtocol = "cairn-bulk/1";  // proto/bulk.proto

enum class TlsSide { kDials, kAnswers };

// What all handshakes of a side have in common; holds no key and no authority.
absl::StatusOr<TlsContext> MakeTlsContext(TlsSide side);

class TlsHandshake {
 public:
  using FindMemberProof = std::function<std::shared_ptr<MemberProof>(const RunId& run)>;  // null: not served here

  // `site` null: certificates of the run's authority. `protocol`: one of the above; who answers speaks all of them.
  static std::unique_ptr<TlsHandshake> Dialling(std::shared_ptr<MemberProof> proof,
                                                std::shared_ptr<const SiteTrust> site,
                                                std::string_view protocol = kLinkProtocol);
  static std::unique_ptr<TlsHandshake> Answering(FindMemberProof find, std::shared_ptr<const SiteTrust> site);

  // Before the handshake: `ssl` is of that side's context. This outlives it.
  absl::Status Attach(SSL* ssl);

  TlsSide side() const { return side_; }
  // After one that succeeded.
  std::optional<Refusal> Finish();
  // REQUIRES: Finish has answered nullopt.
  std::string_view protocol() const { return protocol_; }
  const std::shared_ptr<MemberProof>& proof() const { return proof_; }
  // Who the certificate says that the peer is; none under a site's authority, where that is shown besides.
  const std::optional<PeerIdentity>& peer() const { return peer_; }
  // 32 bytes that both ends of this connection have, nobody else, and no other connection (RFC 8446, 7.5; RFC 9266).
  // Different for each use.
  absl::StatusOr<std::string> Binding(std::string_view use) const;
  // Of the certificates that TLS has shown.
  std::string OurFingerprint() const { return Fingerprint(SSL_get_certificate(ssl_)); }
  std::string TheirFingerprint() const { return Fingerprint(SSL_get0_peer_certificate(ssl_)); }

  // Why the handshake, a read or a write failed with this error of OpenSSL's (0: not with one).
  Refusal Explain(unsigned long error) const;

  // For OpenSSL's callbacks.
  bool PickRun(const char* server_name);
  bool JudgePeer(X509_STORE_CTX* shown);

 private:
  TlsHandshake(TlsSide side, FindMemberProof find, std::shared_ptr<MemberProof> proof,
               std::shared_ptr<const SiteTrust> site, std::string_view protocol);
  absl::Status ShowCertificate();

  const TlsSide side_;
  const FindMemberProof find_;
  const std::shared_ptr<const SiteTrust> site_;
  std::shared_ptr<MemberProof> proof_;
  std::string_view protocol_;  // of who answers: empty until it is known
  SSL* ssl_ = nullptr;
  std::optional<PeerIdentity> peer_;
  std::optional<Refusal> refusal_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_TLS_HANDSHAKE_H_
