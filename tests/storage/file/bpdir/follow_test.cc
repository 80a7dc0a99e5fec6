#include "storage/file/bpdir/follow.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/file/transfer/transfer.h"
#include "storage/io/create_once.h"
#include "tests/support/fake_disk.h"
#include "tests/support/growing_bp5.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {
namespace {

constexpr const char* kFrom = "/cache/ds/fields.bp";
constexpr const char* kTo = "/prefix/run/fields.bp";

bool Always(std::uint64_t) {
  return true;
}

std::string At(const std::string& folder, const std::string& name) {
  return folder + "/" + name;
}

std::uint64_t InodeOf(Disk& disk, const std::string& path) {
  const auto info = disk.Info(path);
  return info.ok() ? info->inode : 0;
}

std::string Read(Disk& disk, const std::string& path) {
  return ReadWhole(disk, path, 1 << 30).value_or("nothing");
}

class FollowTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(job_.Create(7)); }
  void Write(std::uint32_t steps) {
    for (std::uint32_t i = 0; i < steps; ++i) ASSERT_OK(job_.Step());
  }
  Ends ends() { return {source_, kFrom, target_, kTo}; }
  void ExpectShows(std::uint32_t steps) {
    ASSERT_OK_AND_ASSIGN(const std::uint32_t shown, WholeSteps(target_, kTo));
    EXPECT_EQ(shown, steps);
  }
  // Cuts a file of the source, or gives it back what was cut.
  std::string CutSource(const std::string& name, std::uint64_t bytes) {
    const std::string path = At(kFrom, name), whole = Read(source_, path);
    EXPECT_OK(source_.Open(path, {.writable = true}).value()->Truncate(whole.size() - bytes));
    return whole;
  }
  void PutSource(const std::string& name, const std::string& bytes) {
    EXPECT_OK(WriteSynced(*source_.Open(At(kFrom, name), {.writable = true}).value(), 0, bytes));
  }

  FakeDisk source_, target_;
  GrowingBp5 job_{source_, kFrom};
  Follower follower_{ends(), Always};
};

TEST_F(FollowTest, StepsAreBroughtAsTheyBecomeComplete) {
  ASSERT_OK(follower_.Step());
  EXPECT_STATUS(absl::StatusCode::kNotFound, WholeSteps(target_, kTo), "");
  for (std::uint32_t step = 1; step <= 8; ++step) {
    Write(1);
    ASSERT_OK(follower_.Step());
    ExpectShows(step);
    EXPECT_EQ(follower_.followed().complete, step);
    EXPECT_EQ(follower_.followed().flushed, step);
  }
  EXPECT_TRUE(IsActive(target_, kTo));
  std::uint64_t bytes = 0;
  for (const char* name : {"md.idx", "md.0", "mmd.0", "data.0", "data.1"}) {
    EXPECT_TRUE(Read(target_, At(kTo, name)) == Read(source_, At(kFrom, name))) << name;
    bytes += Read(target_, At(kTo, name)).size();
  }
  EXPECT_EQ(follower_.followed().bytes, bytes - kIndexHeaderBytes);
}

TEST_F(FollowTest, WithoutADirectoryThereIsNothingToBring) {
  Follower nothing({source_, "/cache/ds/none.bp", target_, kTo}, Always);
  EXPECT_OK(nothing.Step());
  EXPECT_STATUS(absl::StatusCode::kNotFound, target_.Info(kTo), "");
}

TEST_F(FollowTest, AClosedSourceIsActiveInTheTargetUntilItIsFinished) {
  Write(2);
  ASSERT_OK(job_.Close());
  ASSERT_OK(follower_.Step());
  EXPECT_FALSE(IsActive(source_, kFrom));
  EXPECT_TRUE(IsActive(target_, kTo));
}

TEST_F(FollowTest, AStepWhoseDataIsNotThereYetWaits) {
  Write(2);
  ASSERT_OK(follower_.Step());
  Write(2);
  const std::string whole = CutSource("data.1", 16);
  ASSERT_OK(follower_.Step());
  ExpectShows(3);
  EXPECT_EQ(follower_.followed().complete, 4u);
  PutSource("data.1", whole);
  ASSERT_OK(follower_.Step());
  ExpectShows(4);
}

TEST_F(FollowTest, WhatIsUnderTheNamesGoesIndexFirst) {
  GrowingBp5 old(target_, kTo, /*seed=*/9);
  ASSERT_OK(old.Create());
  for (int i = 0; i < 3; ++i) ASSERT_OK(old.Step());
  ASSERT_OK(CreateFileOnce(target_, At(kTo, "data.7"), "more subfiles"));
  ASSERT_OK(CreateFileOnce(target_, At(kTo, "README"), "the user's"));
  std::vector<std::string> removed;
  target_.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kRemove) removed.push_back(BaseOf(path));
  });
  Write(1);
  ASSERT_OK(follower_.Step());
  ASSERT_FALSE(removed.empty());
  EXPECT_EQ(removed.front(), "md.idx");
  ExpectShows(1);
  EXPECT_STATUS(absl::StatusCode::kNotFound, target_.Info(At(kTo, "data.7")), "");
  EXPECT_OK(target_.Info(At(kTo, "README")));
}

TEST_F(FollowTest, StepsThatTheWriterCutGoIndexFirstAndTheFilesStay) {
  Write(5);
  ASSERT_OK(follower_.Step());
  const std::uint64_t inode = InodeOf(target_, At(kTo, "md.idx"));
  ASSERT_OK(job_.CutTo(2, /*seed=*/5));
  Write(1);
  std::vector<std::string> cut;
  target_.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kTruncate || op == FakeOp::kSync) cut.push_back(BaseOf(path));
  });
  ASSERT_OK(follower_.Step());
  ASSERT_GE(cut.size(), 3u);
  EXPECT_EQ((std::vector<std::string>{cut[0], cut[1]}), (std::vector<std::string>{"md.idx", "md.idx"}));
  ExpectShows(3);
  EXPECT_EQ(TagOf(target_, kTo, 1), 1002u);
  EXPECT_EQ(TagOf(target_, kTo, 2), 5003u);
  EXPECT_EQ(InodeOf(target_, At(kTo, "md.idx")), inode);
}

TEST_F(FollowTest, StepsThatWereCutToNothingAndWrittenAnewAreFollowedAnew) {
  Write(3);
  ASSERT_OK(follower_.Step());
  ASSERT_OK(job_.CutTo(0, /*seed=*/5));
  ASSERT_OK(follower_.Step());
  EXPECT_EQ(follower_.followed().flushed, 0u);
  ExpectShows(0);
  Write(2);
  ASSERT_OK(follower_.Step());
  ExpectShows(2);
  EXPECT_EQ(TagOf(target_, kTo, 0), 5001u);
}

TEST_F(FollowTest, AnotherDirectoryInItsPlaceIsFollowedAnew) {
  Write(3);
  ASSERT_OK(follower_.Step());
  ASSERT_OK(RemoveTree(source_, kFrom));
  GrowingBp5 other(source_, kFrom, /*seed=*/6);
  ASSERT_OK(other.Create(/*id=*/8));
  for (int i = 0; i < 5; ++i) ASSERT_OK(other.Step());
  ASSERT_OK(follower_.Step());
  ExpectShows(5);
  EXPECT_EQ(TagOf(target_, kTo, 4), 6005u);
}

TEST_F(FollowTest, OthersFilesAreNotTouched) {
  Write(2);
  ASSERT_OK(follower_.Step());
  ASSERT_OK(ReplaceFile(target_, At(kTo, "data.1"), "a newer dataset's"));
  Write(1);
  EXPECT_STATUS(absl::StatusCode::kAborted, follower_.Step(), "someone else");
  EXPECT_EQ(Read(target_, At(kTo, "data.1")), "a newer dataset's");
}

TEST_F(FollowTest, AnAllowanceThatIsRefusedStopsItAndItGoesOnLater) {
  Write(3);
  bool stop = true;
  Follower follower(ends(), [&](std::uint64_t) { return !stop; });
  EXPECT_STATUS(absl::StatusCode::kCancelled, follower.Step(), "");
  stop = false;
  ASSERT_OK(follower.Step());
  ExpectShows(3);
}

TEST_F(FollowTest, LargeBacklogsBecomeVisibleInParts) {
  GrowingBp5 large(source_, "/cache/ds/large.bp", 3, /*elements=*/1'500'000);  // 24 MB in a step
  ASSERT_OK(large.Create());
  for (int i = 0; i < 4; ++i) ASSERT_OK(large.Step());
  std::vector<std::uint32_t> seen;
  bool inside = false;
  target_.SetHook([&](FakeOp op, const std::string& path) {
    if (inside || op != FakeOp::kWrite || BaseOf(path) != "data.0") return;
    inside = true;
    seen.push_back(WholeSteps(target_, kTo).value_or(0));
    inside = false;
  });
  Follower follower({source_, "/cache/ds/large.bp", target_, kTo}, Always);
  ASSERT_OK(follower.Step());
  target_.SetHook(nullptr);
  ExpectShows(4);
  EXPECT_EQ(seen.back(), 2u);
}

TEST_F(FollowTest, AFullTargetKeepsWhatItShowsAndGoesOnWhenThereIsRoom) {
  Write(2);
  ASSERT_OK(follower_.Step());
  target_.SetCapacity(30'000);
  Write(2);
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, follower_.Step(), "target");
  ExpectShows(2);
  target_.SetCapacity(UINT64_MAX);
  ASSERT_OK(follower_.Step());
  ExpectShows(4);
}

// --- What one run of a job does on the target, with a fault somewhere ---

struct Scene {
  FakeDisk source, target;
  GrowingBp5 job{source, kFrom};
  Follower follower{{source, kFrom, target, kTo}, Always};

  Scene() {
    EXPECT_OK(MakeDirectories(target, "/prefix/run"));
    target.SyncAll();
  }
  // Steps, a cut, steps. Answers whether all of it worked.
  bool Play() {
    bool good = true;
    const auto step = [&](std::uint32_t steps) {
      for (std::uint32_t i = 0; i < steps; ++i) EXPECT_OK(job.Step());
      good &= follower.Step().ok();
    };
    EXPECT_OK(job.Create(7));
    step(1);
    step(3);
    EXPECT_OK(job.CutTo(2, 4));
    step(0);
    step(2);
    EXPECT_OK(job.CutTo(1, 5));
    step(3);
    return good;
  }
};

// What is shown is whole, whatever was lost.
void ExpectConsistent(Disk& disk, const std::string& what) {
  const auto shown = WholeSteps(disk, kTo);
  EXPECT_TRUE(shown.ok() || absl::IsNotFound(shown.status())) << what << ": " << shown.status();
}

TEST(FollowCrashTest, WhateverAPowerFailureTakesWhatIsShownIsWhole) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (std::uint64_t n = 1;; ++n) {
      Scene scene;
      scene.target.CrashAt(n);
      if (scene.Play()) break;
      scene.target.Restart(seed * 1000 + n);
      const std::string what = "seed " + std::to_string(seed) + ", operation " + std::to_string(n);
      ExpectConsistent(scene.target, what);
      const std::uint32_t before = WholeSteps(scene.target, kTo).value_or(0);
      ASSERT_OK(Close(scene.target, kTo)) << what;
      ExpectConsistent(scene.target, what + ", closed");
      EXPECT_EQ(WholeSteps(scene.target, kTo).value_or(0), before) << what;
      EXPECT_FALSE(IsActive(scene.target, kTo)) << what;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(FollowCrashTest, WhateverFailsItGoesOnAndNothingIsBelievedThatWasNotSynced) {
  for (const FakeOp op : {FakeOp::kAny, FakeOp::kSync, FakeOp::kWrite, FakeOp::kSyncDirectory, FakeOp::kTruncate}) {
    for (std::uint64_t n = 1;; ++n) {
      Scene scene;
      scene.target.FailOn({.op = op, .nth = n});
      const bool good = scene.Play();
      const std::string what = std::to_string(static_cast<int>(op)) + ", number " + std::to_string(n);
      scene.target.ClearFaults();
      ExpectConsistent(scene.target, what);
      ASSERT_OK(scene.follower.Step()) << what;
      scene.target.Restart(n);  // without what is not durable
      EXPECT_EQ(WholeSteps(scene.target, kTo).value_or(0), 4u) << what;
      EXPECT_EQ(TagOf(scene.target, kTo, 3), 5004u) << what;
      if (::testing::Test::HasFailure()) return;
      if (good) break;
    }
  }
}

TEST(FollowCrashTest, ReadersSeeWholeStepsAtEveryMoment) {
  Scene scene;
  std::uint64_t looks = 0;
  bool inside = false;
  scene.target.SetHook([&](FakeOp op, const std::string&) {
    if (inside || op == FakeOp::kRead || op == FakeOp::kInfo || op == FakeOp::kOpen) return;
    inside = true;
    ExpectConsistent(scene.target, "operation " + std::to_string(++looks));
    inside = false;
  });
  EXPECT_TRUE(scene.Play());
  EXPECT_GT(looks, 50u);
}

// --- Finish ---

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

// --- Close ---

class CloseTest : public FollowTest {
 protected:
  void Spoil(const std::string& name, const std::string& bytes) {
    const std::string path = At(kTo, name);
    ASSERT_OK(WriteSynced(*target_.Open(path, {.writable = true}).value(), Read(target_, path).size(), bytes));
  }
};

TEST_F(CloseTest, WhatIsBehindTheLastWholeStepGoes) {
  Write(3);
  ASSERT_OK(follower_.Step());
  std::map<std::string, std::string> before;
  for (const char* name : {"md.0", "mmd.0", "data.0", "data.1"}) before[name] = Read(target_, At(kTo, name));
  Spoil("md.idx", std::string("s\x20\0\0\0\0\0\0\0 and", 13));
  Spoil("md.0", "half of a step");
  Spoil("mmd.0", std::string(100, '\0'));
  Spoil("data.0", "of a step");
  ASSERT_OK(Close(target_, kTo));
  ExpectShows(3);
  EXPECT_FALSE(IsActive(target_, kTo));
  for (const auto& [name, bytes] : before) EXPECT_TRUE(Read(target_, At(kTo, name)) == bytes) << name;
  ASSERT_OK(Close(target_, kTo));
  ExpectShows(3);
}

TEST_F(CloseTest, RecordsThatAreNotSoundGoWithAllBehindThem) {
  Write(3);
  ASSERT_OK(follower_.Step());
  Spoil("md.idx", std::string(64, '\0'));
  ASSERT_OK(Close(target_, kTo));
  ExpectShows(3);
}

TEST_F(CloseTest, AStepWithoutItsDataGoes) {
  Write(3);
  ASSERT_OK(follower_.Step());
  ASSERT_OK(CutFile(target_, At(kTo, "data.1"), 4800 + 4800 + 100));
  ASSERT_OK(Close(target_, kTo));
  ExpectShows(2);
}

TEST_F(CloseTest, WithoutAStepNothingIsLeft) {
  ASSERT_OK(MakeDirectories(target_, kTo));
  ASSERT_OK(CreateFileOnce(target_, At(kTo, "data.0"), "bytes"));
  ASSERT_OK(CreateFileOnce(target_, At(kTo, "md.idx") + std::string(kWorkSuffix) + "0123456789abcdef", "half"));
  ASSERT_OK(Close(target_, kTo));
  EXPECT_STATUS(absl::StatusCode::kNotFound, target_.Info(kTo), "");
  EXPECT_OK(Close(target_, kTo));
}

TEST_F(CloseTest, WhateverAPowerFailureTakesItCanBeDoneAgain) {
  for (std::uint64_t n = 1;; ++n) {
    Scene scene;
    ASSERT_OK(scene.job.Create(7));
    for (int i = 0; i < 3; ++i) ASSERT_OK(scene.job.Step());
    ASSERT_OK(scene.follower.Step());
    for (const char* name : {"md.idx", "md.0", "data.0"}) {
      const std::string path = At(kTo, name);
      ASSERT_OK(
          WriteSynced(*scene.target.Open(path, {.writable = true}).value(), Read(scene.target, path).size(), "s"));
    }
    scene.target.CrashAt(n);
    const bool closed = Close(scene.target, kTo).ok();
    if (closed) break;
    scene.target.Restart(n);
    EXPECT_EQ(WholeSteps(scene.target, kTo).value_or(0), 3u) << n;
    ASSERT_OK(Close(scene.target, kTo)) << n;
    EXPECT_EQ(WholeSteps(scene.target, kTo).value_or(0), 3u) << n;
    EXPECT_FALSE(IsActive(scene.target, kTo));
  }
}

}  // namespace
}  // namespace cairn::bpdir
