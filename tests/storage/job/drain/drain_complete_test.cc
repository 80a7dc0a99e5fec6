// Which files are complete, so that they are brought: nobody writes to them, they have settled, or a marker says so.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "storage/job/drain/drain.h"
#include "tests/storage/job/drain/drain_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class DrainCompleteTest : public testing::DrainFixture {};

TEST_F(DrainCompleteTest, AFileThatSomebodyWritesToWaits) {
  Put("file", "half");
  const UniqueFd writer(::open((from_ + "/file").c_str(), O_WRONLY));
  DrainReport report = Drained();
  EXPECT_EQ(Why(report.waiting, "file"), "somebody has it open for writing");
  EXPECT_FALSE(IsThere("file"));
}

TEST_F(DrainCompleteTest, AFileThatHasNotSettledWaitsAndIsBroughtWhenItHas) {
  options_.settle_ms = 400;
  Put("file", "new");
  auto drain = Drain::Open(*disk_, options_);
  ASSERT_OK(drain);
  auto report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  EXPECT_NE(Why(report->waiting, "file"), "");
  EXPECT_FALSE(IsThere("file"));
  EXPECT_TRUE((*drain)->settles_at().has_value());
  report = DrainOnce(**drain, 5000, stop_);
  ASSERT_OK(report);
  EXPECT_TRUE(report->complete());
  EXPECT_EQ(At("file"), "new");
}

TEST_F(DrainCompleteTest, AFileWhoseTimesWereSetBackHasNotSettledForThat) {
  options_.settle_ms = 60'000;
  Put("file", "new");
  const timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (from_ + "/file").c_str(), times, 0), 0);
  EXPECT_EQ(Drained().waiting.count(), 1U);
}

TEST_F(DrainCompleteTest, WithoutAnySignOfBeingCompleteAFileWaits) {
  options_.settle_ms.reset();
  Put("file", "old");
  EXPECT_NE(Why(Drained().waiting, "file"), "");
  auto drain = Drain::Open(*disk_, options_);
  ASSERT_OK(drain);
  (*drain)->Closed("file");
  auto report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  EXPECT_TRUE(report->complete());
  EXPECT_EQ(At("file"), "old");
}

TEST_F(DrainCompleteTest, WhereNobodyTellsOfWritersNewsDoesNotCount) {
  options_.settle_ms.reset();
  Put("file", "perhaps half");
  source_hooks_.writers_unknown = true;
  Hook();
  auto drain = Drain::Open(*disk_, options_);
  ASSERT_OK(drain);
  (*drain)->Closed("file");
  const auto report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  EXPECT_NE(Why(report->waiting, "file"), "");
  EXPECT_FALSE(IsThere("file"));
}

TEST_F(DrainCompleteTest, AMarkerOfAFolderStandsForAllBelowAndComesLast) {
  options_.settle_ms.reset();
  options_.marker = "DONE";
  Put("a/one", "1");
  Put("a/sub/two", "2");
  Put("b/three", "3");
  EXPECT_EQ(Drained().waiting.count(), 3U);
  ::usleep(20'000);  // the clock of ctime is coarse
  Put("a/DONE", "");
  std::vector<std::string> order;
  target_hooks_.before = [&](std::string_view what, const std::string& path) {
    if (what == "rename to") order.push_back(path);
    return absl::OkStatus();
  };
  options_.parallel = 1;
  Hook();
  const DrainReport report = Drained();
  EXPECT_EQ(report.waiting.count(), 1U);
  EXPECT_NE(Why(report.waiting, "b/three"), "");
  ASSERT_EQ(order.size(), 3U);
  EXPECT_EQ(order.back(), "a/DONE");
}

TEST_F(DrainCompleteTest, AMarkerOfAFileStandsForThatAloneAndNotForWhatChangedLater) {
  options_.settle_ms.reset();
  options_.marker = "*.done";
  Put("one", "1");
  Put("two", "2");
  ::usleep(20'000);
  Put("one.done", "");
  Put("two.done", "");
  ::usleep(20'000);
  Put("two", "changed");
  const DrainReport report = Drained();
  EXPECT_EQ(At("one"), "1");
  EXPECT_FALSE(IsThere("two"));
  EXPECT_NE(Why(report.waiting, "two"), "");
  EXPECT_FALSE(IsThere("two.done"));
}

TEST_F(DrainCompleteTest, AMarkerWaitsForAFolderThatCannotBeListed) {
  options_.marker = "DONE";
  Put("a/sub/file", "1");
  Put("a/DONE", "");
  bool refuses = true;
  source_hooks_.before = [&](std::string_view what, const std::string& path) -> absl::Status {
    return refuses && what == "list" && path == "a/sub" ? PermissionDenied("not for you") : absl::OkStatus();
  };
  Hook();
  EXPECT_NE(Why(Drained().waiting, "a/DONE"), "");
  EXPECT_FALSE(IsThere("a/DONE"));
  refuses = false;
  EXPECT_TRUE(Drained().complete());
  EXPECT_TRUE(IsThere("a/DONE"));
}

TEST_F(DrainCompleteTest, AMarkerWaitsForWhatCameAfterTheListing) {
  for (const auto& [marker, name, late] : {std::tuple{"DONE", "DONE", "late"}, {"*.done", "late.done", "late"}}) {
    const std::string folder = name;
    options_.marker = marker;
    Put(folder + "/file", "1");
    Put(folder + "/" + name, "");
    bool added = false;
    source_hooks_.before = [&](std::string_view what, const std::string& path) {
      if (what == "open" && path == folder + "/file" && !std::exchange(added, true)) Put(folder + "/" + late, "late");
      return absl::OkStatus();
    };
    Hook();
    EXPECT_NE(Why(Drained().waiting, folder + "/" + name), "") << marker;
    EXPECT_FALSE(IsThere(folder + "/" + name)) << marker;
    EXPECT_TRUE(Drained().complete()) << marker;
    EXPECT_TRUE(IsThere(folder + "/" + name)) << marker;
  }
}

}  // namespace
}  // namespace cairn
