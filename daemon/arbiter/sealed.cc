#include "daemon/arbiter/sealed.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <memory>
#include <span>

#include "storage/base/check.h"
#include "storage/base/random.h"

namespace cairn {
namespace {

constexpr std::size_t kNonceBytes = 12, kTagBytes = 16;
static_assert(kSealBytes == kNonceBytes + kTagBytes);

struct Free {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, Free>;

const unsigned char* In(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* Out(char* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}

// The cipher's key is made of the secret, which may have other uses. `key` is authenticated beside the bytes.
Context Begin(std::string_view secret, std::string_view nonce, std::string_view key, bool encrypt) {
  constexpr std::string_view kUse = "cairn arbiter, sealed values, 1";
  unsigned char cipher_key[EVP_MAX_MD_SIZE];
  CAIRN_CHECK(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), In(kUse), kUse.size(), cipher_key,
                   nullptr) != nullptr);
  Context context(EVP_CIPHER_CTX_new());
  CAIRN_CHECK(context != nullptr);
  const int begun =
      EVP_CipherInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, cipher_key, In(nonce), encrypt ? 1 : 0);
  CAIRN_CHECK(begun == 1);
  int done = 0;
  CAIRN_CHECK(EVP_CipherUpdate(context.get(), nullptr, &done, In(key), static_cast<int>(key.size())) == 1);
  return context;
}

}  // namespace

std::string Seal(std::string_view secret, std::string_view key, std::string_view bytes) {
  std::string sealed(kSealBytes + bytes.size(), '\0');
  FillRandom(std::as_writable_bytes(std::span(sealed).first(kNonceBytes)));
  const Context context = Begin(secret, std::string_view(sealed).substr(0, kNonceBytes), key, /*encrypt=*/true);
  unsigned char* const tag = Out(sealed.data() + kNonceBytes);
  unsigned char* const body = tag + kTagBytes;
  int done = 0;
  CAIRN_CHECK(EVP_CipherUpdate(context.get(), body, &done, In(bytes), static_cast<int>(bytes.size())) == 1);
  CAIRN_CHECK(EVP_CipherFinal_ex(context.get(), body + done, &done) == 1);
  CAIRN_CHECK(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag) == 1);
  return sealed;
}

std::optional<std::string> Unseal(std::string_view secret, std::string_view key, std::string_view sealed) {
  if (sealed.size() < kSealBytes) return std::nullopt;
  const Context context = Begin(secret, sealed.substr(0, kNonceBytes), key, /*encrypt=*/false);
  std::string tag(sealed.substr(kNonceBytes, kTagBytes));
  CAIRN_CHECK(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) == 1);
  const std::string_view body = sealed.substr(kSealBytes);
  std::string bytes(body.size(), '\0');
  int done = 0;
  const bool fits =
      EVP_CipherUpdate(context.get(), Out(bytes.data()), &done, In(body), static_cast<int>(body.size())) == 1 &&
      EVP_CipherFinal_ex(context.get(), Out(bytes.data() + done), &done) == 1;
  if (!fits) return std::nullopt;
  return bytes;
}

}  // namespace cairn
