#include "storage/base/launch_key.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(LaunchKeyTest, AHigherRestartCountOfTheSameSlurmJobIsItsRestart) {
  EXPECT_TRUE(IsRestartOf("slurm:17.0.1", "slurm:17.0.0"));
  EXPECT_TRUE(IsRestartOf("slurm:17.0.10", "slurm:17.0.9"));  // numbers, not texts
  EXPECT_TRUE(IsRestartOf("slurm:17.0.1", "slurm:17.3.0"));   // whichever step
  EXPECT_TRUE(IsRestartOf("slurm:17.0.1", "slurm:17.0."));    // a job that was never restarted
  EXPECT_TRUE(IsRestartOf("pmix:space:2:17:1:x", "pmix:space:1:17:0:x"));
  EXPECT_TRUE(IsRestartOf("ompi:space:2:17:1:x", "ompi:space:1:17:0:x"));
  EXPECT_TRUE(IsRestartOf("pmix:space:2:17:1:x", "slurm:17.0.0"));
}

TEST(LaunchKeyTest, TheSameOrALowerCountIsNoRestart) {
  EXPECT_FALSE(IsRestartOf("slurm:17.0.1", "slurm:17.0.1"));
  EXPECT_FALSE(IsRestartOf("slurm:17.1.1", "slurm:17.0.1"));  // two steps side by side
  EXPECT_FALSE(IsRestartOf("slurm:17.0.0", "slurm:17.0.1"));
  EXPECT_FALSE(IsRestartOf("slurm:17.0.9", "slurm:17.0.10"));
}

TEST(LaunchKeyTest, AnotherJobIsNoRestart) {
  EXPECT_FALSE(IsRestartOf("slurm:18.0.1", "slurm:17.0.0"));
  EXPECT_FALSE(IsRestartOf("pmix:space:2:18:1:x", "pmix:space:1:17:0:x"));
}

TEST(LaunchKeyTest, TheJobIsANumberOrNone) {
  EXPECT_EQ(SlurmJobOf("slurm:17.3.1"), "17");
  EXPECT_EQ(SlurmJobOf("pmix:space:2:18:1:x"), "18");
  for (const char* key : {"", "job.2", "slurm:17", "slurm:-1.0.0", "slurm:1 --x.0.0", "pmix:a:b:here:1:x"}) {
    EXPECT_EQ(SlurmJobOf(key), "") << key;
  }
}

TEST(LaunchKeyTest, KeysThatAreNotSlurmsSayNothing) {
  for (const char* key :
       {"", "job.2", "17.0.1", "slurm:", "slurm:17", "slurm:17.1", "slurm:17.0.1.2", "slurm:.0.1", "slurm:17.0.x",
        "slurm:17.0.-1", "slurm:17.0.99999999999999999999999", "pmix:a:b:17:1", "pmix:a:b::1:x", "mpich:a:b:17:1:x"}) {
    EXPECT_FALSE(IsRestartOf(key, "slurm:17.0.0")) << key;
    EXPECT_FALSE(IsRestartOf("slurm:17.0.9", key)) << key;
  }
}

}  // namespace
}  // namespace cairn
