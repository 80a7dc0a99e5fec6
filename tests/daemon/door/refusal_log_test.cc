#include "daemon/door/refusal_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/daemon/door/peer_node.h"

namespace cairn {
namespace {

TEST(RefusalLogTest, StrangersFillNoLog) {
  const testing::WarningsHeard log;
  RefusalLog refusals;
  RefusalLog::Time now{};
  const auto lines = [&] {
    const std::string all = log.all();
    return std::count(all.begin(), all.end(), '\n');
  };
  for (int i = 0; i < 1000; ++i) refusals.Write(fmt::format("10.0.0.1:{}", i), {Flaw::kNotTls, "no TLS"}, now);
  EXPECT_EQ(lines(), RefusalLog::kLinesMax);
  EXPECT_EQ(log.all().find("peer 10.0.0.1:0: refused: no TLS\n"), 0u) << log.all();
  // Another kind is not lost among them.
  refusals.Write("10.0.0.2:1", {Flaw::kExpired, "expired"}, now);
  EXPECT_NE(log.all().find("peer 10.0.0.2:1: refused: expired"), std::string::npos);
  now += RefusalLog::kWhile;
  refusals.Write("10.0.0.1:7", {Flaw::kNotTls, "no TLS"}, now);
  EXPECT_NE(log.all().find("990 more lines such as the next one were left out"), std::string::npos) << log.all();
  EXPECT_EQ(lines(), RefusalLog::kLinesMax + 3);
}

}  // namespace
}  // namespace cairn
