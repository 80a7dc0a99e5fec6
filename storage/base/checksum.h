// CRC32C and CRC-32 (ISA-L; zlib joins CRC-32s) and MD5 (one stream by OpenSSL; many at once in md5_lanes.h).
#ifndef CAIRN_STORAGE_BASE_CHECKSUM_H_
#define CAIRN_STORAGE_BASE_CHECKSUM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn {

// Castagnoli, reflected 0x82F63B78, as iSCSI has it (RFC 3720, 12.1; vectors in B.4). `before`: CRC of what precedes.
std::uint32_t Crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

// The zlib CRC-32, reflected 0xEDB88320 (formats/scr.md, 1.2).
std::uint32_t Crc32(std::span<const std::byte> bytes, std::uint32_t before = 0);

// The CRC-32 of a followed by b, from their CRCs and the length of b; lets parts be taken in any order.
std::uint32_t Crc32Combine(std::uint32_t a, std::uint32_t b, std::uint64_t b_bytes);

using Md5Digest = std::array<std::byte, 16>;

Md5Digest Md5(std::span<const std::byte> bytes);
std::string HexOf(std::span<const std::byte> bytes);          // lower case
std::optional<std::string> BytesOfHex(std::string_view hex);  // none: not pairs of such digits

inline constexpr std::uint64_t kCrcBlockBytes = 1 << 20;  // a catalogue holds a CRC32C of each such block of a file

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_CHECKSUM_H_
