#include "daemon/data/lane_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "tests/daemon/data/data_fixture.h"

namespace cairn {
namespace {

std::vector<std::byte> RandomBytes(std::mt19937_64& random, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  std::generate(result.begin(), result.end(), [&random] { return static_cast<std::byte>(random()); });
  return result;
}

bool Never() {
  return false;
}

TEST(LaneHashTest, ChunksInPartsOfAnyLengthHashAsTheWhole) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE(SeedText(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::vector<std::byte>> chunks(random() % 40);
    for (auto& chunk : chunks) chunk = RandomBytes(random, random() % (random() % 2 == 0 ? 200 : 200000));
    std::vector<std::size_t> done(chunks.size(), 0);
    std::vector<HashLane> lanes(chunks.size());
    bool more = true;
    while (more) {
      more = false;
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        const std::size_t part = std::min<std::size_t>(chunks[i].size() - done[i], random() % 150000);
        lanes[i].data = std::span(chunks[i]).subspan(done[i], part);
        done[i] += part;
        more |= done[i] < chunks[i].size();
      }
      HashLanes(lanes, Never);
      for (const HashLane& lane : lanes) {
        ASSERT_EQ(lane.crc.crc32c, Crc32c(lane.data));
        ASSERT_EQ(lane.crc.crc32, Crc32(lane.data));
      }
    }
    for (std::size_t i = 0; i < chunks.size(); ++i) ASSERT_EQ(lanes[i].hash.Finish(), Md5(chunks[i]));
  }
}

TEST(LaneHashTest, TheSharesOfThePartsInAnyOrderMakeTheBlock) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE(SeedText(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::byte> block(1 + random() % 70000);
    BlockCrc crc = ZeroCrc(block.size());
    // Parts from the end to the begin, with gaps of zeros between them.
    for (std::size_t end = block.size(); end > 0;) {
      const std::size_t bytes = 1 + random() % end;
      if (random() % 3 != 0) {
        const std::vector<std::byte> part = RandomBytes(random, bytes);
        std::copy(part.begin(), part.end(), block.begin() + static_cast<std::ptrdiff_t>(end - bytes));
        crc ^= ShareOf({Crc32c(part), Crc32(part)}, bytes, block.size() - end);
      }
      end -= bytes;
    }
    ASSERT_EQ(crc, (BlockCrc{Crc32c(block), Crc32(block)}));
  }
}

TEST(LaneHashTest, JoinedChecksumsAreThoseOfTheWhole) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE(SeedText(seed));
  std::mt19937_64 random(seed);
  const std::vector<std::byte> bytes = RandomBytes(random, 300000);
  for (const std::size_t behind : {std::size_t{0}, std::size_t{1}, kHashBlockBytes - 1, kHashBlockBytes,
                                   kHashBlockBytes + 1, std::size_t{123456}}) {
    const std::span<const std::byte> all(bytes);
    const auto [before, next] = std::pair(all.first(all.size() - behind), all.last(behind));
    EXPECT_EQ(JoinCrc(CrcOf(before), CrcOf(next), behind), (BlockCrc{Crc32c(bytes), Crc32(bytes)})) << behind;
  }
}

TEST(LaneHashTest, ByBlocksEachPartHasItsOwnChecksums) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE(SeedText(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::vector<std::byte>> data(1 + random() % 20);
    std::vector<HashLane> lanes(data.size());
    std::vector<std::vector<BlockCrc>> made(data.size());
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] = RandomBytes(random, random() % 2 == 0 ? random() % 70 : random() % 200000);
      lanes[i].data = data[i];
      if (i % 3 != 0) {
        lanes[i].in_block = random() % kHashBlockBytes;
        made[i].resize(LanePartsOf(*lanes[i].in_block, data[i].size()), BlockCrc{1, 1});  // of an earlier use
        lanes[i].parts = made[i];
      }
      lanes[i].hash.carried = random() % kMd5BlockBytes;
    }
    HashLanes(lanes, Never);
    for (const HashLane& lane : lanes) {
      if (!lane.in_block.has_value()) {
        EXPECT_EQ(lane.crc, CrcOf(lane.data));
        continue;
      }
      std::vector<BlockCrc> parts;
      for (std::size_t at = 0; at < lane.data.size();) {
        const std::size_t part =
            std::min(lane.data.size() - at, kHashBlockBytes - (*lane.in_block + at) % kHashBlockBytes);
        parts.push_back(CrcOf(lane.data.subspan(at, part)));
        at += part;
      }
      ASSERT_TRUE(std::ranges::equal(lane.parts, parts));
    }
  }
}

TEST(LaneHashTest, NoBytesHaveTheChecksumsOfNothing) {
  EXPECT_EQ(ZeroCrc(0), BlockCrc{});
  const std::vector<std::byte> zeros(1 << 20);
  EXPECT_EQ(ZeroCrc(zeros.size()), (BlockCrc{Crc32c(zeros), Crc32(zeros)}));
}

TEST(LaneHashTest, StopsWhenAsked) {
  const std::vector<std::byte> bytes(1 << 20);
  std::vector<HashLane> lanes(1);
  lanes[0].data = bytes;
  int asked = 0;
  HashLanes(lanes, [&asked] { return ++asked == 2; });
  EXPECT_EQ(asked, 2);
  EXPECT_LT(lanes[0].hash.md5.bytes, bytes.size());
}

}  // namespace
}  // namespace cairn
