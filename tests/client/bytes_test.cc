// Copies past the caches, CRC32C and packed boxes, each against the plainest thing that does the same.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "client/copy/copy.h"
#include "client/library/crc32c.h"
#include "client/library/gather.h"

namespace {

std::uint64_t Seed() {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

std::vector<unsigned char> RandomBytes(std::size_t count, std::mt19937_64& random) {
  std::vector<unsigned char> bytes(count);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

TEST(CopyTest, EveryWayEqualsMemcpyAtEveryAlignmentAndWritesNothingElse) {
  std::mt19937_64 random(1);
  const std::vector<unsigned char> source = RandomBytes(8192, random);
  const std::size_t lengths[] = {0, 1, 63, 64, 65, 255, 256, 257, 511, 1023, 1024, 1025, 4095, 4096, 4097};
  for (std::size_t way = 0; way < lc_copy_way_count; ++way) {
    if (!lc_copy_ways[way].works_here()) continue;
    for (std::size_t to = 0; to < 64; ++to) {
      for (std::size_t from = 0; from < 64; from += 7) {
        for (const std::size_t bytes : lengths) {
          std::vector<unsigned char> target(64 + 4200, 0xEE), expected = target;
          lc_copy_ways[way].copy(target.data() + to, source.data() + from, bytes);
          if (bytes > 0) std::memcpy(expected.data() + to, source.data() + from, bytes);
          ASSERT_EQ(target, expected) << lc_copy_ways[way].name << " to " << to << " from " << from << ", " << bytes;
        }
      }
    }
  }
}

TEST(CopyTest, TheChosenWayCopiesLargeAndSmall) {
  std::mt19937_64 random(2);
  const std::vector<unsigned char> source = RandomBytes((3 << 20) + 5, random);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{17}, std::size_t{1023}, source.size() - 3}) {
    std::vector<unsigned char> target(source.size(), 0);
    lc_copy(target.data() + 1, source.data() + 2, bytes);
    EXPECT_EQ(bytes > 0 ? std::memcmp(target.data() + 1, source.data() + 2, bytes) : 0, 0) << bytes;
  }
}

TEST(CopyTest, TheLastWayWorksEverywhere) {
  EXPECT_TRUE(lc_copy_ways[lc_copy_way_count - 1].works_here());
}

// RFC 3720, B.4.
TEST(Crc32cTest, HasTheValuesOfTheStandard) {
  std::vector<unsigned char> zeros(32, 0), ones(32, 0xff), rising(32);
  for (int i = 0; i < 32; ++i) rising[static_cast<std::size_t>(i)] = static_cast<unsigned char>(i);
  for (auto* crc : {&lc_crc32c, &lc_crc32c_portable}) {
    EXPECT_EQ(crc(0, zeros.data(), 32), 0x8a9136aau);
    EXPECT_EQ(crc(0, ones.data(), 32), 0x62a8ab43u);
    EXPECT_EQ(crc(0, rising.data(), 32), 0x46dd794eu);
    EXPECT_EQ(crc(0, "123456789", 9), 0xe3069283u);
    EXPECT_EQ(crc(0, nullptr, 0), 0u);
  }
}

TEST(Crc32cTest, GoesOnFromAnyCutAndBothWaysAgree) {
  std::mt19937_64 random(3);
  const std::vector<unsigned char> bytes = RandomBytes(300, random);
  const std::uint32_t whole = lc_crc32c(0, bytes.data(), bytes.size());
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::uint32_t head = lc_crc32c_portable(0, bytes.data(), cut);
    EXPECT_EQ(lc_crc32c(head, bytes.data() + cut, bytes.size() - cut), whole) << "cut at " << cut;
  }
}

// The model: every element of the box, one after the other.
struct Block {
  std::size_t element;
  std::vector<std::uint64_t> memory, start, count;
  std::vector<unsigned char> bytes;

  std::uint64_t elements() const {
    std::uint64_t n = 1;
    for (const std::uint64_t c : count) n *= c;
    return n;
  }
  std::uint64_t PlaceOf(std::uint64_t number) const {
    std::uint64_t place = 0, stride = 1;
    for (std::size_t d = count.size(); d-- > 0;) {
      place += (start[d] + number % count[d]) * stride;
      number /= count[d];
      stride *= memory[d];
    }
    return place * element;
  }
  std::vector<unsigned char> Packed() const {
    std::vector<unsigned char> packed;
    for (std::uint64_t i = 0; i < elements(); ++i) {
      const unsigned char* at = bytes.data() + PlaceOf(i);
      packed.insert(packed.end(), at, at + element);
    }
    return packed;
  }
};

Block RandomBlock(std::mt19937_64& random) {
  auto below = [&](std::uint64_t n) { return random() % n; };
  Block block;
  block.element = std::size_t{1} << below(5);
  const std::size_t dimensions = 1 + below(8);
  std::uint64_t room = 4000, total = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    const std::uint64_t most = dimensions <= 2 ? 60 : dimensions <= 4 ? 9 : 4;
    const std::uint64_t memory = 1 + below(std::min(most, std::max<std::uint64_t>(room, 1)));
    room /= memory;
    total *= memory;
    const std::uint64_t count = below(3) == 0 ? memory : below(memory + 1);
    block.memory.push_back(memory);
    block.count.push_back(count);
    block.start.push_back(count < memory ? below(memory - count + 1) : 0);
  }
  block.bytes = RandomBytes(total * block.element, random);
  return block;
}

TEST(GatherTest, AnyRangeOfAnyBoxEqualsTheModelBothWays) {
  const std::uint64_t seed = Seed();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    const Block block = RandomBlock(random);
    lc_box box;
    ASSERT_TRUE(lc_box_make(block.element, static_cast<std::int32_t>(block.count.size()), block.count.data(),
                            block.memory.data(), block.start.data(), &box));
    const std::vector<unsigned char> packed = block.Packed();
    ASSERT_EQ(box.bytes, packed.size());
    const std::uint64_t last = block.elements() == 0 ? 0 : block.PlaceOf(block.elements() - 1) + block.element;
    ASSERT_EQ(lc_box_end(&box), last);
    const std::uint64_t offset = random() % (packed.size() + 1);
    const std::uint64_t bytes = random() % (packed.size() - offset + 1);

    std::vector<unsigned char> gathered(bytes, 0);
    lc_gather(gathered.data(), block.bytes.data(), &box, offset, bytes);
    ASSERT_EQ(gathered, std::vector<unsigned char>(packed.begin() + static_cast<std::ptrdiff_t>(offset),
                                                   packed.begin() + static_cast<std::ptrdiff_t>(offset + bytes)));

    // Scattering other bytes changes those elements alone: the ghost cells stay.
    const std::vector<unsigned char> other = RandomBytes(bytes, random);
    Block expected = block, scattered = block;
    for (std::uint64_t i = 0; i < bytes; ++i) {
      const std::uint64_t at = offset + i;
      expected.bytes[expected.PlaceOf(at / block.element) + at % block.element] = other[i];
    }
    lc_scatter(scattered.bytes.data(), other.data(), &box, offset, bytes);
    ASSERT_EQ(scattered.bytes, expected.bytes);
  }
}

TEST(GatherTest, LongRowsAndShortOnesAreTheSameToTheCaller) {
  std::mt19937_64 random(5);
  for (const std::uint64_t width : {7u, 255u, 256u, 300u, 5000u}) {
    Block block{.element = 8, .memory = {40, width + 2}, .start = {1, 1}, .count = {38, width}, .bytes = {}};
    block.bytes = RandomBytes(40 * (width + 2) * 8, random);
    lc_box box;
    ASSERT_TRUE(lc_box_make(8, 2, block.count.data(), block.memory.data(), block.start.data(), &box));
    const std::vector<unsigned char> packed = block.Packed();
    std::vector<unsigned char> gathered(packed.size());
    lc_gather(gathered.data(), block.bytes.data(), &box, 0, packed.size());
    EXPECT_EQ(gathered, packed) << width;
  }
}

TEST(GatherTest, RefusesABoxThatDoesNotLieInItsMemory) {
  lc_box box;
  const std::uint64_t memory[] = {4, 4}, start[] = {0, 1}, fits[] = {4, 3}, exceeds[] = {4, 4};
  EXPECT_TRUE(lc_box_make(8, 2, fits, memory, start, &box));
  EXPECT_FALSE(lc_box_make(8, 2, exceeds, memory, start, &box));
  const std::uint64_t far[] = {UINT64_MAX, 0}, one[] = {1, 1};
  EXPECT_FALSE(lc_box_make(8, 2, one, memory, far, &box));
}

TEST(GatherTest, RefusesMemoryThatNoAddressSpaceHolds) {
  lc_box box;
  const std::uint64_t memory[] = {std::uint64_t{1} << 40, std::uint64_t{1} << 40}, start[] = {0, 0}, count[] = {1, 1};
  EXPECT_FALSE(lc_box_make(8, 2, count, memory, start, &box));
}

TEST(GatherTest, AnEmptyBoxHasNoBytes) {
  lc_box box;
  const std::uint64_t memory[] = {4, 4}, start[] = {4, 0}, count[] = {0, 4};
  ASSERT_TRUE(lc_box_make(8, 2, count, memory, start, &box));
  EXPECT_EQ(box.bytes, 0u);
  lc_gather(nullptr, nullptr, &box, 0, 0);
  lc_scatter(nullptr, nullptr, &box, 0, 0);
}

}  // namespace
