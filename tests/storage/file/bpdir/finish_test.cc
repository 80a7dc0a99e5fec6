// The rest of a directory whose writer has ended: Finish in storage/file/bpdir/follow.h.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/path.h"
#include "storage/file/bpdir/follow.h"
#include "storage/file/transfer/transfer.h"
#include "storage/io/create_once.h"
#include "storage/io/disk.h"
#include "tests/storage/file/bpdir/follow_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/growing_bp5.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {
namespace {

// The catalogue of what the source has now.
struct Catalogued {
  std::map<std::string, catalogue::FileEntry> entries;
  std::map<std::string, const catalogue::FileEntry*> files;

  explicit Catalogued(Disk& disk) {
    for (const std::string& name : disk.List(kFrom).value_or(std::vector<std::string>())) {
      catalogue::FileEntry& entry = entries[name];
      const std::string path = At(kFrom, name);
      const auto info = disk.Info(path);
      EXPECT_OK(info);
      if (!info.ok()) continue;
      EXPECT_OK(ChecksumFile(disk, path, *info, /*sync=*/false, &entry));
    }
    for (const auto& [name, entry] : entries) files[name] = &entry;
  }
};

void ExpectFinished(FakeDisk& source, FakeDisk& target, const Catalogued& catalogued, const std::string& what = "") {
  EXPECT_EQ(source.List(kFrom).value(), target.List(kTo).value()) << what;
  for (const auto& [name, entry] : catalogued.entries) {
    EXPECT_TRUE(Read(source, At(kFrom, name)) == Read(target, At(kTo, name))) << what << ": " << name;
    const auto info = target.Info(At(kTo, name));
    ASSERT_OK(info);
    EXPECT_EQ(info->mode & 07777, entry.mode() & 07777) << name;
    EXPECT_EQ(info->mtime.tv_sec, entry.mtime_s()) << name;
  }
}

class FinishTest : public FollowTest {
 protected:
  void ExpectFinishes() {
    const Catalogued catalogued(source_);
    std::string damaged;
    ASSERT_OK(Finish(ends(), catalogued.files, Always, &damaged));
    ExpectFinished(source_, target_, catalogued);
  }
};

TEST_F(FinishTest, TheRestIsAppendedToTheFilesThatAreThere) {
  Write(3);
  ASSERT_OK(follower_.Step());
  const std::uint64_t data = InodeOf(target_, At(kTo, "data.0")), index = InodeOf(target_, At(kTo, "md.idx"));
  Write(2);
  ASSERT_OK(job_.Close());
  ASSERT_OK(CreateFileOnce(source_, At(kFrom, "profiling.json"), "[]"));
  ExpectFinishes();
  EXPECT_EQ(InodeOf(target_, At(kTo, "data.0")), data);
  EXPECT_EQ(InodeOf(target_, At(kTo, "md.idx")), index);
  ExpectShows(5);
  EXPECT_FALSE(IsActive(target_, kTo));
}

TEST_F(FinishTest, TheActiveFlagIsTheLastByteThatChanges) {
  Write(2);
  ASSERT_OK(job_.Close());
  bool active = true;
  std::vector<std::string> after;
  bool inside = false;
  target_.SetHook([&](FakeOp op, const std::string& path) {
    if (inside) return;
    inside = true;
    active = !target_.Info(At(kTo, "md.idx")).ok() || IsActive(target_, kTo);
    if (!active && op == FakeOp::kWrite) after.push_back(path);
    inside = false;
  });
  ExpectFinishes();
  EXPECT_TRUE(after.empty()) << after.front();
}

TEST_F(FinishTest, WhatNoFollowerHasBroughtIsBroughtWhole) {
  Write(4);
  ASSERT_OK(job_.Close());
  ExpectFinishes();
  ExpectShows(4);
}

TEST_F(FinishTest, AgainChangesNothing) {
  Write(4);
  ASSERT_OK(job_.Close());
  ExpectFinishes();
  std::uint64_t writes = 0;
  target_.SetHook([&](FakeOp op, const std::string&) { writes += op == FakeOp::kTruncate; });
  ExpectFinishes();
  EXPECT_EQ(writes, 0u);
}

// What reads back well may not be on the disk.
TEST_F(FinishTest, AfterAFailedSyncAFileIsWrittenAnew) {
  Write(4);
  ASSERT_OK(job_.Close());
  const Catalogued catalogued(source_);
  std::string damaged;
  for (const char* name : {"data.0", "md.0", "md.idx"}) {
    target_.FailOn({.op = FakeOp::kSync, .path_part = name});
    EXPECT_FALSE(Finish(ends(), catalogued.files, Always, &damaged).ok()) << name;
  }
  ExpectFinishes();
  target_.Restart(3);
  ExpectFinished(source_, target_, catalogued);
  ExpectShows(4);
}

TEST_F(FinishTest, AlsoAfterAFailedSyncOfAStep) {
  Write(4);
  target_.FailOn({.op = FakeOp::kSync, .path_part = "data.1"});
  EXPECT_FALSE(follower_.Step().ok());
  ASSERT_OK(job_.Close());
  ExpectFinishes();
  target_.Restart(3);
  ExpectFinished(source_, target_, Catalogued(source_));
}

TEST_F(FinishTest, AFlagThatTheWriterHasLeftStays) {
  Write(2);
  ASSERT_OK(follower_.Step());
  ExpectFinishes();
  EXPECT_TRUE(IsActive(target_, kTo));
}

TEST_F(FinishTest, StepsWhoseDataDiffersGoFirstAndComeAgain) {
  Write(4);
  ASSERT_OK(follower_.Step());
  target_.FlipBit(At(kTo, "data.1"), 8 * (4800 + 4800 + 17));  // of the third step
  ASSERT_OK(job_.Close());
  std::vector<std::uint32_t> seen;
  bool inside = false;
  target_.SetHook([&](FakeOp op, const std::string& path) {
    if (inside || op != FakeOp::kTruncate || BaseOf(path) != "data.1") return;
    inside = true;
    seen.push_back(WholeSteps(target_, kTo).value_or(99));
    inside = false;
  });
  ExpectFinishes();
  ASSERT_FALSE(seen.empty());
  EXPECT_LE(seen[0], 2u);
  target_.SetHook(nullptr);
  ExpectShows(4);
}

TEST_F(FinishTest, StepsThatWereCutSinceTheLastLookAreCutThereToo) {
  Write(5);
  ASSERT_OK(follower_.Step());
  ASSERT_OK(job_.CutTo(3, /*seed=*/8));
  Write(1);
  ASSERT_OK(job_.Close());
  ExpectFinishes();
  ExpectShows(4);
  EXPECT_EQ(TagOf(target_, kTo, 3), 8004u);
}

TEST_F(FinishTest, StrayFilesOfADirectoryGo) {
  Write(1);
  ASSERT_OK(follower_.Step());
  ASSERT_OK(CreateFileOnce(target_, At(kTo, "data.5"), ""));
  ASSERT_OK(job_.Close());
  ExpectFinishes();
}

TEST_F(FinishTest, ADamagedSourceIsNamedAndNotBrought) {
  Write(3);
  ASSERT_OK(job_.Close());
  const Catalogued catalogued(source_);
  source_.FlipBit(At(kFrom, "data.1"), 12345);
  std::string damaged;
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Finish(ends(), catalogued.files, Always, &damaged), "CRC32C");
  EXPECT_EQ(damaged, "data.1");
  EXPECT_STATUS(absl::StatusCode::kNotFound, WholeSteps(target_, kTo), "");
}

TEST_F(FinishTest, FilesThatTheApplicationHasMadeReadOnlyAreCompletedAll) {
  Write(2);
  ASSERT_OK(job_.Close());
  for (const char* name : {"data.0", "md.idx"}) {
    const auto info = source_.Info(At(kFrom, name));
    ASSERT_OK(source_.SetModeAndTimes(At(kFrom, name), 0444, info->atime, info->mtime));
  }
  ASSERT_OK(follower_.Step());
  ExpectFinishes();
  ExpectFinishes();
}

TEST(FinishCrashTest, WhateverAPowerFailureTakesWhatIsShownIsWholeAndItCanBeDoneAgain) {
  for (const bool cut : {false, true}) {
    for (std::uint64_t n = 1;; ++n) {
      Scene scene;
      ASSERT_OK(scene.job.Create(7));
      for (int i = 0; i < 3; ++i) ASSERT_OK(scene.job.Step());
      ASSERT_OK(scene.follower.Step());
      if (cut) {
        ASSERT_OK(scene.job.CutTo(1, 6));
      }
      for (int i = 0; i < 3; ++i) ASSERT_OK(scene.job.Step());
      ASSERT_OK(scene.job.Close());
      const Catalogued catalogued(scene.source);
      const Ends ends{scene.source, kFrom, scene.target, kTo};
      std::string damaged;
      scene.target.CrashAt(n);
      const absl::Status finished = Finish(ends, catalogued.files, Always, &damaged);
      if (finished.ok()) break;
      scene.target.Restart(n);
      const std::string what = (cut ? "cut, operation " : "operation ") + std::to_string(n);
      ExpectConsistent(scene.target, what);
      ASSERT_OK(Finish(ends, catalogued.files, Always, &damaged)) << what;
      ExpectFinished(scene.source, scene.target, catalogued, what);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace cairn::bpdir
