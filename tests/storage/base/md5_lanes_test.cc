#include "storage/base/md5_lanes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "storage/base/checksum.h"

namespace cairn {
namespace {

// CAIRN_TEST_SEED repeats a run.
std::uint64_t Seed() {
  const char* seed = std::getenv("CAIRN_TEST_SEED");
  return seed != nullptr ? std::strtoull(seed, nullptr, 10) : std::random_device{}();
}

class Md5LanesTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!Md5AdvanceWith(GetParam(), {})) GTEST_SKIP() << "this machine lacks " << GetParam();
  }

  // Hashes bytes[i] in lanes, in `rounds` calls that each take a random number of blocks of it, and compares.
  void ExpectAsOpenSsl(const std::vector<std::vector<std::byte>>& streams, int rounds, std::mt19937_64& random) {
    std::vector<Md5State> states(streams.size());
    for (int round = 0; round < rounds; ++round) {
      std::vector<Md5Lane> lanes;
      for (std::size_t i = 0; i < streams.size(); ++i) {
        const std::size_t left = (streams[i].size() - states[i].bytes) / kMd5BlockBytes;
        const std::size_t blocks = round + 1 == rounds ? left : random() % (left + 1);
        lanes.push_back({&states[i], streams[i].data() + states[i].bytes, blocks * kMd5BlockBytes});
      }
      ASSERT_TRUE(Md5AdvanceWith(GetParam(), lanes));
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const std::span<const std::byte> rest = std::span(streams[i]).subspan(states[i].bytes);
      EXPECT_LT(rest.size(), kMd5BlockBytes);
      EXPECT_EQ(HexOf(Md5Finish(states[i], rest)), HexOf(Md5(streams[i]))) << "lane " << i << " of " << streams.size();
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, Md5LanesTest, testing::Values("avx512", "avx2", "openssl"),
                         [](const auto& info) { return info.param; });

std::vector<std::byte> RandomBytes(std::size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

TEST_P(Md5LanesTest, AnyNumberOfLanesOfAnyLengthsIsAsOpenSsl) {
  const std::uint64_t seed = Seed();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (std::size_t count = 0; count <= 40; ++count) {
    std::vector<std::vector<std::byte>> streams;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes_max = random() % 4 == 0 ? 100 : 20000;
      streams.push_back(RandomBytes(random() % bytes_max, random));
    }
    ExpectAsOpenSsl(streams, /*rounds=*/1 + static_cast<int>(random() % 4), random);
  }
}

TEST_P(Md5LanesTest, EveryLaneCountUpToTwoRegistersOfEqualLengthsIsAsOpenSsl) {
  std::mt19937_64 random(1);
  for (std::size_t count = 1; count <= 2 * kMd5LanesMax; ++count) {
    std::vector<std::vector<std::byte>> streams;
    for (std::size_t i = 0; i < count; ++i) streams.push_back(RandomBytes(1000, random));
    ExpectAsOpenSsl(streams, /*rounds=*/1, random);
  }
}

TEST_P(Md5LanesTest, EveryLengthAroundABlockIsAsOpenSsl) {
  std::mt19937_64 random(1);
  std::vector<std::vector<std::byte>> streams;
  for (std::size_t bytes = 0; bytes < 200; ++bytes) streams.push_back(RandomBytes(bytes, random));
  ExpectAsOpenSsl(streams, /*rounds=*/1, random);
}

TEST_P(Md5LanesTest, DataNeedNotBeAligned) {
  std::mt19937_64 random(1);
  const std::vector<std::byte> bytes = RandomBytes(20000, random);
  std::vector<Md5State> states(kMd5LanesMax);
  std::vector<Md5Lane> lanes;
  for (std::size_t i = 0; i < states.size(); ++i) lanes.push_back({&states[i], bytes.data() + i, 128 * 64});
  ASSERT_TRUE(Md5AdvanceWith(GetParam(), lanes));
  for (std::size_t i = 0; i < states.size(); ++i) {
    EXPECT_EQ(states[i].bytes, 128u * 64);
    EXPECT_EQ(Md5Finish(states[i], {}), Md5(std::span(bytes).subspan(i, 128 * 64)));
  }
}

TEST(Md5FinishTest, LeavesTheStateAsItWas) {
  const std::vector<std::byte> bytes(100, std::byte{1});
  Md5State state;
  const Md5Digest first = Md5Finish(state, bytes);
  EXPECT_EQ(state.bytes, 0u);
  EXPECT_EQ(first, Md5(bytes));
  EXPECT_EQ(Md5Finish(state, bytes), first);
}

TEST(Md5FinishTest, LengthsBeyond32BitsOfBitsArePadded) {
  // 528 MiB of zeros, block after block of the same buffer: more than 2^32 bits.
  const std::vector<std::byte> zeros(16 << 20);
  std::vector<Md5State> states(2);
  for (int i = 0; i < 33; ++i) {
    const std::vector<Md5Lane> lanes = {{&states[0], zeros.data(), zeros.size()}, {&states[1], zeros.data(), 64}};
    Md5Advance(lanes);
  }
  EXPECT_EQ(HexOf(Md5Finish(states[0], {})), "ae045953bc902db39a63884a75d06a90");
}

TEST(Md5EngineTest, IsOneThatThisMachineHas) {
  EXPECT_TRUE(Md5AdvanceWith(Md5Engine(), {}));
  EXPECT_FALSE(Md5AdvanceWith("abacus", {}));
  EXPECT_TRUE(Md5AdvanceWith("openssl", {}));
}

}  // namespace
}  // namespace cairn
