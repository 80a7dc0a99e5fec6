#include "daemon/trust/verification.h"

#include <openssl/err.h>

#include <memory>

#include "storage/base/status.h"

namespace cairn {
namespace {

using StoreContext = std::unique_ptr<X509_STORE_CTX, FreedBy<&X509_STORE_CTX_free>>;

// `at` is the certificate that has the error: of a longer chain it may be one between.
Refusal Told(int error, X509* at, WallTime now, std::string_view whose) {
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return {Flaw::kExpired,
              fmt::format("its certificate expired at {}, it is {} here", TextOf(X509_get0_notAfter(at)), TextOf(now))};
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return {Flaw::kNotYetValid, fmt::format("its certificate is valid from {}, it is {} here",
                                              TextOf(X509_get0_notBefore(at)), TextOf(now))};
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return {Flaw::kSelfSigned,
              fmt::format("its certificate is signed by itself, as {}", TextOf(X509_get_subject_name(at)))};
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return {Flaw::kForeign, fmt::format("its certificate is not of {} authority, but of {}", whose,
                                          TextOf(X509_get_issuer_name(at)))};
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return {Flaw::kBadSignature, fmt::format("its certificate names {} authority, which has not signed it", whose)};
    default:
      return {Flaw::kUnspecific,
              fmt::format("its certificate cannot be verified: {}", X509_verify_cert_error_string(error))};
  }
}

}  // namespace

std::optional<Refusal> VerifyChain(const ChainToVerify& chain, WallTime now, std::string_view whose) {
  const StoreContext context(X509_STORE_CTX_new());
  if (context == nullptr || X509_STORE_CTX_init(context.get(), chain.trusted, chain.certificate, chain.between) != 1) {
    return Refusal{Flaw::kUnspecific, fmt::format("its certificate cannot be verified: {}", OpenSslErrors())};
  }
  X509_VERIFY_PARAM* const parameters = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(parameters, std::chrono::system_clock::to_time_t(now));
  if (chain.strict) X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set_depth(parameters, chain.between_max);
  X509_VERIFY_PARAM_set_purpose(parameters, chain.purpose);
  const bool fits = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  ERR_clear_error();
  if (fits) return std::nullopt;
  X509* const at = X509_STORE_CTX_get_current_cert(context.get());
  return Told(error, at == nullptr ? chain.certificate : at, now, whose);
}

int VerificationErrorOf(Flaw flaw) {
  switch (flaw) {
    case Flaw::kExpired:
      return X509_V_ERR_CERT_HAS_EXPIRED;  // alert certificate_expired
    case Flaw::kNotYetValid:
      return X509_V_ERR_CERT_NOT_YET_VALID;  // bad_certificate
    case Flaw::kForeign:
    case Flaw::kSelfSigned:
    case Flaw::kOtherRun:
      return X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY;  // unknown_ca
    case Flaw::kBadSignature:
      return X509_V_ERR_CERT_SIGNATURE_FAILURE;  // decrypt_error
    default:
      return X509_V_ERR_CERT_REJECTED;  // bad_certificate
  }
}

}  // namespace cairn
