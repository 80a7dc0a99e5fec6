#include "daemon/config/peer_address.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

TEST(PeerAddressTest, AnAddressIsANumberAndAPort) {
  for (const char* text : {"10.0.0.7:17001", "127.0.0.1:1", "[fe80::1%ib0]:17001", "[::1]:65535", "[fd00::7]:80"}) {
    ASSERT_OK_AND_ASSIGN(const PeerAddress address, ParsePeerAddress(text));
    EXPECT_EQ(TextOf(address), text);
  }
  for (const char* text : {"",
                           ":",
                           ":1",
                           "10.0.0.7",
                           "10.0.0.7:",
                           "10.0.0.7:0",
                           "10.0.0.7:65536",
                           "10.0.0.7:-1",
                           "10.0.0.7:1x",
                           "10.0.0:1",
                           "10.0.0.256:1",
                           "node7:17001",
                           "fe80::1:17001",
                           "[10.0.0.7]:1",
                           "[]:1",
                           "[::1]",
                           "[::1%]:1",
                           "[::1% ]:1",
                           "[::1%0123456789abcdef]:1",
                           "[::1]]:1",
                           " 10.0.0.7:1"}) {
    EXPECT_STATUS(kInvalidArgument, ParsePeerAddress(text), "such as 10.0.0.7:17600") << text;
  }
  EXPECT_FALSE(ParsePeerAddress(std::string("10.0.0.7\0:1", 11)).ok());
}

TEST(PeerAddressTest, SeveralHaveCommasBetweenThem) {
  ASSERT_OK_AND_ASSIGN(const auto none, ParsePeerAddresses(" "));
  EXPECT_TRUE(none.empty());
  ASSERT_OK_AND_ASSIGN(const auto two, ParsePeerAddresses("10.0.0.7:17001,\t[::1]:2 "));
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].ip, "::1");
  for (const char* text : {"10.0.0.7:1,", ",10.0.0.7:1", "10.0.0.7:1,,10.0.0.8:1", "10.0.0.7:1 10.0.0.8:1"}) {
    EXPECT_FALSE(ParsePeerAddresses(text).ok()) << text;
  }
}

TEST(PeerAddressTest, PortsAreARangeOrOne) {
  ASSERT_OK_AND_ASSIGN(const PortRange range, ParsePorts("17600-17699"));
  EXPECT_EQ(range.first, 17600);
  EXPECT_EQ(range.last, 17699);
  ASSERT_OK_AND_ASSIGN(const PortRange one, ParsePorts("80"));
  EXPECT_EQ(one.first, one.last);
  for (const char* text : {"", "-", "0", "0-5", "5-", "-5", "9-8", "1-65536", "1 - 2", "1-2-3", "a-b"}) {
    EXPECT_STATUS(kInvalidArgument, ParsePorts(text), "no range of ports") << text;
  }
}

}  // namespace
}  // namespace cairn
