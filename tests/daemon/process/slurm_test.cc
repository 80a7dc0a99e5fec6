// What Slurm tells of a job, with programs in squeue's place that answer as it does, or not at all.
#include "daemon/process/slurm.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <string>

namespace cairn {
namespace {

using Job = Slurm::Job;

class SlurmTest : public ::testing::Test {
 protected:
  // A program that does so.
  std::string Program(const std::string& script) {
    const std::string path = ::testing::TempDir() + "/squeue-" + std::to_string(++programs_);
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    EXPECT_EQ(::chmod(path.c_str(), 0700), 0);
    return path;
  }
  Job Ask(const std::string& script, const std::string& job = "77") { return Slurm(Program(script)).StateOf(job); }

 private:
  int programs_ = 0;
};

TEST_F(SlurmTest, AJobIsOverWhenAllThatIsSaidOfItIs) {
  EXPECT_EQ(Slurm::StateIn("NODE_FAIL\n"), Job::kOver);
  EXPECT_EQ(Slurm::StateIn("TIMEOUT"), Job::kOver);
  EXPECT_EQ(Slurm::StateIn("COMPLETED\n\nCANCELLED\n"), Job::kOver);
  EXPECT_EQ(Slurm::StateIn("RUNNING\n"), Job::kThere);
  EXPECT_EQ(Slurm::StateIn("COMPLETED\nRUNNING\n"), Job::kThere) << "one task of an array";
  EXPECT_EQ(Slurm::StateIn("COMPLETING\n"), Job::kThere) << "processes are still being ended";
  EXPECT_EQ(Slurm::StateIn("PENDING\n"), Job::kThere) << "it was requeued";
  EXPECT_EQ(Slurm::StateIn("SUSPENDED\n"), Job::kThere);
  EXPECT_EQ(Slurm::StateIn("a state of tomorrow\n"), Job::kThere);
  EXPECT_EQ(Slurm::StateIn(""), Job::kUnknown);
  EXPECT_EQ(Slurm::StateIn("\n\n"), Job::kUnknown);
}

TEST_F(SlurmTest, ItIsAskedForThatJobAlone) {
  EXPECT_EQ(Ask("[ \"$*\" = '--noheader --states=all --format=%T --jobs=77' ] && echo FAILED"), Job::kOver);
}

TEST_F(SlurmTest, NothingIsKnownOfAJobThatSlurmDoesNotKnow) {
  EXPECT_EQ(Ask("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"), Job::kUnknown);
  EXPECT_EQ(Ask("echo FAILED; exit 1"), Job::kUnknown);
  EXPECT_EQ(Ask("echo FAILED; kill -9 $$"), Job::kUnknown);
}

TEST_F(SlurmTest, WithoutSlurmNothingIsKnown) {
  EXPECT_EQ(Slurm(::testing::TempDir() + "/no-such-program").StateOf("77"), Job::kUnknown);
}

TEST_F(SlurmTest, WhatIsNoNumberIsNotAskedFor) {
  const Slurm slurm(Program("echo FAILED"));
  EXPECT_EQ(slurm.StateOf("77"), Job::kOver);
  for (const char* job : {"", "x", "7 7", "--help", "-1", "7;reboot", "111111111111111111111"}) {
    EXPECT_EQ(slurm.StateOf(job), Job::kUnknown) << job;
  }
}

TEST_F(SlurmTest, OneThatDoesNotAnswerIsNotWaitedFor) {
  constexpr std::chrono::milliseconds kPatience(200);
  for (const char* script : {"sleep 1000", "echo FAILED; exec >&-; sleep 1000", "yes FAILED"}) {
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(Slurm(Program("exec 2>/dev/null\n" + std::string(script)), kPatience).StateOf("77"), Job::kUnknown);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(100)) << script;
  }
}

}  // namespace
}  // namespace cairn
