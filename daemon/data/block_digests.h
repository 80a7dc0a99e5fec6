// What the blocks of a checkpoint file hold, told by digests, so that a later checkpoint in its place writes only what
// differs. A digest is the pair of CRC32C and CRC-32 of a block: 64 bits that are made on the way. Two blocks with the
// same digest count as equal; if they were not, the chunk's MD5 and the catalogue's CRC would tell when it is verified.
#ifndef CAIRN_DAEMON_DATA_BLOCK_DIGESTS_H_
#define CAIRN_DAEMON_DATA_BLOCK_DIGESTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/data/lane_hash.h"
#include "storage/base/checksum.h"
#include "storage/io/disk.h"

namespace cairn {

inline constexpr std::uint64_t kDigestBlockBytes = kHashBlockBytes;
static_assert(kDigestBlockBytes == kDirectAlignment);
inline constexpr std::uint64_t kBlocksOfWindow = kCrcBlockBytes / kDigestBlockBytes;

struct BlockDigests {
  std::uint64_t data_bytes = 0;  // of the file's data; metadata behind it has no digests
  std::vector<BlockCrc> blocks;  // of each kDigestBlockBytes, the last one shorter
  friend bool operator==(const BlockDigests&, const BlockDigests&) = default;
};

// How they are made, piece by piece in any order (ShareOf): first the file is all zeros.
BlockDigests ZeroDigests(std::uint64_t data_bytes);

// Makes, in place, of the CRCs of parts (HashLane::parts of `bytes` bytes at file offset `offset`) what they change in
// their blocks.
void MakeShares(std::uint64_t data_bytes, std::uint64_t offset, std::uint64_t bytes, std::span<BlockCrc> parts);
void AddShares(std::uint64_t offset, std::span<const BlockCrc> shares, BlockDigests& digests);

// Digests of `bytes`, which begin at a block.
std::vector<BlockCrc> DigestsOf(std::span<const std::byte> bytes);

// The checksums of each kCrcBlockBytes of the data, the last one shorter.
std::vector<BlockCrc> WindowCrcs(const BlockDigests& digests);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_BLOCK_DIGESTS_H_
