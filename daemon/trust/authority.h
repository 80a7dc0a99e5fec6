// A run's own certificate authority: who holds it, signs for members of the run; who has one of its certificates and
// the key to it, is one. Thread-safe.
#ifndef CAIRN_DAEMON_TRUST_AUTHORITY_H_
#define CAIRN_DAEMON_TRUST_AUTHORITY_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <memory>
#include <string>
#include <variant>

#include "daemon/peers/link.h"
#include "daemon/trust/openssl.h"
#include "daemon/trust/refusal.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/authority_record.h"

namespace cairn {

// A member's certificate and its key, which are in memory only.
struct Credential {
  Certificate certificate;
  PrivateKey key;
};

// From when to when a certificate is valid. Clocks of nodes differ: it begins in the past.
struct Validity {
  std::chrono::seconds before = std::chrono::hours(2);
  std::chrono::seconds after = std::chrono::hours(24);
};

class Authority {
 public:
  // A new one, with a key of its own.
  static absl::StatusOr<std::shared_ptr<const Authority>> Make(const RunId& run);
  // kDataLoss: not what ToRecord writes for this run: key and certificate do not fit, it is no authority, another
  // run's, not signed by itself.
  static absl::StatusOr<std::shared_ptr<const Authority>> Parse(const RunId& run, const AuthorityRecord& record);
  absl::StatusOr<AuthorityRecord> ToRecord() const;

  const RunId& run() const { return run_; }
  X509* certificate() const { return certificate_.get(); }  // borrowed

  // A certificate for `member` with a new key. REQUIRES: member.run == run(), member.node as in link.h.
  absl::StatusOr<Credential> Sign(const PeerIdentity& member, WallTime now, const Validity& validity) const;

  // Whose certificate is this? A member's, if this authority and no other has signed it, it is valid now, and says in
  // exactly the form of Sign who it is. Says nothing of who has the key. `certificate` is not changed.
  std::variant<PeerIdentity, Refusal> Judge(X509* certificate, WallTime now) const;

 private:
  Authority(const RunId& run, PrivateKey key, Certificate certificate, CertificateStore store)
      : run_(run), key_(std::move(key)), certificate_(std::move(certificate)), store_(std::move(store)) {}
  static absl::StatusOr<std::shared_ptr<const Authority>> Of(const RunId& run, PrivateKey key, Certificate certificate);

  const RunId run_;
  const PrivateKey key_;
  const Certificate certificate_;
  const CertificateStore store_;  // holds the certificate, and no other
};

// The authority of the run that lives at `prefix`, made there if it is the first time. Blocks on disk.
//   kPermissionDenied, kFailedPrecondition  as authority_record::Read
//   kDataLoss    what is there is damaged. Members that read it earlier go on; to make a new one would divide the run,
//                so that is left to a person: the message says how
absl::StatusOr<std::shared_ptr<const Authority>> OpenAuthority(Disk& disk, const std::string& prefix, const RunId& run);

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_AUTHORITY_H_
