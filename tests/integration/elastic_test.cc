// The MPI example, killed on 4 ranks and started again on 2, 3 and 7: from whichever copy there is, the result is that
// of an undisturbed run bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/integration/harness.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kProgram[] = "client/examples/heat2d_mpi";

// 60 steps on an uneven grid, a checkpoint after every 10th; dies in step 48.
class ElasticTest : public ::testing::TestWithParam<int> {
 protected:
  Ending Run(int ranks, const std::string& result, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--size", "61", "--steps", "60", "--out", harness.folder() + "/" + result};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunProcess(harness.MpiClient(ranks, kProgram, arguments));
  }
  void Undisturbed() {
    const Ending ending = Run(4, "undisturbed", {"--every", "0"});
    ASSERT_EQ(ending.exit_code, 0) << ending.output;
  }
  void DiesOn4Ranks(const std::string& level) {
    const Ending ending = Run(4, "killed", {"--every", "10", "--die-at", "48", "--wait", level});
    EXPECT_NE(ending.exit_code, 0) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("checkpoint of step 40 is dataset "));
    EXPECT_FALSE(std::filesystem::exists(harness.folder() + "/killed"));
  }
  // From step 40, all ranks from `tier`.
  void GoesOn(int ranks, const std::string& tier) {
    const std::string result = "on" + std::to_string(ranks);
    const Ending ending = Run(ranks, result, {"--every", "1000"});
    ASSERT_EQ(ending.exit_code, 0) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("resumed from step 40 "));
    std::string tiers = "tiers by rank:";
    for (int rank = 0; rank < ranks; ++rank) tiers += " " + tier;
    EXPECT_THAT(ending.output, HasSubstr(tiers + "\n"));
    EXPECT_TRUE(ReadFile(harness.folder() + "/" + result) == ReadFile(harness.folder() + "/undisturbed"))
        << "the results differ";
  }

  Harness harness;
};

INSTANTIATE_TEST_SUITE_P(Ranks, ElasticTest, ::testing::Values(2, 3, 7));

TEST_P(ElasticTest, GoesOnFromTheImages) {
  Undisturbed();
  ASSERT_TRUE(harness.StartDaemon());
  DiesOn4Ranks("local");
  GoesOn(GetParam(), "image");
}

TEST_P(ElasticTest, WithTheDaemonKilledTooGoesOnFromTheCache) {
  Undisturbed();
  ASSERT_TRUE(harness.StartDaemon());
  DiesOn4Ranks("local");
  harness.KillDaemon();
  ASSERT_TRUE(harness.StartDaemon());
  GoesOn(GetParam(), "cache");
}

TEST_P(ElasticTest, WithTheCacheLostTooGoesOnFromThePrefix) {
  Undisturbed();
  ASSERT_TRUE(harness.StartDaemon());
  DiesOn4Ranks("prefix");
  harness.KillDaemon();
  harness.DeleteCache();
  ASSERT_TRUE(harness.StartDaemon());
  GoesOn(GetParam(), "prefix");
}

}  // namespace
}  // namespace cairn::testing
