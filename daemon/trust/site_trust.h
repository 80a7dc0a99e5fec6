// A site's own authority: the certificates of TLS are then the site's, from files. That says which daemons may talk at
// all, and not who is a member of a run: that is shown besides (introduction.h). Thread-safe.
#ifndef CAIRN_DAEMON_TRUST_SITE_TRUST_H_
#define CAIRN_DAEMON_TRUST_SITE_TRUST_H_

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/trust/openssl.h"
#include "daemon/trust/refusal.h"

namespace cairn {

class SiteTrust {
 public:
  // The texts of three PEM files: authorities; our certificate, with those between it and an authority behind it; its
  // key. kInvalidArgument: they are not that, or the key is not the certificate's.
  static absl::StatusOr<std::shared_ptr<const SiteTrust>> Parse(const std::string& authorities,
                                                                const std::string& certificates,
                                                                const std::string& key);

  // Shows our certificate in this handshake.
  absl::Status Show(SSL* ssl) const;

  // Whether one of the authorities, through `between`, has signed the certificate, for what it is used for, and it is
  // valid now. Whose it is, is not asked: any certificate of the site's will do.
  std::optional<Refusal> Judge(X509* certificate, STACK_OF(X509) * between, bool of_server, WallTime now) const;

 private:
  SiteTrust(CertificateStore store, std::vector<Certificate> ours, PrivateKey key)
      : store_(std::move(store)), ours_(std::move(ours)), key_(std::move(key)) {}

  const CertificateStore store_;
  const std::vector<Certificate> ours_;  // the first is the one that is shown
  const PrivateKey key_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_SITE_TRUST_H_
