#include "daemon/data/block_digests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "tests/daemon/data/data_fixture.h"

namespace cairn {
namespace {

bool Never() {
  return false;
}

std::vector<BlockCrc> CrcsOfEach(std::span<const std::byte> bytes, std::size_t part) {
  std::vector<BlockCrc> crcs;
  for (std::size_t at = 0; at < bytes.size(); at += part) {
    const auto of = bytes.subspan(at, std::min(part, bytes.size() - at));
    crcs.push_back({Crc32c(of), Crc32(of)});
  }
  return crcs;
}

TEST(BlockDigestsTest, ZerosHaveThoseOfZeros) {
  for (const std::size_t bytes : {0, 1, 4095, 4096, 4097, 3 << 20}) {
    const std::vector<std::byte> zeros(bytes);
    const BlockDigests digests = ZeroDigests(bytes);
    EXPECT_EQ(digests.data_bytes, bytes);
    EXPECT_EQ(digests.blocks, CrcsOfEach(zeros, kDigestBlockBytes));
    EXPECT_EQ(digests.blocks, DigestsOf(zeros));
  }
}

// Parts as they are hashed: of chunks that begin and end anywhere, with gaps between them, each in pieces.
TEST(BlockDigestsTest, PartsInAnyOrderMakeThoseOfTheWhole) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE(SeedText(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60 && !testing::Test::HasFailure(); ++round) {
    std::vector<std::byte> data(random() % (random() % 2 == 0 ? 20000 : 3 << 20));
    struct Part {
      std::size_t offset = 0;
      std::size_t bytes = 0;
    };
    std::vector<Part> parts;
    for (std::size_t at = 0; at < data.size();) {
      const std::size_t bytes = std::min<std::size_t>(data.size() - at, 1 + random() % 200000);
      if (random() % 4 != 0) {
        parts.push_back({at, bytes});
        std::generate_n(data.begin() + static_cast<std::ptrdiff_t>(at), bytes,
                        [&random] { return static_cast<std::byte>(random()); });
      }
      at += bytes;
    }
    std::shuffle(parts.begin(), parts.end(), random);
    BlockDigests digests = ZeroDigests(data.size());
    for (const Part& part : parts) {
      std::vector<HashLane> lanes(1);
      lanes[0].data = std::span(data).subspan(part.offset, part.bytes);
      lanes[0].in_block = part.offset % kDigestBlockBytes;
      std::vector<BlockCrc> made(LanePartsOf(*lanes[0].in_block, part.bytes));
      lanes[0].parts = made;
      // A chunk's MD5 may be in mid-block: parts of lanes are cut there, too.
      lanes[0].hash.carried = random() % kMd5BlockBytes;
      HashLanes(lanes, Never);
      MakeShares(data.size(), part.offset, part.bytes, lanes[0].parts);
      AddShares(part.offset, lanes[0].parts, digests);
    }
    EXPECT_EQ(digests.blocks, CrcsOfEach(data, kDigestBlockBytes));
    EXPECT_EQ(WindowCrcs(digests), CrcsOfEach(data, kCrcBlockBytes));
  }
}

}  // namespace
}  // namespace cairn
