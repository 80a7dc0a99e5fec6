#include "storage/base/checksum.h"

#include <isa-l/crc.h>
#include <openssl/evp.h>

#include <algorithm>
#include <string_view>

#include "storage/base/check.h"

namespace cairn {
namespace {

constexpr std::uint32_t kCrc32Polynomial = 0xEDB88320u;  // reflected: bit 31 is the coefficient of x^0

// The product of two polynomials over GF(2) modulo the CRC-32 polynomial, all reflected.
constexpr std::uint32_t Multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kCrc32Polynomial : 0);  // times x
  }
  return product;
}

// Entry k: x^(2^k). The order of x divides 2^32 - 1, so that entry 32 would be entry 0 again.
constexpr std::array<std::uint32_t, 32> kSquares = [] {
  std::array<std::uint32_t, 32> squares{};
  squares[0] = 1u << 30;  // x
  for (std::size_t k = 1; k < squares.size(); ++k) squares[k] = Multiply(squares[k - 1], squares[k - 1]);
  return squares;
}();
static_assert(Multiply(kSquares[31], kSquares[31]) == kSquares[0]);

}  // namespace

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
  // Appending n bytes multiplies the CRC of what is before by x^(8n); the complements cancel out.
  for (std::size_t k = 3; b_bytes != 0; ++k, b_bytes >>= 1) {
    if ((b_bytes & 1) != 0) a = Multiply(kSquares[k % kSquares.size()], a);
  }
  return a ^ b;
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

}  // namespace cairn
