// The source is deleted only if what was brought is at the target, and is not the source itself.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "storage/io/tree.h"
#include "tests/storage/job/drain/drain_fixture.h"

namespace cairn {
namespace {

using testing::Bytes;
using testing::DrainFixture;

class DrainDeletionTest : public DrainFixture {};

TEST_F(DrainDeletionTest, WhereNobodyTellsOfWritersASourceIsDeletedOnlyOnceItHasStayedAsItIs) {
  options_.settle_ms = 600'000;
  options_.marker = "DONE";
  options_.delete_source = true;
  Put("file", "bytes");
  ::usleep(20'000);  // the clock of ctime is coarse
  Put("DONE", "");
  source_hooks_.writers_unknown = true;
  Hook();
  DrainReport report = Drained();
  EXPECT_EQ(report.files, 2U);
  EXPECT_EQ(report.deleted, 0U);
  EXPECT_NE(Why(report.waiting, "file"), "");
  EXPECT_EQ(ReadPath(from_ + "/file"), "bytes");
  options_.settle_ms = 0;
  EXPECT_EQ(Drained().deleted, 2U);
  EXPECT_EQ(At("file"), "bytes");
}

// /proc gives leases, as file systems do that other machines share. It is none of those that know all writers.
TEST_F(DrainDeletionTest, OnlyAFileSystemOfThisMachineIsBelievedThatNobodyWrites) {
  const std::string folder = "/proc/" + std::to_string(::getpid());
  const UniqueFd fd(::open((folder + "/comm").c_str(), O_RDONLY));
  if (!fd.valid() || ::fcntl(fd.get(), F_SETLEASE, F_RDLCK) != 0) GTEST_SKIP() << "/proc gives no leases here";
  ASSERT_EQ(::fcntl(fd.get(), F_SETLEASE, F_UNLCK), 0);
  const auto tree = OpenTree(folder);
  ASSERT_OK(tree);
  const auto file = (*tree)->Open("comm");
  ASSERT_OK(file);
  EXPECT_EQ((*file)->LookForWriters(), FileBelow::Writers::kUnknown);
}

TEST_F(DrainDeletionTest, DeletesTheSourceOnlyAfterTheCommit) {
  Put("a", Bytes(100));
  Put("b/c", Bytes(6 << 20));
  std::filesystem::create_hard_link(from_ + "/a", from_ + "/b/second");
  std::filesystem::create_symlink("a", from_ + "/link");
  const auto source = Files(from_);
  options_.delete_source = true;
  source_hooks_.before = [&](std::string_view what, const std::string&) {
    if (what == "remove") {
      EXPECT_TRUE(Files(to_) == source);
    }
    return absl::OkStatus();
  };
  Hook();
  const DrainReport report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.deleted, 4U);
  EXPECT_TRUE(Files(from_).empty());
  EXPECT_TRUE(std::filesystem::is_directory(from_ + "/b"));
  EXPECT_TRUE(Files(to_) == source);
}

TEST_F(DrainDeletionTest, WhatHasChangedSinceIsNotDeleted) {
  Put("changed", "one");
  Put("written", "two");
  Put("replaced", "three");
  options_.delete_source = true;
  UniqueFd writer;
  source_hooks_.before = [&](std::string_view what, const std::string& path) {
    if (what != "rename to") return absl::OkStatus();
    if (path == ".cairn-drained.changed") std::ofstream(from_ + "/changed") << "changed!";
    if (path == ".cairn-drained.written") writer = UniqueFd(::open((from_ + "/written").c_str(), O_WRONLY));
    if (path == ".cairn-drained.replaced") {
      std::ofstream(from_ + "/new") << "other";
      std::filesystem::rename(from_ + "/new", from_ + "/replaced");
    }
    return absl::OkStatus();
  };
  Hook();
  const DrainReport report = Drained();
  EXPECT_EQ(report.deleted, 0U);
  EXPECT_EQ(ReadPath(from_ + "/changed"), "changed!");
  EXPECT_EQ(ReadPath(from_ + "/written"), "two");
  EXPECT_EQ(ReadPath(from_ + "/replaced"), "other");
}

TEST_F(DrainDeletionTest, AnInterruptedDeletionIsTakenBack) {
  Put("d/file", "bytes");
  std::filesystem::rename(from_ + "/d/file", from_ + "/d/.cairn-drained.file");
  EXPECT_TRUE(Drained().complete());
  EXPECT_EQ(At("d/file"), "bytes");
  EXPECT_EQ(ReadPath(from_ + "/d/file"), "bytes");
}

TEST_F(DrainDeletionTest, AFileThatComesInPlaceOfALinkIsNotDeleted) {
  std::filesystem::create_symlink("nowhere", from_ + "/link");
  options_.delete_source = true;
  source_hooks_.before = [&](std::string_view what, const std::string& path) {
    if (what == "rename to" && path == ".cairn-drained.link") {
      std::ofstream(from_ + "/new") << "new";
      std::filesystem::rename(from_ + "/new", from_ + "/link");
    }
    return absl::OkStatus();
  };
  Hook();
  EXPECT_EQ(Drained().deleted, 0U);
  EXPECT_EQ(ReadPath(from_ + "/link"), "new");
}

TEST_F(DrainDeletionTest, AnInterruptedDeletionOfALinkIsTakenBackAndTheBarePrefixIsAName) {
  std::filesystem::create_symlink("nowhere", from_ + "/.cairn-drained.link");
  Put(".cairn-drained.", "a name like any other");
  options_.dry_run = true;
  EXPECT_NE(Why(Drained().waiting, ".cairn-drained.link"), "");
  options_.dry_run = false;
  EXPECT_TRUE(Drained().complete());
  EXPECT_EQ(std::filesystem::read_symlink(to_ + "/link"), "nowhere");
  EXPECT_EQ(At(".cairn-drained."), "a name like any other");
}

TEST_F(DrainDeletionTest, WhatIsNotAtTheTargetAnyMoreIsNotDeleted) {
  Put("file", "bytes");
  auto drain = Drain::Open(*disk_, options_);
  ASSERT_OK(drain);
  ASSERT_OK((*drain)->Pass(stop_));
  drain->reset();
  options_.delete_source = true;
  target_hooks_.before = [&](std::string_view what, const std::string&) {
    if (what == "sync all") std::filesystem::remove(to_ + "/file");
    return absl::OkStatus();
  };
  Hook();
  const DrainReport report = Drained();
  if (!std::filesystem::exists(to_ + "/file")) {
    EXPECT_EQ(ReadPath(from_ + "/file"), "bytes");
  }
}

// As a folder looks that is mounted twice, without the mount: the names go another way than the descriptors.
TEST_F(DrainDeletionTest, OneFolderByTwoWaysIsRefused) {
  Put("file", "the only copy");
  std::filesystem::create_symlink(from_, folder_ + "/mount");
  options_.to = folder_ + "/mount/.";
  options_.delete_source = true;
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Run(), "the same");
  EXPECT_EQ(ReadPath(from_ + "/file"), "the only copy");
}

TEST_F(DrainDeletionTest, ATargetThatIsTheSourceAfterAllDeletesNothing) {
  Put("file", "the only copy");
  options_.delete_source = true;
  // The source's tree is the target's, which no comparison of the two roots can have seen.
  options_.wrap_source = [this](auto) { return *OpenTree(to_); };
  std::ofstream(to_ + "/file") << "the only copy";
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Run(), "one folder");
  EXPECT_EQ(At("file"), "the only copy");
  // Nor has the drain's lock been seen there.
  source_hooks_.before = [](std::string_view what, const std::string& path) {
    return what == "info" && path.starts_with(".cairn-drain-") ? NotFound("not seen") : absl::OkStatus();
  };
  options_.wrap_source = [this](auto) { return HookTree(*OpenTree(to_), source_hooks_); };
  options_.wrap_target = [this](auto tree) { return HookTree(std::move(tree), target_hooks_); };
  for (const bool other_device : {false, true}) {
    target_hooks_.other_device = other_device;
    const DrainReport report = Drained();
    EXPECT_EQ(report.deleted, 0U);
    EXPECT_NE(Why(report.failed, "file"), "");
    EXPECT_EQ(At("file"), "the only copy");
  }
}

TEST_F(DrainDeletionTest, WhatIsTakenAwayFromTheTargetBeforeTheDeletionIsBroughtAgain) {
  Put("file", "bytes");
  options_.delete_source = true;
  bool taken = false;
  target_hooks_.before = [&](std::string_view what, const std::string&) {
    if (what == "sync all" && !std::exchange(taken, true)) std::filesystem::remove(to_ + "/file");
    return absl::OkStatus();
  };
  Hook();
  auto drain = Drain::Open(*disk_, options_);
  ASSERT_OK(drain);
  auto report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  ASSERT_TRUE(taken);
  EXPECT_NE(Why(report->failed, "file"), "");
  EXPECT_EQ(ReadPath(from_ + "/file"), "bytes");
  report = DrainOnce(**drain, 5000, stop_);
  ASSERT_OK(report);
  EXPECT_TRUE(report->complete());
  EXPECT_EQ(report->deleted, 1U);
  EXPECT_EQ(At("file"), "bytes");
}

TEST_F(DrainDeletionTest, WhatChangesBeforeItsDeletionIsToldAndBroughtAgain) {
  Put("file", "bytes");
  Put("written", "half");
  options_.delete_source = true;
  UniqueFd writer;
  bool changed = false;
  target_hooks_.before = [&](std::string_view what, const std::string&) {
    if (what != "sync all" || std::exchange(changed, true)) return absl::OkStatus();
    Put("file", "other bytes");
    writer = UniqueFd(::open((from_ + "/written").c_str(), O_WRONLY));
    return absl::OkStatus();
  };
  std::atomic<bool> renamed{false};
  source_hooks_.before = [&](std::string_view what, const std::string& path) {
    if (what == "rename to" && path == ".cairn-drained.written") renamed = true;
    return absl::OkStatus();
  };
  Hook();
  auto drain = Drain::Open(*disk_, options_);
  ASSERT_OK(drain);
  auto report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  EXPECT_EQ(Why(report->waiting, "file"), "not deleted: it changed");
  EXPECT_EQ(Why(report->waiting, "written"), "not deleted: somebody has it open for writing");
  EXPECT_FALSE(renamed);
  EXPECT_FALSE(report->complete());
  EXPECT_GT(report->busy, 0U);
  writer = UniqueFd();
  report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  EXPECT_TRUE(report->complete());
  EXPECT_TRUE(Files(from_).empty());
  EXPECT_EQ(At("file"), "other bytes");
}

TEST_F(DrainDeletionTest, AFirstPassThatTakesLongTakesNothingOfTheTimeToWait) {
  Put("file", "bytes");
  options_.settle_ms = 300;
  options_.delete_source = true;
  ::usleep(400'000);
  source_hooks_.writers_unknown = true;
  target_hooks_.before = [](std::string_view what, const std::string& path) {
    if (what == "rename to" && path == "file") ::usleep(700'000);
    return absl::OkStatus();
  };
  Hook();
  auto drain = Drain::Open(*disk_, options_);
  ASSERT_OK(drain);
  const auto report = DrainOnce(**drain, 600, stop_);
  ASSERT_OK(report);
  EXPECT_EQ(report->deleted, 1U);
}

// Where a rename without replacing is a link and a removal.
TEST_F(DrainDeletionTest, ADeletionThatWasKilledBetweenTwoNamesOfOneFileIsTakenBack) {
  Put("d/file", "bytes");
  Put("d/other", "mine");
  std::filesystem::create_hard_link(from_ + "/d/file", from_ + "/d/.cairn-drained.file");
  std::ofstream(from_ + "/d/.cairn-drained.other") << "another one";
  const DrainReport report = Drained();
  EXPECT_FALSE(Is(from_ + "/d/.cairn-drained.file"));
  EXPECT_EQ(ReadPath(from_ + "/d/file"), "bytes");
  EXPECT_EQ(At("d/file"), "bytes");
  EXPECT_NE(Why(report.failed, "d/.cairn-drained.other"), "");
  EXPECT_EQ(ReadPath(from_ + "/d/.cairn-drained.other"), "another one");
}

TEST_F(DrainDeletionTest, TheTargetIsNotEnteredWhereItIsMetInTheSource) {
  Put("file", "bytes");
  Put("sub/file", "other bytes");
  // As a mount of the sub-folder would be: no name tells of it.
  options_.wrap_target = [this](auto) { return *OpenTree(from_ + "/sub", {.keep_folders = true}); };
  const DrainReport report = Drained();
  EXPECT_NE(Why(report.left_out, "sub"), "");
  EXPECT_FALSE(Is(from_ + "/sub/sub"));
}

}  // namespace
}  // namespace cairn
