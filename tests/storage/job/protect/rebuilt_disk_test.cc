// Lost files, read from what the others of the set have: whoever is lost, the bytes are there; what is damaged is
// named.
#include "storage/job/protect/rebuilt_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/format/kvtree/tree.h"
#include "tests/storage/file/redundancy/scr_cache.h"
#include "tests/storage/job/protect/four_ranks.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

class RebuiltDiskTest : public ::testing::Test {
 protected:
  // All four keep what they keep, each on its node.
  void Protect(scr::Scheme scheme) {
    set_ = testing::FourRanks(disk_, scheme);
    kept_.clear();
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const std::string records = "/node" + std::to_string(rank) + "/scr.dataset.1/.scr";
      ASSERT_OK(MakeDirectories(disk_, records));
      KeptFile kept{.disk = &disk_, .path = {}, .sums = {}};
      ASSERT_OK_AND_ASSIGN(kept.sums,
                           WriteRedundancy(disk_, records, scr::RedsetKind::kData, set_, rank, throttle_, progress_));
      kept.path = records + "/" + kept.sums.name();
      ASSERT_OK(kvtree::Decode(kept.path, testing::GetBytes(disk_, kept.path), &kept.header_bytes).status());
      kept_.push_back(kept);
    }
  }
  // As those who are left know it.
  std::vector<RebuildSource> Without(const std::set<std::uint32_t>& lost) {
    std::vector<RebuildSource> sources;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      RebuildSource source{.files = set_[rank], .kept = kept_[rank]};
      if (lost.contains(rank)) {
        source.files.disk = nullptr;
        source.files.sums.clear();
        source.kept.reset();
      }
      sources.push_back(std::move(source));
    }
    return sources;
  }
  absl::StatusOr<std::unique_ptr<Disk>> Make(std::vector<RebuildSource> sources, std::uint32_t member) {
    return MakeRebuiltDisk(std::move(sources), member, throttle_, progress_);
  }
  // By way of what brings files from any disk.
  absl::Status Bring(Disk& from, std::uint32_t member, const std::string& to) {
    std::vector<CopyJob> jobs;
    for (std::size_t i = 0; i < 3; ++i) {
      jobs.push_back(
          {.from = set_[member].paths[i], .to = to + "/" + std::to_string(i), .entry = &set_[member].sums[i]});
    }
    std::size_t damaged = 0;
    return CopyFiles(from, disk_, jobs, throttle_, progress_, &damaged);
  }
  void ExpectBrought(const std::set<std::uint32_t>& lost, std::uint32_t member) {
    SCOPED_TRACE(::testing::Message() << "member " << member << " of " << ::testing::PrintToString(lost));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Disk> disk, Make(Without(lost), member));
    ASSERT_OK(RemoveTree(disk_, "/new"));
    ASSERT_OK(Bring(*disk, member, "/new"));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(testing::GetBytes(disk_, "/new/" + std::to_string(i)), testing::GetBytes(disk_, set_[member].paths[i]));
    }
  }

  FakeDisk disk_;
  Throttle throttle_{0};
  TransferProgress progress_;
  std::vector<ProtectSource> set_;
  std::vector<KeptFile> kept_;
};

TEST_F(RebuiltDiskTest, WhoeverIsLostItsFilesAreThere) {
  for (const scr::Scheme scheme : {scr::Scheme::kPartner, scr::Scheme::kXor, scr::Scheme::kRs}) {
    ASSERT_NO_FATAL_FAILURE(Protect(scheme));
    for (std::uint32_t lost = 0; lost < 4; ++lost) ExpectBrought({lost}, lost);
  }
}

TEST_F(RebuiltDiskTest, TwoChecksumsBearAnyTwoLosses) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kRs));
  for (std::uint32_t one = 0; one < 4; ++one) {
    for (std::uint32_t other = 0; other < one; ++other) ExpectBrought({one, other}, one);
  }
}

TEST_F(RebuiltDiskTest, ACopyBearsALossBesideAnother) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kPartner));
  ExpectBrought({0, 2}, 0);
  ExpectBrought({0, 2}, 2);
  EXPECT_STATUS(kDataLoss, Make(Without({1, 2}), 1), "lost");
}

TEST_F(RebuiltDiskTest, WhatTheSchemeDoesNotBearIsSaidAtOnce) {
  for (const auto& [scheme, lost] :
       {std::pair{scr::Scheme::kXor, std::set<std::uint32_t>{0, 3}}, {scr::Scheme::kRs, {0, 1, 3}}}) {
    ASSERT_NO_FATAL_FAILURE(Protect(scheme));
    const std::uint64_t before = progress_.bytes_done;
    EXPECT_STATUS(kDataLoss, Make(Without(lost), 0), "lost");
    EXPECT_EQ(progress_.bytes_done, before);
  }
}

TEST_F(RebuiltDiskTest, WhatIsDamagedIsNamedAndWithoutItTheRestIsEnough) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kRs));
  disk_.FlipBit(kept_[2].path, 8 * (kept_[2].header_bytes + 1000));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Disk> disk, Make(Without({0}), 0));
  const absl::Status brought = Bring(*disk, 0, "/new");
  EXPECT_EQ(brought.code(), kDataLoss);
  EXPECT_THAT(brought.ToString(), HasSubstr(kept_[2].path));
  // Its own files are good, and there is another checksum.
  std::vector<RebuildSource> rest = Without({0});
  rest[2].kept.reset();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Disk> again, Make(rest, 0));
  EXPECT_OK(Bring(*again, 0, "/new"));
}

TEST_F(RebuiltDiskTest, BytesOfAnotherDatasetDoNotGetThrough) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kXor));
  // A payload that is sound, and not this set's.
  const std::string path = "/other";
  std::string bytes = testing::GetBytes(disk_, kept_[2].path);
  bytes[kept_[2].header_bytes + 77] ^= 1;
  testing::PutBytes(disk_, path, bytes);
  std::vector<RebuildSource> sources = Without({0});
  ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Info(path));
  ASSERT_OK(ChecksumFile(disk_, path, info, false, &sources[2].kept->sums));
  sources[2].kept->path = path;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Disk> disk, Make(sources, 0));
  EXPECT_STATUS(kDataLoss, Bring(*disk, 0, "/new"), set_[0].paths[0]);
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info("/new/0"), "/new/0");
}

TEST_F(RebuiltDiskTest, NumbersThatContradictEachOtherAreRefused) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kXor));
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_STATUS(kInvalid, Make(Without({0}), 1), "names");  // it is not lost
  EXPECT_STATUS(kInvalid, Make(Without({0}), 4), "4");
  std::vector<RebuildSource> sources = Without({0});
  sources[1].kept->header_bytes += 1;
  EXPECT_STATUS(kInvalid, Make(sources, 0), kept_[1].path);
  sources = Without({0});
  sources[1].kept->header_bytes = sources[1].kept->sums.bytes() + 1;
  EXPECT_STATUS(kInvalid, Make(sources, 0), "header");
  sources = Without({0});
  sources[0].files.paths.pop_back();
  EXPECT_STATUS(kInvalid, Make(sources, 0), "2 names for 3 lost files");
  sources = Without({0});
  sources.pop_back();
  EXPECT_STATUS(kInvalid, Make(sources, 0), "of a set of 3");
}

TEST_F(RebuiltDiskTest, ItIsADiskOfTheseFilesAndIsOnlyRead) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kXor));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Disk> disk, Make(Without({2}), 2));
  const std::string& path = set_[2].paths[2];
  ASSERT_OK_AND_ASSIGN(const FileInfo info, disk->Info(path));
  EXPECT_EQ(info.bytes, 12'345u);
  EXPECT_TRUE(info.is_regular());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> file, disk->Open(path, {}));
  std::vector<std::byte> bytes(100);
  EXPECT_OK(file->ReadAt(12'245, bytes));
  EXPECT_STATUS(kDataLoss, file->ReadAt(12'246, bytes), path);
  EXPECT_STATUS(absl::StatusCode::kPermissionDenied, disk->Open(path, {.writable = true}), "only read");
  EXPECT_STATUS(absl::StatusCode::kPermissionDenied, file->WriteAt(0, bytes), "only read");
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk->Open(set_[1].paths[0], {}), set_[1].paths[0]);
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk->Info("/node2"), "/node2");
}

}  // namespace
}  // namespace cairn
