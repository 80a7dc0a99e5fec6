// `cairn halt` as a user runs it. The file and its locks: tests/storage/place/prefix/; the times: halt_time_test.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "storage/base/unique_fd.h"
#include "storage/format/kvtree/tree.h"
#include "tests/client/cli/file_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;

class HaltCommandTest : public testing::FileFixture {
 protected:
  HaltCommandTest() : prefix_(Path("heat")) { std::filesystem::create_directories(prefix_ + "/.scr"); }

  std::string HaltPath() const { return prefix_ + "/.scr/halt.scr"; }
  CairnRun Halt(std::vector<std::string> options) const {
    options.insert(options.begin(), {"halt", prefix_});
    return Run(options);
  }
  json HaltJson(std::vector<std::string> options) const {
    options.insert(options.begin(), {"halt", prefix_});
    return RunJson(options);
  }
  // As SCR's printer shows the file, sorted.
  std::string Printed() const { return Run({"print", "--sort", HaltPath()}).out; }

  std::string prefix_;
};

TEST_F(HaltCommandTest, WithoutOptionsTheRunIsToStopNow) {
  const CairnRun run = Halt({});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(run.out.starts_with(prefix_ + ": stops now: JOB_HALTED\n")) << run.out;
  ExpectSaid(run, 0, "ExitReason JOB_HALTED\n");
  ExpectSaid(run, 0, "The next launch stops, too");
  EXPECT_EQ(Printed(), "  ExitReason\n    JOB_HALTED\n");
}

TEST_F(HaltCommandTest, NowIsTheSameAndMayHaveAReason) {
  EXPECT_EQ(HaltJson({"--now"})["reason"], "JOB_HALTED");
  EXPECT_EQ(HaltJson({"-i"})["why"], "JOB_HALTED");
  const json halt = HaltJson({"--reason", "the disk is to be changed"});
  EXPECT_EQ(halt["why"], "the disk is to be changed");
  EXPECT_EQ(halt["stops_now"], true);
  EXPECT_EQ(HaltJson({"--now", "--reason", "again"})["reason"], "again");
}

TEST_F(HaltCommandTest, AfterTheNextCheckpointIsACountOfOne) {
  const CairnRun run = Halt({"-c", "1"});
  ExpectSaid(run, 0, prefix_ + ": goes on\n");
  ExpectSaid(run, 0, "stop after the next checkpoint");
  ExpectSaid(run, 0, "CheckpointsLeft 1\n");
  EXPECT_EQ(Printed(), "  CheckpointsLeft\n    1\n");
  ExpectSaid(Halt({"--checkpoints", "5"}), 0, "stop after 5 checkpoints");
}

TEST_F(HaltCommandTest, TimesAreLocalOrFromNowOn) {
  const json halt = HaltJson({"-b", "2030-01-01T00:00:00", "-a", "2030-01-01T01:00:00", "-s", "900"});
  EXPECT_EQ(halt["exit_before_s"], 1893456000);
  EXPECT_EQ(halt["exit_after_s"], 1893459600);
  EXPECT_EQ(halt["halt_seconds"], 900);
  EXPECT_EQ(halt["stops_now"], false);
  EXPECT_EQ(Printed(), "  ExitAfter\n    1893459600\n  ExitBefore\n    1893456000\n  HaltSeconds\n    900\n");
  const CairnRun list = Halt({"--list"});
  ExpectSaid(list, 0, "stop 15 m 0 s before 2030-01-01T00:00:00  ");
  ExpectSaid(list, 0, "stop at or after 2030-01-01T01:00:00  ");
  ExpectSaid(list, 0, "stop when 15 m 0 s of the allocation are left (this shell does not know its end)");
  const std::int64_t before = std::time(nullptr);
  const std::int64_t later = HaltJson({"--before", "+2h"})["exit_before_s"];
  EXPECT_GE(later, before + 7200);
  EXPECT_LE(later, std::time(nullptr) + 7200);
}

TEST_F(HaltCommandTest, ATimeThatHasPassedStopsNow) {
  EXPECT_EQ(HaltJson({"--after", "2020-01-01T00:00:00"})["why"], "EXIT_AFTER_TIME");
  EXPECT_EQ(HaltJson({"--unset-after", "--before", "2020-01-01T00:00:00"})["why"], "EXIT_BEFORE_TIME");
}

TEST_F(HaltCommandTest, TheEndOfTheAllocationIsTakenFromTheEnvironment) {
  EXPECT_EQ(HaltJson({"-s", "15min"})["stops_now"], false);
  const std::string end = std::to_string(std::time(nullptr) + 600);
  for (const char* variable : {"CAIRN_END_TIME", "SCR_END_TIME", "SLURM_JOB_END_TIME"}) {
    const CairnRun run = testing::RunCairn({"halt", prefix_, "--list"}, {{variable, end}});
    ExpectSaid(run, 0, "stops now: TIME_LIMIT");
    ExpectSaid(run, 0, "of the allocation are left (it ends ");
  }
  ExpectSaid(testing::RunCairn({"halt", prefix_, "--list"}, {{"SCR_END_TIME", "soon"}}), 0, "goes on");
}

TEST_F(HaltCommandTest, ListChangesNothing) {
  const json halt = HaltJson({"--list"});
  EXPECT_EQ(halt["prefix"], prefix_);
  EXPECT_EQ(halt["stops_now"], false);
  for (const char* field : {"why", "reason", "checkpoints_left", "exit_before_s", "exit_after_s", "halt_seconds"}) {
    EXPECT_EQ(halt[field], json(nullptr)) << field;
  }
  EXPECT_EQ(Halt({"-l"}).out, prefix_ + ": goes on\n  no conditions\n");
  EXPECT_FALSE(std::filesystem::exists(HaltPath()));
}

TEST_F(HaltCommandTest, EachConditionCanBeUnset) {
  EXPECT_EQ(Halt({}).exit_code, 0);
  EXPECT_EQ(Halt({"-c", "3", "-b", "+2h", "-a", "+3h", "-s", "60"}).exit_code, 0);
  struct Unset {
    const char* option;
    const char* field;
  };
  for (const auto& [option, field] :
       {Unset{"--unset-reason", "reason"}, Unset{"--unset-checkpoints", "checkpoints_left"},
        Unset{"--unset-before", "exit_before_s"}, Unset{"--unset-after", "exit_after_s"},
        Unset{"--unset-seconds", "halt_seconds"}}) {
    EXPECT_NE(HaltJson({"--list"})[field], json(nullptr)) << option;
    EXPECT_EQ(HaltJson({option})[field], json(nullptr)) << option;
  }
  EXPECT_EQ(Printed(), "");
}

TEST_F(HaltCommandTest, RemoveLeavesNoConditions) {
  EXPECT_EQ(Halt({}).exit_code, 0);
  ExpectSaid(Halt({"--remove"}), 0, "no conditions");
  EXPECT_FALSE(std::filesystem::exists(HaltPath()));
  EXPECT_EQ(Halt({"-r"}).exit_code, 0);  // nothing there
}

TEST_F(HaltCommandTest, ACleanEndStopsNothing) {
  kvtree::Tree tree;
  tree.Set("ExitReason", "SCR_FINALIZE_CALLED");
  Write("heat/.scr/halt.scr", kvtree::Encode(tree));
  const CairnRun list = Halt({"--list"});
  ExpectSaid(list, 0, "goes on");
  ExpectSaid(list, 0, "none: the last launch came to its own end");
  EXPECT_EQ(HaltJson({})["reason"], "JOB_HALTED");
}

TEST_F(HaltCommandTest, UnknownKeysStay) {
  kvtree::Tree tree;
  tree.Set("SiteKey", "kept");
  Write("heat/.scr/halt.scr", kvtree::Encode(tree));
  EXPECT_EQ(Halt({"-c", "2"}).exit_code, 0);
  EXPECT_EQ(Printed(), "  CheckpointsLeft\n    2\n  SiteKey\n    kept\n");
}

TEST_F(HaltCommandTest, AReasonFromTheFileIsPrintedClean) {
  kvtree::Tree tree;
  tree.Set("ExitReason", "red \x1b[31m\nline");
  Write("heat/.scr/halt.scr", kvtree::Encode(tree));
  const CairnRun list = Halt({"--list"});
  ExpectSaid(list, 0, "stops now: red ?[31m?line\n");
  EXPECT_EQ(list.out.find('\x1b'), std::string::npos);
}

TEST_F(HaltCommandTest, ADamagedFileIsNamedAndAChangeWritesItAnew) {
  Write("heat/.scr/halt.scr", "no tree at all, but long enough");
  ExpectSaid(Halt({"--list"}), 5, HaltPath());
  EXPECT_EQ(HaltJson({"-c", "4"})["checkpoints_left"], 4);
  kvtree::Tree tree;
  tree.Set("CheckpointsLeft", "many");
  Write("heat/.scr/halt.scr", kvtree::Encode(tree));
  ExpectSaid(Halt({"--list"}), 5, "CheckpointsLeft");
}

TEST_F(HaltCommandTest, AnEmptyFileHasNoConditions) {
  Write("heat/.scr/halt.scr", "");
  ExpectSaid(Halt({"--list"}), 0, "no conditions");
}

TEST_F(HaltCommandTest, AFileThatStaysLockedIsToldInTime) {
  EXPECT_EQ(Halt({"-c", "4"}).exit_code, 0);
  const UniqueFd holder(open(HaltPath().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(holder.get(), LOCK_EX), 0);
  ExpectSaid(Halt({"-c", "5"}), 1, HaltPath());
  EXPECT_EQ(HaltJson({"--list"})["checkpoints_left"], 4);
}

TEST_F(HaltCommandTest, WhatIsNoRunsDirectoryIsNotFoundAndStaysEmpty) {
  std::filesystem::remove(prefix_ + "/.scr");
  ExpectSaid(Halt({}), 4, prefix_ + ": not a run's directory");
  ExpectSaid(Halt({"--list"}), 4, "not a run's directory");
  ExpectSaid(Halt({"--remove"}), 4, "not a run's directory");
  EXPECT_TRUE(std::filesystem::is_empty(prefix_));
  ExpectSaid(Run({"halt", Path("nothing")}), 4, "no such directory");
  ExpectSaid(Run({"halt", "nothing"}), 4, "no such directory, and no daemon");
}

TEST_F(HaltCommandTest, ARunThatHasWrittenNothingYetCanBeHalted) {
  std::filesystem::remove(prefix_ + "/.scr");
  std::filesystem::create_directory(prefix_ + "/.cairn");
  EXPECT_EQ(HaltJson({"-c", "1"})["checkpoints_left"], 1);
  EXPECT_EQ(HaltJson({"--list"})["checkpoints_left"], 1);
}

TEST_F(HaltCommandTest, WrongCommandsAreToldApartAndChangeNothing) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"-c", "0"},
                                                {"-c", "-1"},
                                                {"-c", "x"},
                                                {"-c", "2147483648"},
                                                {"-s", "0"},
                                                {"-s", "soon"},
                                                {"-b", "tomorrow"},
                                                {"-a", "2030-02-30T00:00:00"},
                                                {"--reason", ""},
                                                {"--reason", "SCR_FINALIZE_CALLED"},
                                                {"--reason", "two\nlines"},
                                                {"--reason", std::string(1024, 'x')},
                                                {"--now", "-c", "1"},
                                                {"--now", "-b", "+1h"},
                                                {"--now", "--unset-reason"},
                                                {"--list", "-c", "1"},
                                                {"--list", "--now"},
                                                {"--list", "--remove"},
                                                {"--remove", "-c", "1"},
                                                {"-c", "1", "--unset-checkpoints"},
                                                {"-b", "+1h", "--unset-before"},
                                                {"-a", "+1h", "--unset-after"},
                                                {"-s", "60", "--unset-seconds"},
                                                {"more"}}) {
    EXPECT_EQ(Halt(wrong).exit_code, 2) << json(wrong);
  }
  EXPECT_EQ(Run({"halt"}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(HaltPath()));
  ExpectSaid(Halt({"-b", "tomorrow"}), 2, "YYYY-MM-DDTHH:MM:SS");
}

TEST_F(HaltCommandTest, HelpSaysWhatIsWritten) {
  const CairnRun help = Run({"halt", "--help"});
  for (const char* part : {"JOB_HALTED", "CheckpointsLeft 1", "YYYY-MM-DDTHH:MM:SS", "+2h", "Exit codes:"}) {
    ExpectSaid(help, 0, part);
  }
}

TEST_F(HaltCommandTest, ScrsHaltFilesAreUnderstood) {
  const auto root = testing::VectorsPath("scr/halt_variants");
  if (!root.has_value()) return;
  const auto listed = [&](const std::string& name) {
    std::filesystem::copy_file(*root + "/pfs/demo/.scr/" + name, HaltPath(),
                               std::filesystem::copy_options::overwrite_existing);
    return HaltJson({"--list"});
  };
  EXPECT_EQ(listed("halt_checkpoints.scr")["checkpoints_left"], 5);
  EXPECT_EQ(listed("halt_reason.scr")["why"], "JOB_HALTED");
  const json times = listed("halt_times.scr");
  EXPECT_EQ(times["exit_before_s"], 1893456000);
  EXPECT_EQ(times["exit_after_s"], 1893459600);
  EXPECT_EQ(times["halt_seconds"], 900);
  EXPECT_EQ(listed("halt_unset.scr")["halt_seconds"], 60);
}

// Byte for byte what SCR's tool writes.
TEST_F(HaltCommandTest, WhatIsWrittenIsScrsFile) {
  const auto root = testing::VectorsPath("scr/halt_variants");
  if (!root.has_value()) return;
  const std::string folder = *root + "/pfs/demo/.scr/";
  EXPECT_EQ(Halt({}).exit_code, 0);
  EXPECT_EQ(Read(HaltPath()), testing::ReadVector(folder + "halt_reason.scr"));
  EXPECT_EQ(Halt({"--unset-reason", "-c", "5"}).exit_code, 0);
  EXPECT_EQ(Read(HaltPath()), testing::ReadVector(folder + "halt_checkpoints.scr"));
}

}  // namespace
}  // namespace cairn
