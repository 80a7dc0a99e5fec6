// Hashing in one go what comes in pieces: MD5 of many chunks side by side, and on the way the CRCs of the windows that
// the pieces lie in, and the least and greatest of their elements. The bytes may be shared memory: whatever they change
// to meanwhile, nothing but the results suffers. Pure but for the memory that is read. Thread-safe: values only.
#ifndef CAIRN_DAEMON_DATA_LANE_HASH_H_
#define CAIRN_DAEMON_DATA_LANE_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "storage/base/checksum.h"
#include "storage/base/md5_lanes.h"
#include "storage/format/placement/bounds.h"

namespace cairn {

// MD5 of a chunk that comes in parts of any length. Copyable.
struct ChunkHash {
  Md5State md5;
  std::array<std::byte, kMd5BlockBytes> carry{};  // the begin of a block whose rest has not come
  std::size_t carried = 0;

  Md5Digest Finish() const { return Md5Finish(md5, std::span(carry).first(carried)); }
};

// Both checksums of some bytes.
struct BlockCrc {
  std::uint32_t crc32c = 0;
  std::uint32_t crc32 = 0;
  BlockCrc& operator^=(const BlockCrc& other) {
    crc32c ^= other.crc32c;
    crc32 ^= other.crc32;
    return *this;
  }
  friend bool operator==(const BlockCrc&, const BlockCrc&) = default;
};

// Of so many zero bytes.
BlockCrc ZeroCrc(std::uint64_t bytes);

BlockCrc CrcOf(std::span<const std::byte> bytes);

// Of what has the checksums `before`, followed by `bytes` bytes with the checksums `next`. Made to be quick for
// kHashBlockBytes.
BlockCrc JoinCrc(const BlockCrc& before, const BlockCrc& next, std::uint64_t bytes);

// By how much the checksums of a block change when `part_bytes` zeros of it, with `behind` bytes behind them, become a
// part with checksums `part`. CRCs being linear, the parts of a block may come in any order: start with ZeroCrc of the
// block and ^= each part's share.
BlockCrc ShareOf(const BlockCrc& part, std::uint64_t part_bytes, std::uint64_t behind);

inline constexpr std::size_t kHashBlockBytes = 4096;

struct HashLane {
  ChunkHash hash;                         // in: before, out: after `data`
  std::span<const std::byte> data;        // the next bytes of the chunk
  view::BoundsScan scan{};                // in: of the bytes before, out: of these, too
  std::optional<std::size_t> in_block{};  // CRCs by blocks: so many bytes of a block lie before `data`
  BlockCrc crc{};                         // out, but not by blocks: of `data`
  std::span<BlockCrc> parts{};            // out, by blocks: of what of `data` lies in each block; so many must be there
};

// How many blocks have some of `bytes` bytes that begin so far in a block.
inline std::size_t LanePartsOf(std::size_t in_block, std::size_t bytes) {
  return bytes == 0 ? 0 : (in_block + bytes + kHashBlockBytes - 1) / kHashBlockBytes;
}

// Hashes all lanes, best kMd5LanesMax of about the same length. Asks `stop` every MiB or so: true ends it, and the
// results are of no use.
void HashLanes(std::span<HashLane> lanes, const std::function<bool()>& stop);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_LANE_HASH_H_
