// Members as their nodes' records have them, and four of them protected and rebuilt as whole parts of a dataset.
#include "storage/job/protect/member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "storage/format/catalogue/catalogue.h"
#include "storage/format/kvtree/tree.h"
#include "storage/job/protect/rebuilt_disk.h"
#include "storage/place/cache/dataset_folder.h"
#include "tests/storage/file/redundancy/scr_cache.h"
#include "tests/storage/place/cache/cache_folder_fixture.h"

namespace cairn {
namespace {

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

class MemberTest : public CacheFolderTest {
 protected:
  void SetUp() override {
    folder_ = Open();
    ASSERT_NE(folder_, nullptr);
    ASSERT_OK(WriteDataset(*folder_, 7, 4));
  }
  MemberPlace PlaceOf(Rank rank) {
    return {.disk = &disk_,
            .folder = Folder(),
            .run = TestRun(),
            .descriptor = TestDescriptor(7, 4),
            .set = {.scheme = scr::Scheme::kXor,
                    .groups = 1,
                    .group = 0,
                    .ranks = 4,
                    .rank = rank,
                    .world_ranks = 4,
                    .world_rank = rank}};
  }
  std::string Folder() { return ParentOf(folder_->WorkPath(7, 0)); }

  std::unique_ptr<CacheFolder> folder_;
};

TEST_F(MemberTest, HasItsFilesAndThenItsCatalogue) {
  ASSERT_OK_AND_ASSIGN(const ProtectSource data, ReadMember(PlaceOf(2), scr::RedsetKind::kData));
  ASSERT_EQ(data.paths.size(), 2u);
  EXPECT_EQ(data.paths[0], Folder() + "/" + CheckpointFileName(7, 2));
  EXPECT_EQ(data.paths[1], Folder() + "/" + CatalogueName(2));
  EXPECT_EQ(data.member.files[0].first, data.paths[0]) << "here both are the same disk";
  EXPECT_EQ(data.member.files[0].second.bytes, 5002u);
  EXPECT_NE(data.member.files[0].second.mode, 0u);
  EXPECT_EQ(data.member.descriptor.rank, 2u);
  ASSERT_OK_AND_ASSIGN(const ProtectSource maps, ReadMember(PlaceOf(2), scr::RedsetKind::kFilemaps));
  ASSERT_EQ(maps.paths.size(), 1u);
  EXPECT_EQ(maps.paths[0], Folder() + "/.scr/filemap_2");
  EXPECT_EQ(maps.member.bytes(), testing::GetBytes(disk_, maps.paths[0]).size());
}

// SCR's records are those of SINGLE otherwise: the same files, in the same order, with the same META.
TEST_F(MemberTest, ListsWhatScrsRecordsList) {
  for (const scr::RedsetKind kind : {scr::RedsetKind::kData, scr::RedsetKind::kFilemaps}) {
    ASSERT_OK_AND_ASSIGN(const ProtectSource source, ReadMember(PlaceOf(1), kind));
    const auto made = scr::MakeRankRecords(kind, scr::SingleHeader(1, 4, source.member.files));
    EXPECT_EQ(kvtree::Encode(made[1].second), testing::GetBytes(disk_, Folder() + "/.scr/" + made[1].first));
  }
}

TEST_F(MemberTest, WhatIsMissingOrOfAnotherIsDataLoss) {
  MemberPlace other = PlaceOf(1);
  other.run = TestRun(9);
  EXPECT_STATUS(kDataLoss, ReadMember(other, scr::RedsetKind::kData), "run");
  other = PlaceOf(1);
  other.descriptor.id = 8;
  EXPECT_STATUS(kDataLoss, ReadMember(other, scr::RedsetKind::kData), CatalogueName(1));
  disk_.FlipBit(Folder() + "/.scr/filemap_1", 400);
  EXPECT_STATUS(kDataLoss, ReadMember(PlaceOf(1), scr::RedsetKind::kData), "filemap_1");
  ASSERT_OK(disk_.Remove(Folder() + "/.scr/filemap_2"));
  EXPECT_STATUS(kDataLoss, ReadMember(PlaceOf(2), scr::RedsetKind::kFilemaps), "filemap_2: missing");
  ASSERT_OK(disk_.Remove(Folder() + "/" + CheckpointFileName(7, 3)));
  EXPECT_STATUS(kDataLoss, ReadMember(PlaceOf(3), scr::RedsetKind::kData), CheckpointFileName(7, 3));
}

// What a rank has lost comes back from what the others keep, catalogue and filemap, too: it is read like any rank's.
TEST_F(MemberTest, ARankThatIsLostIsReadFromTheOthers) {
  Throttle throttle(0);
  TransferProgress progress;
  constexpr Rank kLost = 2;

  for (const scr::RedsetKind kind : {scr::RedsetKind::kData, scr::RedsetKind::kFilemaps}) {
    std::vector<ProtectSource> set;
    for (Rank rank = 0; rank < 4; ++rank) {
      ASSERT_OK_AND_ASSIGN(ProtectSource source, ReadMember(PlaceOf(rank), kind));
      set.push_back(std::move(source));
    }
    std::vector<RebuildSource> left;
    for (Rank rank = 0; rank < 4; ++rank) {
      left.push_back({.files = set[rank], .kept = {}});
      if (rank == kLost) continue;
      KeptFile kept{.disk = &disk_, .path = {}, .sums = {}};
      ASSERT_OK_AND_ASSIGN(kept.sums, WriteRedundancy(disk_, Folder() + "/.scr", kind, set, rank, throttle, progress));
      kept.path = Folder() + "/.scr/" + kept.sums.name();
      ASSERT_OK(kvtree::Decode(kept.path, testing::GetBytes(disk_, kept.path), &kept.header_bytes).status());
      left.back().kept = kept;
    }
    left[kLost].files.disk = nullptr;
    left[kLost].files.sums.clear();
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Disk> disk, MakeRebuiltDisk(left, kLost, throttle, progress));
    for (const std::string& path : set[kLost].paths) {
      const std::string before = testing::GetBytes(disk_, path);
      ASSERT_OK_AND_ASSIGN(const std::string rebuilt, ReadWhole(*disk, path, 1 << 20));
      EXPECT_EQ(rebuilt, before) << path;
    }
    if (kind == scr::RedsetKind::kFilemaps) continue;
    EXPECT_OK(ReadRank(*disk, Folder(), TestRun(), TestDescriptor(7, 4), kLost).status());
  }
}

}  // namespace
}  // namespace cairn
