#include "daemon/data/lane_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
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
