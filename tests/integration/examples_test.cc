// Each example undisturbed, and killed in the middle of a step and started again: the results are equal bit for bit,
// and the restart says from which step it went on and which tier served it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "tests/integration/harness.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;

struct Example {
  std::string name;
  int mpi_ranks;                       // 0: starts its processes itself
  std::string program;                 // as in the rule's data
  std::vector<std::string> arguments;  // its problem
};

void PrintTo(const Example& example, std::ostream* out) {
  *out << example.name;
}

// 60 steps, a checkpoint after every 10th; dies in step 48.
class ExamplesTest : public ::testing::TestWithParam<Example> {
 protected:
  Ending Run(const std::string& result, std::vector<std::string> more) {
    std::vector<std::string> arguments = GetParam().arguments;
    arguments.insert(arguments.end(), {"--steps", "60", "--out", harness.folder() + "/" + result});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Example& example = GetParam();
    return RunProcess(example.mpi_ranks > 0 ? harness.MpiClient(example.mpi_ranks, example.program, arguments)
                                            : harness.Client(example.program, arguments));
  }

  void Undisturbed() {
    const Ending ending = Run("undisturbed", {"--every", "0"});
    ASSERT_EQ(ending.exit_code, 0) << ending.output;
    ASSERT_FALSE(ReadFile(harness.folder() + "/undisturbed").empty());
  }

  void DiesInStep48(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--every", "10", "--die-at", "48"});
    const Ending ending = Run("killed", more);
    EXPECT_NE(ending.exit_code, 0) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("starting fresh"));
    EXPECT_THAT(ending.output, HasSubstr("checkpoint of step 40 is dataset "));
    EXPECT_FALSE(std::filesystem::exists(harness.folder() + "/killed"));
  }

  void GoesOnFromStep40(const std::string& tier) {
    const Ending ending = Run("restarted", {"--every", "10"});
    ASSERT_EQ(ending.exit_code, 0) << ending.output;
    EXPECT_TRUE(
        std::regex_search(ending.output, std::regex("resumed from step 40 \\(dataset [0-9]+, tier " + tier + "\\)")))
        << ending.output;
    EXPECT_TRUE(ReadFile(harness.folder() + "/restarted") == ReadFile(harness.folder() + "/undisturbed"))
        << "the results differ";
  }

  Harness harness;
};

TEST_P(ExamplesTest, KilledInMidStepGoesOnFromTheImage) {
  Undisturbed();
  ASSERT_TRUE(harness.StartDaemon());
  DiesInStep48();
  GoesOnFromStep40("image");
}

TEST_P(ExamplesTest, WithTheDaemonKilledTooGoesOnFromTheCache) {
  Undisturbed();
  ASSERT_TRUE(harness.StartDaemon());
  DiesInStep48({"--wait", "local"});
  harness.KillDaemon();
  ASSERT_TRUE(harness.StartDaemon());
  GoesOnFromStep40("cache");
}

TEST_P(ExamplesTest, WithTheCacheLostTooGoesOnFromThePrefix) {
  Undisturbed();
  ASSERT_TRUE(harness.StartDaemon());
  DiesInStep48({"--wait", "prefix"});
  harness.KillDaemon();
  harness.DeleteCache();
  ASSERT_TRUE(harness.StartDaemon());
  GoesOnFromStep40("prefix");
}

// The only checkpoint is damaged near its end, in the cache and on the prefix, so that a part of it is in the memory
// when that is found: the example begins afresh, from its own beginning.
class DamagedExampleTest : public ExamplesTest {};

TEST_P(DamagedExampleTest, BeginsAfreshWithMemoryThatIsWhole) {
  harness.WriteSettings(Harness::kSmallImages);
  Undisturbed();
  ASSERT_TRUE(harness.StartDaemon());
  const Ending killed = Run("killed", {"--every", "10", "--die-at", "18", "--wait", "prefix"});
  ASSERT_THAT(killed.output, HasSubstr("checkpoint of step 10 is dataset "));
  harness.KillDaemon();
  ASSERT_EQ(harness.DamageCheckpoints(), 2);
  ASSERT_TRUE(harness.StartDaemon());
  const Ending ending = Run("restarted", {"--every", "50"});
  ASSERT_EQ(ending.exit_code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("may hold part of a restore that did not succeed"));
  EXPECT_THAT(ending.output, HasSubstr("starting fresh"));
  EXPECT_THAT(ending.output, HasSubstr("checkpoint of step 50 is dataset "));
  EXPECT_TRUE(ReadFile(harness.folder() + "/restarted") == ReadFile(harness.folder() + "/undisturbed"))
      << "it went on with half a field";
}

INSTANTIATE_TEST_SUITE_P(All, DamagedExampleTest,
                         ::testing::Values(Example{"HeatMpi", 1, "client/examples/heat2d_mpi", {"--size", "1200"}},
                                           Example{"WaveFortran", 0, "client/examples/wave1d", {"--size", "600001"}},
                                           Example{"HeatPython", 0, "client/examples/heat.py", {"--size", "1200"}}),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    All, ExamplesTest,
    ::testing::Values(Example{"HeatMpi", 4, "client/examples/heat2d_mpi", {"--size", "61"}},
                      Example{"Particles", 0, "client/examples/particles", {"--size", "101", "--ranks", "3"}},
                      Example{"WaveFortran", 0, "client/examples/wave1d", {"--size", "1001"}},
                      Example{"HeatPython", 0, "client/examples/heat.py", {"--size", "61"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cairn::testing
