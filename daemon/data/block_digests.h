// What the blocks of a checkpoint file hold, told by digests, so that a later checkpoint in its place writes only what
// differs. A digest is the pair of CRC32C and CRC-32 of a block: 64 bits that are made on the way. Two blocks with the
// same digest count as equal; if they were not, the chunk's MD5 and the catalogue's CRC would tell when it is verified.
#ifndef CAIRN_DAEMON_DATA_BLOCK_DIGESTS_H_
#define CAIRN_DAEMON_DATA_BLOCK_DIGESTS_H_

#include <cstdint>
#include <vector>

#include "daemon/data/lane_hash.h"
#include "storage/base/disk.h"

namespace cairn {

inline constexpr std::uint64_t kDigestBlockBytes = kDirectAlignment;

struct BlockDigests {
  std::uint64_t data_bytes = 0;  // of the file's data; metadata behind it has no digests
  std::vector<BlockCrc> blocks;  // of each kDigestBlockBytes, the last one shorter
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_BLOCK_DIGESTS_H_
