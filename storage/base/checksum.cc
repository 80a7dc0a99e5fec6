#include "storage/base/checksum.h"

#include <isa-l/crc.h>
#include <openssl/evp.h>
#include <zlib.h>

#include <algorithm>
#include <string_view>

#include "storage/base/check.h"

namespace cairn {

std::uint32_t Crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  // ISA-L's crc32_iscsi leaves both complements to its caller and takes an int length.
  constexpr std::size_t kPieceBytesMax = std::size_t{1} << 30;
  std::uint32_t crc = ~before;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPieceBytesMax));
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));  // it only reads
    crc = crc32_iscsi(data, static_cast<int>(piece.size()), crc);
    bytes = bytes.subspan(piece.size());
  }
  return ~crc;
}

std::uint32_t Crc32(std::span<const std::byte> bytes, std::uint32_t before) {
  if (bytes.empty()) return before;
  return crc32_gzip_refl(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::uint32_t Crc32Combine(std::uint32_t a, std::uint32_t b, std::uint64_t b_bytes) {
  // Appending n bytes multiplies the CRC of what is before by x^(8n). The order of x divides 2^32 - 1, so n may be
  // reduced. This matters: zlib takes a signed length, and 1.2.13 never returns from a negative one.
  constexpr std::uint64_t kOrder = 0xFFFFFFFFu;
  static_assert(sizeof(z_off_t) == 8);
  return static_cast<std::uint32_t>(::crc32_combine(a, b, static_cast<z_off_t>(b_bytes % kOrder)));
}

Md5Digest Md5(std::span<const std::byte> bytes) {
  Md5Digest digest;
  const int ok = EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr,
                            EVP_md5(), nullptr);
  CAIRN_CHECK(ok == 1);
  return digest;
}

std::string HexOf(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    hex += kDigits[std::to_integer<std::size_t>(b >> 4)];
    hex += kDigits[std::to_integer<std::size_t>(b & std::byte{15})];
  }
  return hex;
}

std::optional<std::string> BytesOfHex(std::string_view hex) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const std::size_t high = kDigits.find(hex[i]);
    const std::size_t low = kDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

}  // namespace cairn
