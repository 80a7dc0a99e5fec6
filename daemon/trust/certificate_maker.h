// Certificates, made step by step. Stateless but for the one that is made.
#ifndef CAIRN_DAEMON_TRUST_CERTIFICATE_MAKER_H_
#define CAIRN_DAEMON_TRUST_CERTIFICATE_MAKER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

#include "daemon/trust/openssl.h"

namespace cairn {

// Of version 3, with a serial number that no other certificate has. Each step of OpenSSL's answers 1, or it failed;
// Sign says so.
class CertificateMaker {
 public:
  explicit CertificateMaker(X509* certificate);  // empty; borrowed

  CertificateMaker& Step(int result) {
    ok_ = ok_ && result == 1;
    return *this;
  }
  CertificateMaker& ValidFrom(WallTime begin);
  CertificateMaker& ValidTo(WallTime end);
  CertificateMaker& ValidForGood();  // whatever the clock says
  // `value` as openssl's configuration files have it.
  CertificateMaker& Extend(int nid, const std::string& value, X509* issuer);
  absl::Status Sign(EVP_PKEY* key);

 private:
  X509* const certificate_;
  bool ok_ = true;
};

// An authority's, which signs itself and has no end: it signs certificates, and no further authorities.
absl::StatusOr<Certificate> MakeSelfSigned(const std::string& name, EVP_PKEY* key);

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_CERTIFICATE_MAKER_H_
