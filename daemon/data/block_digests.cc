#include "daemon/data/block_digests.h"

#include <algorithm>

#include "storage/base/check.h"

namespace cairn {

BlockDigests ZeroDigests(std::uint64_t data_bytes) {
  const std::uint64_t rest = data_bytes % kDigestBlockBytes;
  BlockDigests digests{.data_bytes = data_bytes, .blocks = {}};
  digests.blocks.resize(data_bytes / kDigestBlockBytes + (rest != 0 ? 1 : 0), ZeroCrc(kDigestBlockBytes));
  if (rest != 0) digests.blocks.back() = ZeroCrc(rest);
  return digests;
}

void MakeShares(std::uint64_t data_bytes, std::uint64_t offset, std::uint64_t bytes, std::span<BlockCrc> parts) {
  const std::uint64_t end = offset + bytes;
  for (BlockCrc& part : parts) {
    const std::uint64_t block_end = std::min((offset / kDigestBlockBytes + 1) * kDigestBlockBytes, data_bytes);
    const std::uint64_t part_end = std::min(end, block_end);
    part = ShareOf(part, part_end - offset, block_end - part_end);
    offset = part_end;
  }
  CAIRN_CHECK(offset == end);
}

void AddShares(std::uint64_t offset, std::span<const BlockCrc> shares, BlockDigests& digests) {
  const std::uint64_t first = offset / kDigestBlockBytes;
  CAIRN_CHECK(first + shares.size() <= digests.blocks.size());
  for (std::size_t i = 0; i < shares.size(); ++i) digests.blocks[first + i] ^= shares[i];
}

std::vector<BlockCrc> DigestsOf(std::span<const std::byte> bytes) {
  std::vector<BlockCrc> digests;
  digests.reserve(bytes.size() / kDigestBlockBytes + 1);
  while (!bytes.empty()) {
    const std::size_t block = std::min<std::size_t>(bytes.size(), kDigestBlockBytes);
    digests.push_back(CrcOf(bytes.first(block)));
    bytes = bytes.subspan(block);
  }
  return digests;
}

std::vector<BlockCrc> WindowCrcs(const BlockDigests& digests) {
  std::vector<BlockCrc> windows;
  windows.reserve(digests.blocks.size() / kBlocksOfWindow + 1);
  for (std::size_t i = 0; i < digests.blocks.size(); ++i) {
    if (i % kBlocksOfWindow == 0) windows.emplace_back();
    const std::uint64_t bytes = std::min(kDigestBlockBytes, digests.data_bytes - i * kDigestBlockBytes);
    windows.back() = JoinCrc(windows.back(), digests.blocks[i], bytes);
  }
  return windows;
}

}  // namespace cairn
