// A real daemon and an application of two ranks whose BP5 directory goes to the prefix while it grows.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "storage/io/posix_disk.h"
#include "tests/integration/harness.h"
#include "tests/support/growing_bp5.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kClient[] = "tests/integration/growing_client";
const std::vector<std::string> kFlags = {"--flush-follow", "20ms"};

class GrowingTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.StartDaemon(kFlags)); }

  std::string go() const { return harness_.folder() + "/go"; }
  std::string there() const { return harness_.prefix() + "/fields.bp"; }
  std::unique_ptr<Process> Start(int rank, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--go", go()});
    Process::Options options = harness_.Client(kClient, std::move(arguments));
    options.environment["CAIRN_LAUNCH"] = "one";
    options.environment["CAIRN_RANK"] = std::to_string(rank);
    options.environment["CAIRN_NRANKS"] = "2";
    return Process::Start(options);
  }
  // Both ranks, that have written and wait.
  void StartBoth(const std::vector<std::string>& arguments) {
    for (int rank = 0; rank < 2; ++rank) ranks_.push_back(Start(rank, arguments));
    for (auto& rank : ranks_) ASSERT_TRUE(rank->WaitForOutput("written"));
  }
  void Go() { std::ofstream(go()) << "on"; }
  void ExpectEnds() {
    for (auto& rank : ranks_) {
      const Ending ending = rank->Wait();
      EXPECT_EQ(ending.exit_code, 0) << ending.output;
    }
  }
  static bool Eventually(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
  // What is shown is whole whenever it is looked at.
  bool Shows(std::uint32_t steps) {
    return Eventually([&] {
      const auto shown = WholeSteps(*disk_, there());
      EXPECT_TRUE(shown.ok() || absl::IsNotFound(shown.status())) << shown.status();
      return shown.value_or(0) == steps || HasFailure();
    });
  }
  bool IsClosed(std::uint32_t steps) {
    return Shows(steps) && Eventually([&] { return !IsActive(*disk_, there()); }) &&
           WholeSteps(*disk_, there()).value_or(0) == steps;
  }
  bool AnyCommitted() const {
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(harness_.prefix() + "/.scr", ignored)) {
      if (entry.path().filename() == "commit.cairn") return true;
    }
    return false;
  }

  const std::unique_ptr<PosixDisk> disk_ = MakePosixDisk();
  Harness harness_;
  std::vector<std::unique_ptr<Process>> ranks_;
};

TEST_F(GrowingTest, StepsAreReadableWhileItGrowsAndCommittedAtTheEnd) {
  StartBoth({"--steps", "3", "--more", "2"});
  EXPECT_TRUE(Shows(3));
  EXPECT_TRUE(IsActive(*disk_, there()));
  EXPECT_FALSE(AnyCommitted());
  Go();
  ExpectEnds();
  EXPECT_TRUE(IsClosed(5));
  EXPECT_TRUE(AnyCommitted());
}

TEST_F(GrowingTest, StepsThatAreCutGoAndTheRestIsCommitted) {
  StartBoth({"--steps", "4", "--cut", "2", "--more", "1"});
  EXPECT_TRUE(Shows(4));
  Go();
  ExpectEnds();
  EXPECT_EQ(WholeSteps(*disk_, there()).value_or(0), 3u);
  EXPECT_EQ(TagOf(*disk_, there(), 2), 7003u);
}

TEST_F(GrowingTest, AnApplicationThatIsKilledLeavesAClosedDirectory) {
  StartBoth({"--steps", "3"});
  EXPECT_TRUE(Shows(3));
  ranks_[0]->Signal(SIGKILL);
  EXPECT_TRUE(IsClosed(3));
  EXPECT_FALSE(AnyCommitted());
}

TEST_F(GrowingTest, AnOutputThatIsNotValidLeavesAClosedDirectory) {
  StartBoth({"--steps", "2", "--invalid"});
  EXPECT_TRUE(Shows(2));
  Go();
  EXPECT_TRUE(IsClosed(2));
  EXPECT_FALSE(AnyCommitted());
}

TEST_F(GrowingTest, ADaemonThatIsKilledIsFollowedByOneThatCloses) {
  StartBoth({"--steps", "3"});
  EXPECT_TRUE(Shows(3));
  harness_.KillDaemon();
  EXPECT_TRUE(IsActive(*disk_, there()));
  for (auto& rank : ranks_) rank->Signal(SIGKILL);
  ASSERT_TRUE(harness_.StartDaemon(kFlags));
  EXPECT_TRUE(IsClosed(3));
  EXPECT_FALSE(AnyCommitted());
}

}  // namespace
}  // namespace cairn::testing
