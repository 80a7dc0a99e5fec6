#include "daemon/config/ingest_address.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

TEST(IngestAddressTest, IsAHostWithAPortOrARangeOfThem) {
  ASSERT_OK_AND_ASSIGN(const IngestAddress range, ParseIngestAddress("0.0.0.0:7100-7199"));
  EXPECT_EQ(range.host, "0.0.0.0");
  EXPECT_TRUE(range.is_range());
  EXPECT_EQ(range.first, 7100);
  EXPECT_EQ(range.last, 7199);
  EXPECT_EQ(range.At(7150), "0.0.0.0:7150");
  for (const char* one : {"node7:7100", "[::1]:0", "127.0.0.1:65535", "[fd00::7]:80"}) {
    ASSERT_OK_AND_ASSIGN(const IngestAddress address, ParseIngestAddress(one));
    EXPECT_FALSE(address.is_range()) << one;
    EXPECT_EQ(address.At(address.first), one);
  }
  for (const char* bad : {"", ":", ":1", "node7", "node7:", "node7:1-", "node7:-1", "node7:2-1", "node7:0-5",
                          "node7:65536", "node7:1-65536", "no de:1", "node7:x", "/a:1"}) {
    EXPECT_STATUS(kInvalidArgument, ParseIngestAddress(bad), "host:port") << bad;
  }
}

}  // namespace
}  // namespace cairn
