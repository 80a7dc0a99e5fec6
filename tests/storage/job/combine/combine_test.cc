// All checkpoints of a run as one directory.
#include "storage/job/combine/combine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/storage/place/prefix/shown.h"

namespace cairn::view {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kAll[] = "/pfs/all.bp";

class CombineTest : public testing::Test {
 protected:
  CombineTest() {
    auto opened = Prefix::Open(disk_, kShownPath);
    EXPECT_OK(opened.status());
    prefix_ = *std::move(opened);
  }
  void Commit(DatasetId id) { EXPECT_OK(CommitShown(disk_, *prefix_, ShownDataset(prefix_->run(), id, id % 2 == 0))); }

  FakeDisk disk_;
  std::unique_ptr<Prefix> prefix_;
};

TEST_F(CombineTest, EveryDatasetIsAStep) {
  for (const DatasetId id : {3, 4, 9}) Commit(id);
  ASSERT_OK_AND_ASSIGN(const Combined combined, CombineRun(disk_, *prefix_, kAll));
  ASSERT_EQ(combined.steps.size(), 3u);
  EXPECT_EQ(combined.steps[2].dataset, 9u);
  EXPECT_EQ(combined.steps[2].step, 90u);
  EXPECT_THAT(combined.left_out, IsEmpty());
  ExpectShown(disk_, 3, kAll, 0);
  ExpectShown(disk_, 4, kAll, 1);
  ExpectShown(disk_, 9, kAll, 2);
  ASSERT_OK_AND_ASSIGN(const std::string target, disk_.ReadLink("/pfs/all.bp/data.5"));
  EXPECT_EQ(target, "../demo/ckpt.9/Ckpt9-Rank1.fti");
}

TEST_F(CombineTest, LinksAreRelativeFromWhereverItIs) {
  Commit(2);
  ASSERT_OK(CombineRun(disk_, *prefix_, "/pfs/demo/all.bp").status());
  EXPECT_EQ(*disk_.ReadLink("/pfs/demo/all.bp/data.0"), "../ckpt.2/Ckpt2-Rank0.fti");
  ASSERT_OK(disk_.MakeDirectory("/home", 0777));
  ASSERT_OK(CombineRun(disk_, *prefix_, "/home/all.bp").status());
  EXPECT_EQ(*disk_.ReadLink("/home/all.bp/data.0"), "/pfs/demo/ckpt.2/Ckpt2-Rank0.fti");
}

TEST_F(CombineTest, MadeAgainItHasWhatIsNew) {
  Commit(2);
  ASSERT_OK(CombineRun(disk_, *prefix_, kAll).status());
  Commit(3);
  ASSERT_OK_AND_ASSIGN(const Combined combined, CombineRun(disk_, *prefix_, kAll));
  EXPECT_EQ(combined.steps.size(), 2u);
  ExpectShown(disk_, 3, kAll, 1);
}

TEST_F(CombineTest, SomeDatasetsAlone) {
  for (const DatasetId id : {2, 3, 4}) Commit(id);
  ASSERT_OK_AND_ASSIGN(const Combined combined, CombineRun(disk_, *prefix_, kAll, std::set<DatasetId>{2, 4}));
  ASSERT_EQ(combined.steps.size(), 2u);
  ExpectShown(disk_, 4, kAll, 1);
  EXPECT_STATUS(absl::StatusCode::kNotFound, CombineRun(disk_, *prefix_, kAll, std::set<DatasetId>{2, 7}).status(),
                "dataset 7 is not committed");
}

TEST_F(CombineTest, WhatCannotBeShownIsLeftOutWithTheReason) {
  for (const DatasetId id : {1, 2}) Commit(id);
  ASSERT_OK(disk_.Remove("/pfs/demo/ckpt.1/Ckpt1-Rank0.fti"));
  scr::Descriptor descriptor = TestDescriptor(5, 1);
  descriptor.own_files = true;
  catalogue::Catalogue files = TestCatalogue(prefix_->run(), 5, 0, 1, "bytes");
  files.set_files(true);
  files.clear_variables();
  files.mutable_file(0)->set_prefix_name("out.dat");
  ASSERT_OK(WriteTestFile(disk_, "/pfs/demo/out.dat", "bytes"));
  ASSERT_OK(prefix_->Commit(descriptor, {files}));
  ASSERT_OK_AND_ASSIGN(const Combined combined, CombineRun(disk_, *prefix_, kAll));
  ASSERT_EQ(combined.steps.size(), 1u);
  ExpectShown(disk_, 2, kAll);
  ASSERT_EQ(combined.left_out.size(), 2u);
  EXPECT_EQ(combined.left_out[0].first, 1u);
  EXPECT_THAT(combined.left_out[0].second, HasSubstr("Ckpt1-Rank0.fti"));
  EXPECT_THAT(combined.left_out[1].second, HasSubstr("own files"));
}

TEST_F(CombineTest, NothingToShowIsToldAndMakesNothing) {
  EXPECT_STATUS(absl::StatusCode::kNotFound, CombineRun(disk_, *prefix_, kAll).status(), "no dataset is committed");
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(kAll), "");
}

TEST_F(CombineTest, NothingOfOthersIsReplaced) {
  Commit(2);
  const auto refused = [this](const std::string& path, const std::string& why) {
    EXPECT_STATUS(absl::StatusCode::kAlreadyExists, CombineRun(disk_, *prefix_, path).status(), why);
  };
  ASSERT_OK(WriteTestFile(disk_, "/pfs/file", "x"));
  refused("/pfs/file", "no directory");
  ASSERT_OK(disk_.MakeDirectory("/pfs/real.bp", 0777));
  for (const char* name : {"md.idx", "md.0", "mmd.0"}) {
    ASSERT_OK(WriteTestFile(disk_, std::string("/pfs/real.bp/") + name, "x"));
  }
  refused("/pfs/real.bp", "it has no links");
  ASSERT_OK(WriteTestFile(disk_, "/pfs/real.bp/data.0", "x"));
  refused("/pfs/real.bp", "data.0 is no link");
  ASSERT_OK(WriteTestFile(disk_, "/pfs/real.bp/profiling.json", "x"));
  EXPECT_FALSE(CombineRun(disk_, *prefix_, "/pfs/real.bp").ok());
  EXPECT_EQ(*ReadWhole(disk_, "/pfs/real.bp/md.idx", 10), "x");
}

TEST_F(CombineTest, AfterAPowerFailureThereIsAWholeDirectoryOrNone) {
  for (const DatasetId id : {2, 3}) Commit(id);
  disk_.SyncAll();
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE(fmt::format("power fails at operation {}", n));
    disk_.CrashAt(n);
    const bool made = CombineRun(disk_, *prefix_, kAll).ok();
    const bool crashed = disk_.crashed();
    disk_.Restart(n);
    const bool there = disk_.Info(std::string(kAll) + "/md.idx").ok();
    if (there) ExpectShown(disk_, 3, kAll, 1);
    EXPECT_TRUE(there || !made);
    if (!crashed) break;
  }
}

}  // namespace
}  // namespace cairn::view
