// A run under MPI that is steered from outside: `cairn halt` and the environment against a real daemon, all ranks
// alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "tests/integration/harness.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRanks = 4;

class SteeringTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(harness.StartDaemon());
    // A first launch, so that there is a run.
    const Ending ending = Heat({"--steps", "10", "--every", "10"});
    ASSERT_EQ(ending.exit_code, 0) << ending.output;
    // A checkpoint that becomes whole while `cairn halt` writes its number may be taken off it.
    const Ending waited = Cairn({"wait", harness.prefix(), "1", "prefix"});
    ASSERT_EQ(waited.exit_code, 0) << waited.output;
  }

  Ending Cairn(std::vector<std::string> arguments) const {
    return RunProcess(harness.Client("client/cli/cairn", std::move(arguments)));
  }
  Process::Options HeatOptions(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--size", "61"});
    return harness.MpiClient(kRanks, "client/examples/heat2d_mpi", std::move(arguments));
  }
  // Ranks that disagreed would wait for each other: the process would not end.
  Ending Heat(std::vector<std::string> arguments, const std::map<std::string, std::string>& environment = {}) const {
    Process::Options options = HeatOptions(std::move(arguments));
    for (const auto& [name, value] : environment) options.environment[name] = value;
    return RunProcess(options);
  }
  void Halt(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"halt", harness.prefix()});
    const Ending ending = Cairn(std::move(arguments));
    ASSERT_EQ(ending.exit_code, 0) << ending.output;
  }
  static std::vector<int> StepsOf(const std::string& output, const std::string& before) {
    std::vector<int> steps;
    const std::regex line(before + " step ([0-9]+)");
    for (std::sregex_iterator at(output.begin(), output.end(), line), end; at != end; ++at) {
      steps.push_back(std::stoi((*at)[1]));
    }
    return steps;
  }

  Harness harness;
};

TEST_F(SteeringTest, StopsAfterSoManyMoreCheckpointsAndGoesOnFromTheLastOfThem) {
  Halt({"-c", "2"});
  const Ending stopped = Heat({"--steps", "1000", "--every", "10"});
  ASSERT_EQ(stopped.exit_code, 0) << stopped.output;
  EXPECT_EQ(StepsOf(stopped.output, "checkpoint of"), (std::vector<int>{20, 30})) << stopped.output;
  EXPECT_EQ(StepsOf(stopped.output, "stopping after"), std::vector<int>{30}) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr("NO_CHECKPOINTS_LEFT"));
  Halt({"--unset-checkpoints"});
  const Ending ended = Heat({"--steps", "40", "--every", "10"});
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("resumed from step 30 "));
  EXPECT_THAT(ended.output, HasSubstr("done after step 40"));
}

TEST_F(SteeringTest, ToldToStopNowItSavesWhatItHasAndStops) {
  const std::unique_ptr<Process> running = Process::Start(HeatOptions({"--steps", "1000000000", "--every", "1000000"}));
  ASSERT_NE(running, nullptr);
  ASSERT_TRUE(harness.WaitForLog("launch 2 with 4 ranks"));
  Halt({"--reason", "the machine is needed"});
  const Ending stopped = running->Wait();
  ASSERT_EQ(stopped.exit_code, 0) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr("the machine is needed"));
  const std::vector<int> saved = StepsOf(stopped.output, "checkpoint of");
  const std::vector<int> last = StepsOf(stopped.output, "stopping after");
  ASSERT_EQ(last.size(), 1u) << stopped.output;
  ASSERT_FALSE(saved.empty()) << stopped.output;
  EXPECT_EQ(saved.back(), last.front()) << stopped.output;
  EXPECT_THAT(harness.DaemonLog(), HasSubstr("is told to stop"));
}

TEST_F(SteeringTest, TheEnvironmentSaysWhenACheckpointIsDue) {
  const Ending ending = Heat({"--steps", "30", "--every", "1000"}, {{"CAIRN_CHECKPOINT_EVERY", "7"}});
  ASSERT_EQ(ending.exit_code, 0) << ending.output;
  EXPECT_EQ(StepsOf(ending.output, "checkpoint of"), (std::vector<int>{17, 24})) << ending.output;
  EXPECT_THAT(ending.output, Not(HasSubstr("stopping")));
  const Ending wrong = Heat({"--steps", "40"}, {{"CAIRN_CHECKPOINT_EVERY", "often"}});
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.output, HasSubstr("CAIRN_CHECKPOINT_EVERY"));
}

TEST_F(SteeringTest, OverGrpcItIsTheSame) {
  Halt({"-c", "2"});
  const std::string library = DataPath("client/grpc/libcairn_grpc.so");
  const Ending stopped = Heat({"--steps", "1000", "--every", "1000"},
                              {{"CAIRN_ADDRESS", "grpc+unix:" + harness.runtime_dir() + "/cairnd-grpc.sock"},
                               {"LD_LIBRARY_PATH", library.substr(0, library.rfind('/'))},
                               {"CAIRN_CHECKPOINT_EVERY", "5"}});
  ASSERT_EQ(stopped.exit_code, 0) << stopped.output;
  EXPECT_EQ(StepsOf(stopped.output, "checkpoint of"), (std::vector<int>{15, 20})) << stopped.output;
  EXPECT_EQ(StepsOf(stopped.output, "stopping after"), std::vector<int>{20}) << stopped.output;
}

TEST_F(SteeringTest, TheEndOfTheAllocationStopsIt) {
  Halt({"-s", "600"});
  const std::string end = std::to_string(std::time(nullptr) + 300);
  const Ending stopped = Heat({"--steps", "1000", "--every", "500"}, {{"SLURM_JOB_END_TIME", end}});
  ASSERT_EQ(stopped.exit_code, 0) << stopped.output;
  EXPECT_EQ(StepsOf(stopped.output, "stopping after"), std::vector<int>{11}) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr("TIME_LIMIT"));
}

}  // namespace
}  // namespace cairn::testing
