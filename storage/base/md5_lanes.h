// Multi-buffer MD5: many independent streams hashed at once in the lanes of a vector register.
// AVX-512: 16 lanes in a register, AVX2: 8, two registers by turns; else one after the other by OpenSSL; chosen at run
// time. RFC 1321.
#ifndef CAIRN_STORAGE_BASE_MD5_LANES_H_
#define CAIRN_STORAGE_BASE_MD5_LANES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "storage/base/checksum.h"

namespace cairn {

inline constexpr std::size_t kMd5LanesMax = 32;  // more take no less time for each
inline constexpr std::size_t kMd5BlockBytes = 64;

// One stream: whole 64-byte blocks are fed by Md5Advance, the rest by Md5Finish. Copyable.
struct Md5State {
  std::array<std::uint32_t, 4> words{0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u};
  std::uint64_t bytes = 0;  // hashed so far, a multiple of 64
};

struct Md5Lane {
  Md5State* state;
  const std::byte* data;
  std::size_t bytes;  // a multiple of 64
};

// Feeds each lane its bytes. Any number of lanes and any mix of lengths; the states must be distinct.
void Md5Advance(std::span<const Md5Lane> lanes);

// The digest after `rest` (any length); `state` itself stays as it was.
Md5Digest Md5Finish(const Md5State& state, std::span<const std::byte> rest);

// "avx512", "avx2" or "openssl".
std::string_view Md5Engine();
// For tests and `doctor`: run with that engine; false if this machine lacks it.
bool Md5AdvanceWith(std::string_view engine, std::span<const Md5Lane> lanes);

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_MD5_LANES_H_
