// What `verify` finds: of files, of those of one folder, and of a prefix.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "storage/job/verify/verify_files.h"
#include "storage/job/verify/verify_prefix.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/storage/place/prefix/shown.h"

namespace cairn::verify {
namespace {

using absl::StatusCode;
using ftiff::testing::FileOf;
using ftiff::testing::MixedLayout;

constexpr char kFolder[] = "/fti";

class VerifyTest : public testing::Test {
 protected:
  VerifyTest() : files_(disk_, report_) { EXPECT_OK(disk_.MakeDirectory(kFolder, 0755)); }

  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = std::string(kFolder) + "/" + name;
    EXPECT_OK(WriteTestFile(disk_, path, bytes));
    return path;
  }
  const Finding& VerifyOne(const std::string& name, const std::string& bytes) {
    files_.Verify(Write(name, bytes));
    return found_.back();
  }
  const std::vector<Finding>& VerifyDemo(DatasetId wanted = 0) {
    found_.clear();
    VerifyPrefix(disk_, kShownPath, wanted, report_);
    return found_;
  }
  void CommitDemo(DatasetId id) {
    auto prefix = Prefix::Open(disk_, kShownPath);
    ASSERT_OK(prefix.status());
    ASSERT_OK(CommitShown(disk_, **prefix, ShownDataset((*prefix)->run(), id)));
  }
  void FlipByte(const std::string& path, std::uint64_t offset) {
    ASSERT_OK_AND_ASSIGN(const auto file, disk_.Open(path, {.writable = true}));
    std::byte byte{};
    ASSERT_OK(file->ReadAt(offset, {&byte, 1}));
    byte ^= std::byte{1};
    ASSERT_OK(file->WriteAt(offset, {&byte, 1}));
  }

  FakeDisk disk_;
  std::vector<Finding> found_;
  const Report report_ = [this](const Finding& finding) { found_.push_back(finding); };
  FileVerifier files_;
};

TEST_F(VerifyTest, AWholeCheckpointFileIsDescribed) {
  const Finding& finding = VerifyOne("Ckpt3-Rank0.fti", FileOf(MixedLayout(), {.checkpoint_id = 3}));
  EXPECT_OK(finding.status);
  const auto& file = std::get<CheckedCheckpoint>(finding.what);
  EXPECT_EQ(file.letter, ftiff::Letter::kF);
  EXPECT_EQ(file.id, 3);
  EXPECT_EQ(file.containers, MixedLayout().containers.size());
  EXPECT_TRUE(file.data_read);
  EXPECT_TRUE(file.bad.empty());
}

TEST_F(VerifyTest, ADamagedChunkIsNamedWithoutTheFile) {
  std::string bytes = FileOf(MixedLayout(), {.checkpoint_id = 3});
  bytes[MixedLayout().containers[0].file_offset] ^= 1;
  const Finding& finding = VerifyOne("Ckpt3-Rank0.fti", bytes);
  EXPECT_EQ(finding.status.code(), StatusCode::kDataLoss);
  const auto& file = std::get<CheckedCheckpoint>(finding.what);
  ASSERT_EQ(file.bad.size(), 1u);
  EXPECT_EQ(file.bad[0].container.id, MixedLayout().containers[0].id);
  EXPECT_EQ(file.bad[0].why.find(kFolder), std::string::npos);
}

TEST_F(VerifyTest, ANameThatContradictsItsContentIsDamage) {
  const std::string bytes = FileOf(MixedLayout(), {.checkpoint_id = 3});
  EXPECT_STATUS(StatusCode::kDataLoss, VerifyOne("Ckpt4-Rank0.fti", bytes).status, "ckptId is 3, expected 4");
  const std::string code = ftiff::testing::CodeFileOf(ftiff::Letter::kF, std::string(200, 'p'), 192);
  EXPECT_STATUS(StatusCode::kDataLoss, VerifyOne("Ckpt3-Rank1.fti", code).status, "name is that of a checkpoint file");
}

TEST_F(VerifyTest, SeveralCheckpointsInAFolderNeedOneWithAllRanks) {
  const auto write = [&](int id, int rank) {
    VerifyOne(fmt::format("Ckpt{}-Rank{}.fti", id, rank), FileOf(MixedLayout(), {.checkpoint_id = id}));
  };
  write(3, 0);
  write(3, 1);
  write(4, 0);
  files_.CompareRanks();
  EXPECT_OK(found_.back().status);
  EXPECT_FALSE(std::get<CheckedRanks>(found_.back().what).alike);
  write(4, 2);
  files_.CompareRanks();
  EXPECT_STATUS(StatusCode::kDataLoss, found_.back().status, "none of these has all ranks");
  EXPECT_EQ(found_.back().target, kFolder);
  const auto& ranks = std::get<CheckedRanks>(found_.back().what).ranks;
  EXPECT_THAT(ranks.at(4), testing::ElementsAre(0, 2));
}

TEST_F(VerifyTest, ADatasetIsOneFindingIfAllOfItIsRight) {
  CommitDemo(3);
  CommitDemo(4);
  ASSERT_EQ(VerifyDemo().size(), 2u);
  EXPECT_OK(found_[1].status);
  EXPECT_EQ(found_[1].target, kShownPath);
  EXPECT_EQ(found_[1].dataset, 4u);
  const auto& dataset = std::get<CheckedDataset>(found_[1].what);
  EXPECT_EQ(dataset.ranks, 2u);
  EXPECT_EQ(dataset.files, 2u);
  EXPECT_GT(dataset.bytes, 0u);
  EXPECT_EQ(VerifyDemo(3).size(), 1u);
  EXPECT_STATUS(StatusCode::kNotFound, VerifyDemo(9).front().status, "no dataset 9");
}

TEST_F(VerifyTest, EveryDamagedFileOfADatasetIsAFinding) {
  CommitDemo(3);
  FlipByte(std::string(kShownPath) + "/ckpt.3/Ckpt3-Rank0.fti", 5);
  ASSERT_OK(disk_.Remove(std::string(kShownPath) + "/ckpt.3/Ckpt3-Rank1.fti"));
  VerifyDemo();
  ASSERT_EQ(found_.size(), 2u);
  EXPECT_STATUS(StatusCode::kDataLoss, found_[0].status, "Ckpt3-Rank0.fti");
  EXPECT_STATUS(StatusCode::kDataLoss, found_[1].status, "Ckpt3-Rank1.fti") << "committed, yet gone: that is damage";
  EXPECT_EQ(found_[1].dataset, 3u);
}

TEST_F(VerifyTest, WhatIsRemovedWhileItIsLookedAtIsNoDamage) {
  CommitDemo(3);
  CommitDemo(4);
  CommitDemo(5);
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk_, kShownPath));
  // Removes one of them at the first operation on this file of it.
  const auto verify_removing = [&](DatasetId id, const std::string& file, DatasetId wanted) {
    const std::string when = fmt::format("{}/ckpt.{}/{}", kShownPath, id, file);
    const auto catalogues = prefix->Catalogues(id);
    ASSERT_OK(catalogues.status());
    bool begun = false;
    disk_.SetHook([&](FakeOp, const std::string& path) {
      if (path != when || std::exchange(begun, true)) return;
      EXPECT_OK(prefix->Remove(id, *catalogues));
    });
    VerifyDemo(wanted);
    disk_.SetHook({});
    EXPECT_TRUE(begun);
    ASSERT_FALSE(found_.empty());
    EXPECT_EQ(found_[0].dataset, id);
    EXPECT_TRUE(std::holds_alternative<RemovedMeanwhile>(found_[0].what));
  };
  verify_removing(3, "rank_1.cat", 0);
  EXPECT_OK(found_[0].status);
  EXPECT_EQ(found_.size(), 3u);
  verify_removing(4, "Ckpt4-Rank1.fti", 0);
  EXPECT_OK(found_[0].status);
  EXPECT_EQ(found_.size(), 2u);
  verify_removing(5, "Ckpt5-Rank1.fti", 5);
  EXPECT_EQ(found_.size(), 1u);
  EXPECT_STATUS(StatusCode::kNotFound, found_[0].status, "removed while it was looked at") << "it was asked for";
}

TEST_F(VerifyTest, WhatARestartFailedOnIsToldAsSuch) {
  CommitDemo(3);
  {
    ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk_, kShownPath));
    ASSERT_OK(prefix->MarkFailed(3));
  }
  VerifyDemo();
  ASSERT_EQ(found_.size(), 1u);
  EXPECT_STATUS(StatusCode::kFailedPrecondition, found_[0].status, "a restart from it failed at");
  EXPECT_FALSE(std::get<CheckedDataset>(found_[0].what).failed.empty());
}

TEST_F(VerifyTest, ADirectoryWithFilesOfFtiIsNoPrefix) {
  Write("Ckpt3-Rank0.fti", FileOf(MixedLayout(), {.checkpoint_id = 3}));
  VerifyDirectory(disk_, kFolder, 0, files_, report_);
  ASSERT_EQ(found_.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<CheckedCheckpoint>(found_[0].what));
  ASSERT_OK(Prefix::Open(disk_, kShownPath).status());
  VerifyDirectory(disk_, kShownPath, 0, files_, report_);
  EXPECT_TRUE(std::holds_alternative<NothingCommitted>(found_.back().what));
}

}  // namespace
}  // namespace cairn::verify
