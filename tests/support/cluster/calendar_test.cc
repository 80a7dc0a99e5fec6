// Programs whose calendar is wrong.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/cluster/probe.h"

namespace cairn::testing {
namespace {

class CalendarTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { CAIRN_START_CLUSTER_OR_SKIP(cluster, {.nodes = 1}); }
  std::chrono::seconds ahead() const { return std::chrono::seconds(GetParam()); }

  std::unique_ptr<Cluster> cluster;
};

TEST_P(CalendarTest, AProgramSeesAnotherDayButNotOtherClocks) {
  Process::Options options = Probe({"clock"});
  std::int64_t since_boot[2], monotonic[2], calendar[2];
  for (const int i : {0, 1}) {
    if (i == 1) options.environment = Cluster::CalendarAhead(ahead());
    std::istringstream(cluster->Run(1, options).output) >> since_boot[i] >> monotonic[i] >> calendar[i];
  }
  EXPECT_NEAR(calendar[1] - calendar[0], GetParam(), 600);
  EXPECT_NEAR(since_boot[1] - since_boot[0], 0, 600);
  EXPECT_NEAR(monotonic[1] - monotonic[0], 0, 600);
}

TEST_P(CalendarTest, AWaitUntilATimeOfTheCalendarEndsThen) {
  Process::Options options = Program({DataPath("tests/support/cluster/calendar_waits")});
  options.environment = Cluster::CalendarAhead(ahead());
  const Ending ending = cluster->Run(1, options, std::chrono::seconds(60));
  EXPECT_EQ(ending.exit_code, 0);  // an hour has not passed
  std::istringstream waits(ending.output);
  int count = 0;
  for (int ms; waits >> ms; ++count) EXPECT_GE(ms, 99) << count;
  EXPECT_EQ(count, 4);
}

TEST_P(CalendarTest, ADaemonWorksByIt) {
  Harness& harness = cluster->node(1);
  ASSERT_TRUE(harness.StartDaemon({}, Cluster::CalendarAhead(ahead())));
  const Ending client = cluster->Run(
      1, harness.Client("tests/integration/crash_client", {"--promises", harness.folder() + "/promises", "--mib", "1",
                                                           "--steps", "3", "--flush-every", "1"}));
  EXPECT_EQ(client.exit_code, 0) << client.output;
  EXPECT_EQ(cluster->Run(1, harness.Client("client/cli/cairn", {"status"})).exit_code, 0);
  EXPECT_EQ(harness.StopDaemon().exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(, CalendarTest, ::testing::Values(3600, -3600),
                         [](const auto& ahead) { return ahead.param > 0 ? "AnHourAhead" : "AnHourBehind"; });

}  // namespace
}  // namespace cairn::testing
