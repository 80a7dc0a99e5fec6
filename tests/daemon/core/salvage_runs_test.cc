// A cache with two runs, both with something that the last daemon had only captured, of which one run's cannot be taken
// up this time: the other's is, and nothing of the first is lost, also when it is opened meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/salvage.h"
#include "proto/catalogue.pb.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "storage/base/path.h"
#include "storage/base/user_name.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/captured_parts.h"
#include "tests/daemon/core/core_harness.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/lasting_deposits.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class SalvageRunsTest : public ::testing::Test {
 protected:
  SalvageRunsTest() {
    harness_.deposits = held_;
    harness_.clocks.wall = [this] { return now_; };
    std::filesystem::create_directories(harness_.prefix());
    const auto prefix = Prefix::Open(harness_.prefix_disk(), harness_.prefix());
    EXPECT_OK(prefix.status());
    sick_.run = (*prefix)->run();
    Make(sick_, 7, harness_.prefix());
    Make(sound_, 8, "/run8");
  }

  struct OneRun {
    RunId run = RunId::Random();
    std::string folder, dataset;  // their paths
  };
  void Make(OneRun& one, DatasetId id, const std::string& prefix) {
    ASSERT_OK(MakeDirectories(disk_, harness_.config.cache.path, 0700));
    const auto folder =
        CacheFolder::Open(disk_, harness_.config.cache.path, UserName(), BaseOf(prefix), RunIdentity(one.run), prefix);
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

  // Someone comes for the run that was not looked at.
  local::Reply OpenSick() {
    FakeClient client(harness_);
    return client.Open({});
  }

  // A dataset of the sick run, of which these ranks of two are stored, and nobody can read what it is.
  void LeaveUnreadable(DatasetId id, const std::vector<Rank>& ranks,
                       const absl::Status& why = absl::UnavailableError("injected")) {
    const auto folder =
        CacheFolder::Open(disk_, harness_.config.cache.path, UserName(), "run", RunIdentity(sick_.run), "/run");
    ASSERT_OK(folder.status());
    const std::string path = (*folder)->DatasetPath(id);
    scr::Descriptor descriptor;
    descriptor.id = id, descriptor.name = "ckpt", descriptor.created_us = 1'700'000'000'000'000;
    descriptor.user = "alice", descriptor.job_id = "run", descriptor.mark = "m";
    descriptor.launch = 2, descriptor.step = 40, descriptor.ranks = 2;
    ASSERT_OK((*folder)->Begin(descriptor));
    for (const Rank rank : ranks) {
      catalogue::Catalogue catalogue = CapturedPartOf(sick_.run, id, rank, 2).catalogue;
      catalogue.clear_variables();
      catalogue.set_step(40);
      ASSERT_OK((*folder)->CommitRank(catalogue, ""));
    }
    ASSERT_OK(disk_.SetModeAndTimes(path, 0700, {}, {.tv_sec = 1'700'000'000, .tv_nsec = 0}));
    disk_.FailOn({.op = FakeOp::kRead, .path_part = path + "/.scr/filemap_", .times = 100'000, .status = why});
    unreadable_ = path;
  }

  void RefuseOneOf(const OneRun& sick, const OneRun& sound) {
    disk_.FailOn({.op = FakeOp::kSync, .path_part = sick.dataset + "/", .times = 1000});
    const absl::Status started = harness_.Start();
    EXPECT_STATUS(absl::StatusCode::kUnavailable, started, "injected");
    EXPECT_THAT(Held(), ElementsAre(sick.run.Hex())) << "the other's is in the cache";
    EXPECT_TRUE(harness_.IsThere(disk_, sound.dataset));
    ExpectAllIsTakenUp();
  }

  std::chrono::system_clock::time_point now_{std::chrono::seconds(1'700'000'000)};  // when the parts were begun
  FakeDisk disk_;
  CoreHarness harness_{&disk_, nullptr};
  const std::shared_ptr<LastingDeposits> held_ = std::make_shared<LastingDeposits>();
  OneRun sick_, sound_;
  std::string unreadable_;
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

// The user is served again, and the disk's errors are told.
TEST_F(SalvageRunsTest, AFolderThatCannotBeLookedAtForADayHoldsUpNoStart) {
  now_ += Salvage::kKeptFor;
  disk_.FailOn({.op = FakeOp::kList, .path_part = sick_.folder, .times = 1000});
  ASSERT_OK(harness_.Start());
  EXPECT_TRUE(harness_.Warned("is not taken up: "));
  EXPECT_THAT(Whole(), ElementsAre(8));
  EXPECT_EQ(held_->size(), 0u);
}

// It may be the newest that the run has, so nobody is to restart without it; but the others are taken up.
TEST_F(SalvageRunsTest, ADatasetThatCannotBeReadKeepsItsRunBackForADay) {
  LeaveUnreadable(5, {0, 1});
  ASSERT_OK(harness_.Start());
  EXPECT_EQ(held_->size(), 0u);
  EXPECT_THAT(Whole(), ElementsAre(8));
  const local::Reply reply = OpenSick();
  EXPECT_EQ(CodeOfReply(reply), local::UNAVAILABLE);
  EXPECT_THAT(reply.status().message(), HasSubstr("dataset 5, which the last daemon had begun, is kept: "));
  harness_.Stop();
  now_ += Salvage::kKeptFor;
  ASSERT_OK(harness_.Start());
  EXPECT_TRUE(harness_.Warned("dataset 5, which the last daemon had begun, cannot be taken up: "));
  EXPECT_TRUE(harness_.Warned("cannot be read now; left alone"));
  EXPECT_THAT(Whole(), UnorderedElementsAre(7, 8));
  EXPECT_TRUE(harness_.IsThere(disk_, unreadable_ + "/rank_0.cat"));
}

TEST_F(SalvageRunsTest, ADatasetThatThisUserMayNotReadDoesSoToo) {
  LeaveUnreadable(5, {0, 1}, absl::PermissionDeniedError("denied"));
  ASSERT_OK(harness_.Start());
  EXPECT_TRUE(harness_.Warned("dataset 5, which the last daemon had begun, is kept: "));
  EXPECT_THAT(Whole(), ElementsAre(8));
  EXPECT_TRUE(harness_.IsThere(disk_, unreadable_ + "/rank_0.cat"));
  const local::Reply reply = OpenSick();
  EXPECT_NE(CodeOfReply(reply), local::OK);
  EXPECT_THAT(reply.status().message(), HasSubstr("denied"));
  harness_.Stop();
  disk_.ClearFaults();
  ASSERT_OK(harness_.Start());
  EXPECT_THAT(Whole(), UnorderedElementsAre(5, 7, 8));
}

TEST_F(SalvageRunsTest, AFilemapThatCannotBeReadIsNamedAndHoldsNothingUp) {
  LeaveUnreadable(5, {0, 1});
  disk_.ClearFaults();
  disk_.FailOn({.op = FakeOp::kRead, .path_part = unreadable_ + "/.scr/filemap_0", .times = 1});
  ASSERT_OK(harness_.Start());
  EXPECT_TRUE(harness_.Warned("filemap_0"));
  EXPECT_THAT(Whole(), UnorderedElementsAre(5, 7, 8));
}

TEST_F(SalvageRunsTest, ADatasetThatNotAllRanksHadStoredKeepsNothingBack) {
  LeaveUnreadable(5, {1});
  ASSERT_OK(harness_.Start());
  EXPECT_TRUE(harness_.Warned("cannot be read now; left alone"));
  EXPECT_THAT(Whole(), UnorderedElementsAre(7, 8));
  EXPECT_EQ(held_->size(), 0u);
}

// Until the user has made it their own again.
TEST_F(SalvageRunsTest, AFolderThatOthersMayWriteToKeepsItsOwn) {
  ASSERT_OK(disk_.SetModeAndTimes(sick_.folder, 0777, {}, {}));
  ASSERT_OK(harness_.Start());
  EXPECT_THAT(Whole(), ElementsAre(8));
  EXPECT_TRUE(harness_.Warned("kept until its run can be opened"));
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
  EXPECT_TRUE(harness_.Warned("kept until its run can be opened"));
  EXPECT_THAT(Held(), ElementsAre(sick_.run.Hex()));
  EXPECT_FALSE(harness_.Quiesce()) << "who ends in order has brought everything to the cache";
  harness_.Stop();
  ExpectAllIsTakenUp();
}

TEST_F(SalvageRunsTest, AFolderThatCanBeReadLaterHasItsOwnTakenUpWhenItsRunIsOpened) {
  disk_.FailOn({.op = FakeOp::kRead, .path_part = sick_.folder + "/run.cairn", .times = 1000});
  ASSERT_OK(harness_.Start());
  EXPECT_THAT(Held(), ElementsAre(sick_.run.Hex()));
  disk_.ClearFaults();
  EXPECT_EQ(CodeOfReply(OpenSick()), local::OK);
  EXPECT_EQ(held_->size(), 0u);
  EXPECT_TRUE(harness_.IsThere(disk_, sick_.dataset));
  EXPECT_TRUE(harness_.Quiesce());
  harness_.Stop();
  ExpectAllIsTakenUp();
}

// The first checkpoint of a run was captured, so no dataset says whose folder it is.
TEST_F(SalvageRunsTest, AFolderWhoseRecordIsDamagedKeepsWhatMayBeItsUntilItsRunIsOpened) {
  harness_.Write(disk_, sick_.folder + "/run.cairn", "rotten");
  ASSERT_OK(harness_.Start());
  EXPECT_THAT(Whole(), ElementsAre(8));
  EXPECT_THAT(Held(), ElementsAre(sick_.run.Hex()));
  EXPECT_EQ(CodeOfReply(OpenSick()), local::OK);
  EXPECT_EQ(held_->size(), 0u);
  harness_.Stop();
  ExpectAllIsTakenUp();
}

// It may be opened when the disk takes it; until then nothing of it is in use, and nothing is lost.
TEST_F(SalvageRunsTest, AnOpeningThatTheDiskRefusesLeavesItToTheNext) {
  disk_.FailOn({.op = FakeOp::kRead, .path_part = sick_.folder + "/run.cairn", .times = 1000});
  ASSERT_OK(harness_.Start());
  disk_.ClearFaults();
  disk_.FailOn({.op = FakeOp::kSync, .path_part = sick_.dataset + "/", .times = 1000});
  for (std::uint64_t opening = 0; opening < 2 * Salvage::kTriesMax; ++opening) {
    const local::Reply reply = OpenSick();
    EXPECT_EQ(CodeOfReply(reply), local::UNAVAILABLE);
    EXPECT_THAT(reply.status().message(), HasSubstr("captured by the last daemon, is kept"));
    EXPECT_THAT(Held(), ElementsAre(sick_.run.Hex()));
  }
  disk_.ClearFaults();
  EXPECT_EQ(CodeOfReply(OpenSick()), local::OK);
  EXPECT_EQ(held_->size(), 0u);
  harness_.Stop();
  ExpectAllIsTakenUp();
}

// What keeps on going wrong for no reason that a disk has is the label's doing, as a death is.
TEST_F(SalvageRunsTest, WhatNobodyCanExplainIsTriedFiveTimes) {
  disk_.FailOn({.op = FakeOp::kSync,
                .path_part = sick_.dataset + "/",
                .times = 1000,
                .status = absl::InternalError("for the test")});
  for (std::uint64_t start = 0; start < Salvage::kTriesMax; ++start) {
    EXPECT_EQ(harness_.Start().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(Held(), ElementsAre(sick_.run.Hex()));
  }
  ASSERT_OK(harness_.Start());
  EXPECT_TRUE(harness_.Warned("it was tried 5 times"));
  EXPECT_THAT(Whole(), ElementsAre(8));
  EXPECT_EQ(held_->size(), 0u);
}

TEST_F(SalvageRunsTest, WhatIsOfNoRunOfTheCacheIsDroppedIfAllAreKnown) {
  LeaveCaptured(*held_, CapturedPartOf(RunId::Random(), 9, 0, 1));
  ASSERT_OK(harness_.Start());
  EXPECT_TRUE(harness_.Warned("dropped: it is for no run of this cache"));
  EXPECT_THAT(Whole(), UnorderedElementsAre(7, 8));
  EXPECT_EQ(held_->size(), 0u);
}

}  // namespace
}  // namespace cairn
