#include "storage/job/adopt/adopt_bp.h"
#include "storage/io/create_once.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "storage/file/trees/tree_file.h"
#include "tests/support/fake_disk.h"
#include "tests/support/growing_bp5.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr const char* kFrom = "/home/me/fields.bp";
constexpr const char* kPrefix = "/scratch/run";
constexpr const char* kThere = "/scratch/run/fields.bp";

class AdoptBpTest : public ::testing::Test {
 protected:
  void SetUp() override { OpenPrefix(); }
  void OpenPrefix() {
    auto prefix = Prefix::Open(disk_, kPrefix);
    ASSERT_OK(prefix);
    prefix_ = *std::move(prefix);
  }
  void Write(std::uint32_t steps, bool close = true) {
    GrowingBp5 job(disk_, kFrom);
    ASSERT_OK(job.Create());
    for (std::uint32_t i = 0; i < steps; ++i) ASSERT_OK(job.Step());
    if (close) {
      ASSERT_OK(job.Close());
    }
  }
  absl::StatusOr<AdoptedBp> Adopt(std::optional<std::uint64_t> step = {}) {
    notes_.clear();
    return AdoptBp(disk_, *prefix_,
                   {.directory = kFrom, .step = step, .note = [this](const std::string& text) { notes_ += text; }});
  }
  std::map<DatasetId, CommittedDataset> Committed() {
    const auto committed = prefix_->Committed();
    EXPECT_OK(committed);
    return committed.value_or(std::map<DatasetId, CommittedDataset>());
  }
  std::string Read(const std::string& path) { return ReadWhole(disk_, path, 1 << 30).value_or("nothing"); }

  FakeDisk disk_;
  std::unique_ptr<Prefix> prefix_;
  std::string notes_;
};

TEST_F(AdoptBpTest, BecomesACommittedOutputUnderItsName) {
  Write(4);
  ASSERT_OK(CreateFileOnce(disk_, std::string(kFrom) + "/profiling.json", "[]"));
  ASSERT_OK_AND_ASSIGN(const AdoptedBp adopted, Adopt());
  EXPECT_EQ(adopted.name, "fields.bp");
  EXPECT_EQ(adopted.steps, 4u);
  EXPECT_EQ(adopted.step, 4u);
  EXPECT_EQ(adopted.files, 6u);
  EXPECT_FALSE(adopted.before || adopted.closed);
  const auto committed = Committed();
  ASSERT_TRUE(committed.contains(adopted.dataset));
  const scr::Descriptor& descriptor = committed.at(adopted.dataset).descriptor;
  EXPECT_TRUE(descriptor.output && descriptor.own_files && !descriptor.checkpoint);
  EXPECT_EQ(WholeSteps(disk_, kThere).value_or(0), 4u);
  for (const char* name : {"md.idx", "md.0", "mmd.0", "data.0", "data.1", "profiling.json"}) {
    EXPECT_TRUE(Read(std::string(kFrom) + "/" + name) == Read(std::string(kThere) + "/" + name)) << name;
  }
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix_->Catalogues(adopted.dataset));
  EXPECT_EQ(catalogues.at(0).file_size(), 6);
  for (const auto& file : catalogues[0].file()) {
    EXPECT_EQ(file.verified_by(), catalogue::NOTHING) << file.name() << ": BP5 has no checksums";
  }
  EXPECT_EQ(descriptor.unverified_files, 6u);
}

TEST_F(AdoptBpTest, IsTakenOnceAndAgainAfterARemoval) {
  Write(2);
  ASSERT_OK_AND_ASSIGN(const AdoptedBp first, Adopt(7));
  EXPECT_EQ(first.step, 7u);
  ASSERT_OK_AND_ASSIGN(const AdoptedBp again, Adopt(7));
  EXPECT_TRUE(again.before);
  EXPECT_EQ(again.dataset, first.dataset);
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix_->Catalogues(first.dataset));
  ASSERT_OK(prefix_->Remove(first.dataset, catalogues));
  ASSERT_OK_AND_ASSIGN(const AdoptedBp anew, Adopt(7));
  EXPECT_FALSE(anew.before);
  EXPECT_NE(anew.dataset, first.dataset);
}

TEST_F(AdoptBpTest, OneThatWasNeverClosedIsTakenUpToItsLastWholeStepAndClosed) {
  Write(3, /*close=*/false);
  const std::string path = std::string(kFrom) + "/data.1";
  ASSERT_OK(disk_.Open(path, {.writable = true}).value()->Truncate(Read(path).size() - 100));
  ASSERT_OK_AND_ASSIGN(const AdoptedBp adopted, Adopt());
  EXPECT_EQ(adopted.steps, 2u);
  EXPECT_TRUE(adopted.closed);
  EXPECT_NE(notes_.find("has not closed it"), std::string::npos) << notes_;
  EXPECT_NE(notes_.find("lack data"), std::string::npos) << notes_;
  EXPECT_EQ(WholeSteps(disk_, kThere).value_or(0), 2u);
  EXPECT_FALSE(IsActive(disk_, kThere));
  EXPECT_TRUE(IsActive(disk_, kFrom));  // nothing is changed there
}

TEST_F(AdoptBpTest, AClosedOneWithoutAllDataIsRefused) {
  Write(3);
  const std::string path = std::string(kFrom) + "/data.0";
  ASSERT_OK(disk_.Open(path, {.writable = true}).value()->Truncate(100));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Adopt(), "step 0 is not all there");
  EXPECT_TRUE(Committed().empty());
}

TEST_F(AdoptBpTest, AClosedOneThatEndsEarlyIsRefused) {
  Write(3);
  const std::string path = std::string(kFrom) + "/md.idx";
  ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Info(path));
  ASSERT_OK(disk_.Open(path, {.writable = true}).value()->Truncate(info.bytes - 1));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Adopt(), "steps are missing");
  EXPECT_TRUE(Committed().empty());
}

TEST_F(AdoptBpTest, WithoutStepsOrMetadataNothingIsTaken) {
  EXPECT_STATUS(absl::StatusCode::kNotFound, Adopt(), "");
  Write(0);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Adopt(), "no step");
  EXPECT_TRUE(Committed().empty());
}

TEST_F(AdoptBpTest, ADirectoryOfTheNameIsNotReplaced) {
  Write(1);
  GrowingBp5 other(disk_, kThere, 9);
  ASSERT_OK(other.Create());
  ASSERT_OK(other.Step());
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists, Adopt(), "move it away");
  EXPECT_EQ(TagOf(disk_, kThere, 0), 9001u);
}

TEST_F(AdoptBpTest, WhatIsNotPartOfItIsLeftOut) {
  Write(1);
  ASSERT_OK(CreateFileOnce(disk_, std::string(kFrom) + "/notes.txt", "mine"));
  ASSERT_OK(Adopt());
  EXPECT_NE(notes_.find("notes.txt"), std::string::npos);
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(std::string(kThere) + "/notes.txt"), "");
}

TEST_F(AdoptBpTest, ACrashLeavesAllOrNothing) {
  Write(2);
  for (std::uint64_t n = 1;; ++n) {
    FakeDisk disk;
    GrowingBp5 job(disk, kFrom);
    ASSERT_OK(job.Create());
    ASSERT_OK(job.Step());
    ASSERT_OK(job.Close());
    {
      const auto prefix = Prefix::Open(disk, kPrefix);
      ASSERT_OK(prefix);
      disk.SyncAll();
      disk.CrashAt(n);
      if (AdoptBp(disk, **prefix, {.directory = kFrom, .step = {}, .note = [](const std::string&) {}}).ok()) break;
    }
    disk.Restart(n);
    const auto prefix = Prefix::Open(disk, kPrefix);
    ASSERT_OK(prefix);
    const auto before = (*prefix)->Committed();
    ASSERT_OK(before);
    if (!before->empty()) {
      EXPECT_EQ(WholeSteps(disk, kThere).value_or(0), 1u) << n;
    }
    ASSERT_OK(AdoptBp(disk, **prefix, {.directory = kFrom, .step = {}, .note = [](const std::string&) {}})) << n;
    EXPECT_EQ(WholeSteps(disk, kThere).value_or(0), 1u) << n;
    EXPECT_EQ((*prefix)->Committed()->size(), 1u) << n;
    if (HasFailure()) return;
  }
}

// --- Its launch ---

TEST_F(AdoptBpTest, IsCommittedUnderALaunchOfItsOwnThatEndsAtOnce) {
  Write(2);
  ASSERT_OK_AND_ASSIGN(const AdoptedBp adopted, Adopt());
  ASSERT_OK_AND_ASSIGN(const auto launch, prefix_->NewestLaunch());
  ASSERT_TRUE(launch.has_value());
  EXPECT_TRUE(launch->key.starts_with("adopt:"));
  EXPECT_EQ(launch->nranks, 1u);
  ASSERT_OK_AND_ASSIGN(
      const auto commit,
      ReadTree(disk_, prefix_->FilePath(fmt::format(".scr/scr.dataset.{}/commit.cairn", adopted.dataset))));
  EXPECT_EQ(*commit.GetUnsigned("COMMITTER"), launch->id);
  EXPECT_EQ(Committed().at(adopted.dataset).descriptor.launch, 0u);
  ASSERT_OK_AND_ASSIGN(const auto lease, prefix_->FindLease(launch->id));
  ASSERT_TRUE(lease && lease->record);
  EXPECT_EQ(lease->record->state, LeaseRecord::State::kEnded);
  EXPECT_EQ(prefix_->ReserveIds(0)->first, adopted.dataset + 1);
  ASSERT_OK_AND_ASSIGN(const AdoptedBp again, Adopt());
  EXPECT_TRUE(again.before);
  EXPECT_EQ((*prefix_->NewestLaunch())->id, launch->id);
}

TEST_F(AdoptBpTest, WhileAnApplicationMayWorkThereNothingIsMade) {
  Write(2);
  ASSERT_OK(prefix_->MakeLaunch({.key = "job", .nranks = 1, .run = {}, .maker = {"c0ffee", "node7", 42}}));
  LeaseRecord lease;
  lease.launch = 1;
  lease.cache = "c0ffee";
  lease.host = "node7";
  lease.pid = 42;
  lease.term_ms = 120'000;
  ASSERT_OK(prefix_->MakeLease(lease));
  const AdoptBpRequest request{
      .directory = kFrom, .step = {}, .note = [](const std::string&) {}, .wait = {.at_most = {}}};
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, AdoptBp(disk_, *prefix_, request), "BUSY");
  EXPECT_EQ((*prefix_->NewestLaunch())->id, 1u);
  EXPECT_FALSE(disk_.Info(kThere).ok());
  EXPECT_TRUE(Committed().empty());
}

TEST_F(AdoptBpTest, WhenAnApplicationTakesOverMeanwhileNothingIsLeft) {
  Write(2);
  bool other = false;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kWrite || other || path.find("/adopting/") == std::string::npos) return;
    other = true;
    EXPECT_OK(prefix_->MakeLaunch({.key = "job", .nranks = 1, .run = {}, .maker = {"c0ffee", "node7", 42}}));
  });
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Adopt(), "another launch was made while this was adopted");
  disk_.SetHook({});
  ASSERT_TRUE(other);
  ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix_->Contents());
  EXPECT_TRUE(contents.datasets.empty());
  EXPECT_TRUE(contents.fenced.empty());
  EXPECT_FALSE(disk_.Info(std::string(kThere) + "/md.idx").ok());
  ASSERT_OK_AND_ASSIGN(const auto lease, prefix_->FindLease(1));
  EXPECT_EQ(lease->record->state, LeaseRecord::State::kEnded);
}

}  // namespace
}  // namespace cairn
