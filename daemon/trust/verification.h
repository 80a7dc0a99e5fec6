// One certificate held against authorities, at a time that is given. Stateless, hence thread-safe.
#ifndef CAIRN_DAEMON_TRUST_VERIFICATION_H_
#define CAIRN_DAEMON_TRUST_VERIFICATION_H_

#include <openssl/x509v3.h>

#include <optional>
#include <string_view>

#include "daemon/trust/openssl.h"
#include "daemon/trust/refusal.h"

namespace cairn {

// All are borrowed, and not changed.
struct ChainToVerify {
  X509_STORE* trusted = nullptr;
  X509* certificate = nullptr;
  STACK_OF(X509) * between = nullptr;  // may lead from the certificate to one that is trusted
  int between_max = 0;
  int purpose = X509_PURPOSE_SSL_CLIENT;
  bool strict = true;  // as RFC 5280 has it, to the letter
};

// Nullopt: signed by one that is trusted, valid now, for this purpose. `whose` authority it should be of: "this run's".
std::optional<Refusal> VerifyChain(const ChainToVerify& chain, WallTime now, std::string_view whose);

// OpenSSL's number for what a flaw of a certificate is: it chooses the alert that the peer gets by it.
int VerificationErrorOf(Flaw flaw);

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_VERIFICATION_H_
