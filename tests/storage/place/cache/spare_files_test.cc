// Which redundancy files of a dataset that has left are kept to be written over.
#include "storage/place/cache/spare_files.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/format/scr/redset_records.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr char kRun[] = "/ssd/scr.run", kRecords[] = "/ssd/scr.run/scr.dataset.7/.scr";

class SpareFilesTest : public ::testing::Test {
 protected:
  SpareFilesTest() {
    EXPECT_OK(MakeDirectories(disk_, kRecords));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const scr::SetDescriptor set{.scheme = scr::Scheme::kPartner,
                                   .groups = 1,
                                   .group = 0,
                                   .ranks = 2,
                                   .rank = rank,
                                   .world_ranks = 2,
                                   .world_rank = rank,
                                   .replicas = 1,
                                   .checksums = 0};
      data_.push_back(Put(scr::FileNameOf(scr::HeaderNameOf(scr::RedsetKind::kData, set)), 5000 + rank));
      others_.push_back(Put(scr::FileNameOf(scr::HeaderNameOf(scr::RedsetKind::kFilemaps, set)), 5000));
    }
    for (const char* name : {"redundancy.cairn", "filemap_0", "reddesc.er.0.redset", "reddesc.er.x"}) {
      others_.push_back(Put(name, 5000));
    }
  }
  std::string Put(const std::string& name, std::size_t bytes) {
    std::string path = std::string(kRecords) + "/" + name;
    EXPECT_OK(ReplaceFile(disk_, path, std::string(bytes, 'x')));
    return path;
  }
  std::vector<SpareFile> Take(std::uint64_t bytes_max) { return TakeSpareFiles(disk_, kRun, kRecords, bytes_max); }

  FakeDisk disk_;
  std::vector<std::string> data_, others_;
};

TEST_F(SpareFilesTest, ThoseOfDataAreMovedAndTheNextStartTakesThemForWorkFiles) {
  const std::vector<SpareFile> taken = Take(1 << 20);
  ASSERT_EQ(taken.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(taken[i].bytes, 5000 + i);
    EXPECT_EQ(ParentOf(taken[i].path), kRun);
    EXPECT_TRUE(IsWorkName(BaseOf(taken[i].path)));
    ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Info(taken[i].path));
    EXPECT_EQ(info.bytes, 5000 + i);
    EXPECT_EQ(disk_.Info(data_[i]).status().code(), absl::StatusCode::kNotFound);
  }
  for (const std::string& other : others_) EXPECT_OK(disk_.Info(other).status());
}

TEST_F(SpareFilesTest, NotMoreThanThereIsRoomFor) {
  EXPECT_EQ(Take(4999).size(), 0u);
  EXPECT_EQ(Take(10'000).size(), 1u);
  EXPECT_EQ(Take(10'000).size(), 1u);
}

TEST_F(SpareFilesTest, WhatSomebodyMayStillReadOrIsNotWorthItStays) {
  ASSERT_OK(disk_.Link(data_[0], "/ssd/somebodys"));
  ASSERT_OK(ReplaceFile(disk_, data_[1], std::string(kSpareBytesMin - 1, 'x')));
  EXPECT_EQ(Take(1 << 20).size(), 0u);
  ASSERT_OK(disk_.Remove(data_[1]));
  ASSERT_OK(disk_.Symlink("/ssd/somebodys", data_[1]));
  EXPECT_EQ(Take(1 << 20).size(), 0u);
}

TEST_F(SpareFilesTest, WhatCannotBeMovedStays) {
  FakeFault fault;
  fault.op = FakeOp::kRename;
  fault.path_part = BaseOf(data_[0]);
  disk_.FailOn(fault);
  EXPECT_EQ(Take(1 << 20).size(), 1u);
  EXPECT_OK(disk_.Info(data_[0]).status());
  EXPECT_TRUE(TakeSpareFiles(disk_, kRun, "/ssd/nowhere", 1 << 20).empty());
}

}  // namespace
}  // namespace cairn
