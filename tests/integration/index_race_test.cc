// Many processes change one index at the same time: a daemon that flushes, commands, and SCR's tools.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/prefix.h"
#include "storage/place/prefix/shared_records.h"
#include "tests/integration/harness.h"
#include "tests/integration/rank_session.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

constexpr int kWriters = 4;

class IndexRaceTest : public ::testing::Test {
 protected:
  static std::uint64_t Changes() { return std::getenv("CAIRN_SOAK") != nullptr ? 2500 : 100; }

  std::unique_ptr<Process> Start(const std::string& what, const std::string& name, std::uint64_t times) {
    return Process::Start({.arguments = {DataPath("tests/integration/index_writer"), harness_.prefix(), what, name,
                                         std::to_string(times)},
                           .environment = {},
                           .working_directory = {}});
  }
  void ExpectGood(Process& process) {
    const Ending ending = process.Wait(std::chrono::seconds(1500));
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
  }
  Ending Cairn(std::vector<std::string> arguments) {
    return RunProcess(harness_.Client("client/cli/cairn", std::move(arguments)));
  }

  // A job that saves as long as the writers run, each dataset to the prefix; asks the command in between.
  void Race(bool with_scr) {
    std::vector<std::unique_ptr<Process>> writers;
    for (int i = 0; i < kWriters; ++i) writers.push_back(Start("count", "w" + std::to_string(i), Changes()));
    const auto reader = Start("read", "r", Changes());
    const auto scr = with_scr ? Start("scr", "s", Changes() / 4) : nullptr;
    const auto working = [&] {
      for (const auto& writer : writers) {
        if (writer->running()) return true;
      }
      return false;
    };
    while (datasets_.size() < 3 || working()) {
      Save();
      const Ending current = Cairn({"index", "current", harness_.prefix(), "ckpt." + std::to_string(datasets_.back())});
      EXPECT_EQ(current.exit_code, 0) << current.output;
      if (HasFailure()) break;
    }
    for (const auto& writer : writers) ExpectGood(*writer);
    ExpectGood(*reader);
    if (scr) ExpectGood(*scr);
  }
  void Save() {
    std::uint64_t dataset = 0;
    ASSERT_EQ(cairn_checkpoint(session_, ++step_, &dataset), CAIRN_OK) << cairn_error(session_);
    ASSERT_EQ(cairn_wait(session_, dataset, CAIRN_LEVEL_PREFIX, 60000), CAIRN_OK) << cairn_error(session_);
    datasets_.push_back(dataset);
  }
  void Open() {
    ASSERT_TRUE(harness_.StartDaemon());
    ASSERT_EQ(OpenRank(harness_, "job.1", 0, 1, &session_), CAIRN_OK);
    ASSERT_EQ(cairn_protect(session_, 1, numbers_.data(), numbers_.size(), CAIRN_INT32), CAIRN_OK);
    Save();
  }
  // Every change of everybody is there, in the record itself.
  void ExpectAllThere() {
    const auto disk = MakePosixDisk();
    SharedRecords records(*disk, harness_.prefix(), RunId());
    ASSERT_OK_AND_ASSIGN(const kvtree::Tree index, records.ReadIndex());
    for (int i = 0; i < kWriters; ++i) {
      const kvtree::Tree* line = index.FindPath({"RACE", "w" + std::to_string(i)});
      ASSERT_NE(line, nullptr);
      EXPECT_EQ(line->GetUnsigned("N").value_or(0), Changes());
    }
    for (const std::uint64_t dataset : datasets_) {
      EXPECT_NE(index.FindPath({"DSET", std::to_string(dataset)}), nullptr) << dataset;
    }
    EXPECT_EQ(index.Get("CURRENT"), "ckpt." + std::to_string(datasets_.back()));
    ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::OpenReadOnly(*disk, harness_.prefix()));
    ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
    for (const std::uint64_t dataset : datasets_) EXPECT_TRUE(committed.contains(dataset)) << dataset;
  }
  void TearDown() override { cairn_close(session_); }

  Harness harness_;
  cairn_session* session_ = nullptr;
  std::vector<std::int32_t> numbers_ = std::vector<std::int32_t>(1000, 7);
  std::uint64_t step_ = 0;
  std::vector<std::uint64_t> datasets_;
};

TEST_F(IndexRaceTest, NoChangeIsLost) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(Race(/*with_scr=*/false));
  ExpectAllThere();
}

TEST_F(IndexRaceTest, NoChangeIsLostWhereThereAreNoLocks) {
  // Nobody can open it, so nobody can lock it.
  std::filesystem::create_directories(harness_.prefix() + "/.scr/index.lock");
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(Race(/*with_scr=*/false));
  ExpectAllThere();
}

TEST_F(IndexRaceTest, NoChangeIsLostToScrsTools) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(Race(/*with_scr=*/true));
  ExpectAllThere();
}

}  // namespace
}  // namespace cairn::testing
