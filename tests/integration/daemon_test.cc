// The daemon as a process: settings, locks, signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "storage/base/user_name.h"
#include "tests/integration/harness.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DaemonTest : public ::testing::Test {
 protected:
  Harness harness;
};

TEST_F(DaemonTest, StopsWithZeroOnSigtermAndLeavesNoSocket) {
  ASSERT_TRUE(harness.StartDaemon());
  EXPECT_TRUE(std::filesystem::exists(harness.runtime_dir() + "/cairnd.sock"));
  EXPECT_TRUE(std::filesystem::exists(harness.runtime_dir() + "/cairnd-grpc.sock"));
  const Ending ending = harness.StopDaemon();
  EXPECT_EQ(ending.exit_code, 0) << ending.output;
  EXPECT_FALSE(std::filesystem::exists(harness.runtime_dir() + "/cairnd.sock"));
  EXPECT_THAT(harness.DaemonLog(), HasSubstr("stopped"));
}

TEST_F(DaemonTest, StartsAgainAfterAKill) {
  ASSERT_TRUE(harness.StartDaemon());
  harness.KillDaemon();
  EXPECT_TRUE(harness.StartDaemon());
}

TEST_F(DaemonTest, RemovesWhatACrashHasLeftOfAMeasurementOfTheDiskAlsoIfNoneIsToCome) {
  const std::string folder = harness.cache() + "/" + UserName();
  const std::string left = folder + "/disk.cairn.cairn-work0123456789abcdef", record = folder + "/disk.cairn";
  std::filesystem::create_directories(folder);
  std::ofstream(left) << std::string(1 << 20, 'x');
  std::ofstream(record) << "another file";
  ASSERT_TRUE(harness.StartDaemon());  // cache.probe is off
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(record));
  std::filesystem::remove(record);
}

TEST_F(DaemonTest, ASecondOneOnTheSameSocketRefusesAndNamesTheHolder) {
  ASSERT_TRUE(harness.StartDaemon());
  const Ending second = harness.RunDaemon({"--cache", harness.folder() + "/other"});
  EXPECT_EQ(second.exit_code, 3);
  EXPECT_THAT(second.output, HasSubstr(harness.runtime_dir() + "/cairnd.lock: held by process " +
                                       std::to_string(harness.daemon()->pid())));
  EXPECT_TRUE(harness.daemon()->running());
}

TEST_F(DaemonTest, ASecondOneOnTheSameCacheRefusesAndNamesTheHolder) {
  ASSERT_TRUE(harness.StartDaemon());
  const Ending second = harness.RunDaemon({"--runtime-dir", harness.folder() + "/other"});
  EXPECT_EQ(second.exit_code, 3);
  EXPECT_THAT(second.output, HasSubstr(harness.cache() + "/cairnd."));
  EXPECT_THAT(second.output, HasSubstr("held by process " + std::to_string(harness.daemon()->pid())));
}

TEST_F(DaemonTest, ARuntimeFolderThatOthersMayEnterIsRefused) {
  ASSERT_EQ(::chmod(harness.runtime_dir().c_str(), 0755), 0);
  const Ending ending = harness.RunDaemon({});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.output, HasSubstr(harness.runtime_dir()));
}

TEST_F(DaemonTest, WrongSettingsAreNamedByFileLineAndKey) {
  harness.WriteSettings("[flush]\nevrey = 2\n");
  const Ending ending = harness.RunDaemon({});
  EXPECT_EQ(ending.exit_code, 2);
  EXPECT_THAT(ending.output, HasSubstr("cairnd.toml:2: flush.evrey: unknown key"));
  EXPECT_EQ(harness.RunDaemon({"--check-config"}).exit_code, 2);
  EXPECT_EQ(harness.RunDaemon({"--no-such-flag"}).exit_code, 2);
}

TEST_F(DaemonTest, PrintedSettingsPassTheCheckAndPrintTheSame) {
  const Ending printed = harness.RunDaemon({"--print-config", "--flush-bandwidth", "2 GB/s"});
  ASSERT_EQ(printed.exit_code, 0);
  EXPECT_THAT(printed.output, HasSubstr("bandwidth = \"2GB/s\""));
  harness.WriteSettings(printed.output);
  EXPECT_EQ(harness.RunDaemon({"--check-config"}).exit_code, 0);
  EXPECT_EQ(harness.RunDaemon({"--print-config"}).output, printed.output);
}

TEST_F(DaemonTest, SighupReadsTheSettingsAgain) {
  ASSERT_TRUE(harness.StartDaemon());
  harness.WriteSettings("[flush]\nparallel = 3\n");
  harness.daemon()->Signal(SIGHUP);
  EXPECT_EQ(harness.StopDaemon().exit_code, 0);
  EXPECT_THAT(harness.DaemonLog(), HasSubstr("settings reloaded"));
}

TEST_F(DaemonTest, WrongSettingsAtSighupAreReportedAndTheDaemonGoesOn) {
  ASSERT_TRUE(harness.StartDaemon());
  harness.WriteSettings("[flush]\nparallel = 0\n");
  harness.daemon()->Signal(SIGHUP);
  EXPECT_EQ(harness.StopDaemon().exit_code, 0);
  EXPECT_THAT(harness.DaemonLog(), HasSubstr("settings not reloaded"));
  EXPECT_THAT(harness.DaemonLog(), HasSubstr("flush.parallel"));
}

TEST_F(DaemonTest, WarnsInsideAJobStepThatItWillNotOutlive) {
  ASSERT_TRUE(harness.StartDaemon());
  EXPECT_EQ(harness.StopDaemon().exit_code, 0);
  EXPECT_THAT(harness.DaemonLog(), Not(HasSubstr("started inside")));
  ASSERT_TRUE(harness.StartDaemon({}, {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}}));
  EXPECT_EQ(harness.StopDaemon().exit_code, 0);
  EXPECT_THAT(harness.DaemonLog(), HasSubstr("started inside Slurm step 7.0"));
}

// The process id that `cairnd --background` printed.
pid_t PrintedPid(const Ending& ending) {
  return static_cast<pid_t>(std::atoi(ending.output.c_str()));
}

TEST_F(DaemonTest, InTheBackgroundItAnswersOnceReadyAndLogsToItsFolder) {
  const Ending ending = harness.RunDaemon({"--background"});
  ASSERT_EQ(ending.exit_code, 0) << ending.output;
  const pid_t pid = PrintedPid(ending);
  ASSERT_GT(pid, 1) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr(harness.runtime_dir() + "/cairnd.sock"));
  EXPECT_EQ(harness.RunDaemon({"--background"}).exit_code, 3);
  EXPECT_TRUE(EndProcess(pid, SIGTERM));
  EXPECT_THAT(ReadFile(harness.runtime_dir() + "/cairnd.log"), HasSubstr("stopped"));
}

}  // namespace
}  // namespace cairn::testing
