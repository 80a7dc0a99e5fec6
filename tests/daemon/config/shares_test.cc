#include "daemon/config/shares.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr std::uint64_t kGiB = 1 << 30;
constexpr Machine kMachine = {.cache_bytes = 1000 * kGiB, .memory_bytes = 200 * kGiB, .memory_here = 200 * kGiB};

TEST(SharesTest, UsersWithMoreThanOneAreNamed) {
  ASSERT_OK_AND_ASSIGN(const auto shares, ParseShares(" alice=10, bob = 2,c_d-e=65536 "));
  EXPECT_EQ(shares, (std::map<std::string, std::uint32_t>{{"alice", 10}, {"bob", 2}, {"c_d-e", 65536}}));
  for (const char* none : {"", "  "}) {
    ASSERT_OK_AND_ASSIGN(const auto empty, ParseShares(none));
    EXPECT_TRUE(empty.empty());
  }
  for (const char* bad : {"alice", "alice=", "=3", "alice=0", "alice=65537", "alice=-1", "alice=1x", "alice=1,",
                          ",alice=1", "alice=1;bob=2", "alice=99999999999"}) {
    EXPECT_STATUS(kInvalidArgument, ParseShares(bad), "alice=10") << bad;
  }
  EXPECT_STATUS(kInvalidArgument, ParseShares("a=1,b=2,a=3"), "'a' is there twice");
}

TEST(SharesTest, FiftyUsersWithFiftySharesHaveRoomBesideEachOther) {
  std::uint64_t cache = 0, images = 0;
  for (int user = 0; user < 50; ++user) {
    Config fifty;
    fifty.supervisor.shares = 50;
    const Config config = WithShares(fifty, "user" + std::to_string(user), kMachine);
    EXPECT_EQ(config.cache.reserve, 50 * kGiB);
    EXPECT_EQ(config.cache.bytes_max, 19 * kGiB);
    EXPECT_EQ(config.image.bytes_max, kGiB);
    cache += config.cache.bytes_max, images += config.image.bytes_max;
  }
  EXPECT_LE(cache + 50 * kGiB, kMachine.cache_bytes);
  EXPECT_LE(images, kMachine.memory_bytes / 4);
}

TEST(SharesTest, AUserMayHaveMoreAndNobodyHasMoreThanAll) {
  Config config;
  config.supervisor.shares = 10;
  config.supervisor.shares_of = "alice=4,bob=100";
  config.cache.reserve = 100 * kGiB;
  EXPECT_EQ(WithShares(config, "alice", kMachine).cache.bytes_max, 360 * kGiB);
  EXPECT_EQ(WithShares(config, "alice", kMachine).image.bytes_max, 20 * kGiB);
  EXPECT_EQ(WithShares(config, "bob", kMachine).cache.bytes_max, 900 * kGiB);
  EXPECT_EQ(WithShares(config, "carol", kMachine).cache.bytes_max, 90 * kGiB);
  EXPECT_EQ(WithShares(config, "carol", kMachine).cache.reserve, 100 * kGiB);
}

TEST(SharesTest, WhatTheSettingsNameCounts) {
  Config config;
  config.cache.bytes_max = 7;
  config.image.bytes_max = 8;
  const Config with = WithShares(config, "alice", kMachine);
  EXPECT_EQ(with.cache.bytes_max, 7u);
  EXPECT_EQ(with.image.bytes_max, 8u);
  EXPECT_EQ(with.cache.reserve, 50 * kGiB) << "nobody fills the file system";
}

TEST(SharesTest, ImagesFitIntoWhatControlGroupsLeave) {
  Config config;
  config.supervisor.shares = 1;
  Machine machine = kMachine;
  machine.memory_here = 8 * kGiB;
  EXPECT_EQ(WithShares(config, "alice", machine).image.bytes_max, 2 * kGiB);
  machine.memory_here = 1 << 20;
  EXPECT_EQ(WithShares(config, "alice", machine).image.bytes_max, 16u << 20) << "a checkpoint needs so much";
}

TEST(SharesTest, NoMachineIsTooLargeOrTooSmall) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  Config config;
  config.supervisor.shares = 65'536;
  config.supervisor.shares_of = "alice=65536";
  config.cache.reserve = 1;
  const Machine largest = {.cache_bytes = kMost, .memory_bytes = kMost, .memory_here = kMost};
  EXPECT_EQ(WithShares(config, "alice", largest).cache.bytes_max, kMost - 1);
  EXPECT_EQ(QuotaOf(config, "alice", largest), kMost);
  config.cache.reserve = kMost;
  EXPECT_EQ(WithShares(config, "alice", {}).cache.bytes_max, 1u) << "0 would be no share, but all";
}

TEST(SharesTest, TheKernelsQuotaIsALittleMore) {
  Config config;
  config.cache.bytes_max = 160;
  EXPECT_EQ(QuotaOf(config, "alice", kMachine), 170u);
  config = Config();
  config.supervisor.shares = 50;
  EXPECT_EQ(QuotaOf(config, "alice", kMachine), 19 * kGiB + 19 * kGiB / 16);
}

}  // namespace
}  // namespace cairn
