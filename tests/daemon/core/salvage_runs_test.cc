// A cache with two runs, both with something that the last daemon had only captured, of which one run's cannot be taken
// up this time: the other's is, and nothing of the first is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/base/user_name.h"
#include "storage/io/disk.h"
#include "storage/place/cache/cache_folder.h"
#include "tests/daemon/core/captured_parts.h"
#include "tests/daemon/core/core_harness.h"
#include "tests/daemon/core/lasting_deposits.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class SalvageRunsTest : public ::testing::Test {
 protected:
  SalvageRunsTest() {
    harness_.deposits = held_;
    Make(sick_, 7);
    Make(sound_, 8);
  }

  struct OneRun {
    RunId run = RunId::Random();
    std::string folder, dataset;  // their paths
  };
  void Make(OneRun& one, DatasetId id) {
    const std::string name = "run" + std::to_string(id);
    ASSERT_OK(MakeDirectories(disk_, harness_.config.cache.path, 0700));
    const auto folder =
        CacheFolder::Open(disk_, harness_.config.cache.path, UserName(), name, RunIdentity(one.run), "/" + name);
    ASSERT_OK(folder.status());
    one.folder = (*folder)->path();
    one.dataset = (*folder)->DatasetPath(id);
    LeaveCaptured(*held_, CapturedPartOf(one.run, id, 0, 1));
  }
  // The runs of which something is still held.
  std::vector<std::string> Held() const {
    std::vector<std::string> runs;
    for (const LastingDeposits::Sealed& sealed : held_->AllSealed()) runs.push_back(sealed.part.catalogue.run());
    return runs;
  }
  std::vector<DatasetId> Whole() {
    std::vector<DatasetId> whole;
    for (const admin::DatasetRow& row : harness_.List()) {
      if (row.state() == "whole") whole.push_back(row.dataset());
    }
    return whole;
  }
  void ExpectAllIsTakenUp() {
    disk_.ClearFaults();
    ASSERT_OK(harness_.Start());
    EXPECT_THAT(Whole(), UnorderedElementsAre(7, 8));
    EXPECT_THAT(Held(), IsEmpty());
    EXPECT_EQ(held_->size(), 0u);
  }

  void RefuseOneOf(const OneRun& sick, const OneRun& sound) {
    disk_.FailOn({.op = FakeOp::kSync, .path_part = sick.dataset + "/", .times = 1000});
    const absl::Status started = harness_.Start();
    EXPECT_STATUS(absl::StatusCode::kUnavailable, started, "injected");
    EXPECT_THAT(Held(), ElementsAre(sick.run.Hex())) << "the other's is in the cache";
    EXPECT_TRUE(harness_.IsThere(disk_, sound.dataset));
    ExpectAllIsTakenUp();
  }

  FakeDisk disk_;
  CoreHarness harness_{&disk_, nullptr};
  const std::shared_ptr<LastingDeposits> held_ = std::make_shared<LastingDeposits>();
  OneRun sick_, sound_;
};

TEST_F(SalvageRunsTest, BothAreTakenUp) {
  ExpectAllIsTakenUp();
}

// In whichever order the folders are looked at: one of the two comes first.
TEST_F(SalvageRunsTest, ADiskThatRefusesOneEndsTheStartWhenTheOtherIsTakenUp) {
  RefuseOneOf(sick_, sound_);
}

TEST_F(SalvageRunsTest, ADiskThatRefusesTheOtherEndsTheStartWhenThisIsTakenUp) {
  RefuseOneOf(sound_, sick_);
}

TEST_F(SalvageRunsTest, AFolderThatCannotBeLookedAtKeepsItsOwn) {
  disk_.FailOn({.op = FakeOp::kList, .path_part = sick_.folder, .times = 1000});
  EXPECT_EQ(harness_.Start().code(), absl::StatusCode::kUnavailable) << "a later start may be able to";
  EXPECT_THAT(Held(), ElementsAre(sick_.run.Hex()));
  ExpectAllIsTakenUp();
}

// Until the user has made it their own again.
TEST_F(SalvageRunsTest, AFolderThatOthersMayWriteToKeepsItsOwn) {
  ASSERT_OK(disk_.SetModeAndTimes(sick_.folder, 0777, {}, {}));
  ASSERT_OK(harness_.Start());
  EXPECT_THAT(Whole(), ElementsAre(8));
  EXPECT_TRUE(harness_.Warned("left to the next start"));
  EXPECT_THAT(Held(), ElementsAre(sick_.run.Hex()));
  harness_.Stop();
  ASSERT_OK(disk_.SetModeAndTimes(sick_.folder, 0700, {}, {}));
  ExpectAllIsTakenUp();
}

// Whose it is nobody can say: then nobody can say either that a label is of no run of this cache.
TEST_F(SalvageRunsTest, AFolderOfWhichNobodyKnowsWhoseItIsKeepsWhatMayBeIts) {
  disk_.FailOn({.op = FakeOp::kRead, .path_part = sick_.folder + "/run.cairn", .times = 1000});
  ASSERT_OK(harness_.Start());
  EXPECT_THAT(Whole(), ElementsAre(8));
  EXPECT_TRUE(harness_.Warned("left to the next start"));
  EXPECT_THAT(Held(), ElementsAre(sick_.run.Hex()));
  harness_.Stop();
  ExpectAllIsTakenUp();
}

TEST_F(SalvageRunsTest, WhatIsOfNoRunOfTheCacheIsDroppedIfAllAreKnown) {
  LeaveCaptured(*held_, CapturedPartOf(RunId::Random(), 9, 0, 1));
  ASSERT_OK(harness_.Start());
  EXPECT_TRUE(harness_.Warned("for no run of this cache: dropped"));
  EXPECT_THAT(Whole(), UnorderedElementsAre(7, 8));
  EXPECT_EQ(held_->size(), 0u);
}

}  // namespace
}  // namespace cairn
