#include "storage/base/launch_mark.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <span>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/base/random.h"

namespace cairn {

std::string NewLaunchSecret() {
  std::string secret(32, '\0');
  FillRandom(std::as_writable_bytes(std::span(secret)));
  return secret;
}

std::string LaunchMark(std::string_view secret) {
  if (secret.empty()) return {};
  constexpr std::string_view kText = "cairn launch mark";
  constexpr std::size_t kBytes = 16;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  const unsigned char* ok = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                 reinterpret_cast<const unsigned char*>(kText.data()), kText.size(), digest, &bytes);
  CAIRN_CHECK(ok != nullptr && bytes >= kBytes);
  return HexOf(std::as_bytes(std::span(digest, kBytes)));
}

}  // namespace cairn
