// Steps that are brought as the job writes them, and power failures in between.
#include "storage/file/bpdir/follow.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "storage/file/bpdir/append.h"
#include "storage/io/create_once.h"
#include "storage/io/disk.h"
#include "tests/storage/file/bpdir/follow_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/growing_bp5.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {
namespace {

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

}  // namespace
}  // namespace cairn::bpdir
