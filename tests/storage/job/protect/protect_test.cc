// The redundancy files of a set's members: byte for byte those that SCR made of the same files; and what is damaged
// gets into none.
#include "storage/job/protect/protect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/redset_records.h"
#include "tests/storage/file/redundancy/scr_cache.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kRecords[] = "/here/.scr";

class ProtectTest : public ::testing::Test {
 protected:
  ProtectTest() { EXPECT_OK(MakeDirectories(disk_, kRecords)); }

  absl::StatusOr<catalogue::FileEntry> Write(const std::vector<ProtectSource>& set, std::uint32_t member,
                                             scr::RedsetKind kind = scr::RedsetKind::kData) {
    return WriteRedundancy(disk_, kRecords, kind, set, member, throttle_, progress_);
  }

  // A file of the rank on its node.
  void AddFile(ProtectSource& source, const std::string& path, std::uint64_t seed, std::uint64_t bytes) {
    EXPECT_OK(MakeDirectories(disk_, ParentOf(path)));
    std::string content;
    for (std::uint64_t i = 0; i < bytes; ++i) content.push_back(static_cast<char>((i * 2654435761u + seed * 97) >> 7));
    testing::PutBytes(disk_, path, content);
    Note(source, path, path);
  }
  void Note(ProtectSource& source, const std::string& recorded, const std::string& path) {
    ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Info(path));
    catalogue::FileEntry sums;
    ASSERT_OK(ChecksumFile(disk_, path, info, false, &sums));
    scr::Meta meta;
    meta.bytes = info.bytes;
    source.disk = &disk_;
    source.member.files.emplace_back(recorded, meta);
    source.paths.push_back(path);
    source.sums.push_back(sums);
  }
  // Of four ranks, of some MiB that are no whole blocks.
  std::vector<ProtectSource> FourRanks(scr::Scheme scheme) {
    std::vector<ProtectSource> set(4);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      set[rank].member.descriptor = {.scheme = scheme,
                                     .groups = 1,
                                     .group = 0,
                                     .ranks = 4,
                                     .rank = rank,
                                     .world_ranks = 4,
                                     .world_rank = rank,
                                     .replicas = scheme == scr::Scheme::kPartner ? 1u : 0u,
                                     .checksums = scheme == scr::Scheme::kRs ? 2u : 0u};
      const std::string folder = "/node" + std::to_string(rank) + "/scr.dataset.1/";
      AddFile(set[rank], folder + "a.dat", rank, (3 << 20) + 1000 * rank);
      AddFile(set[rank], folder + "empty.dat", rank, 0);
      AddFile(set[rank], folder + "b.dat", rank + 10, 12'345);
    }
    return set;
  }
  std::vector<std::string> Made() { return testing::FilesBelow(disk_, kRecords); }

  FakeDisk disk_;
  Throttle throttle_{0};
  TransferProgress progress_;
};

TEST_F(ProtectTest, WhatIsAnsweredIsWhatIsThere) {
  for (const scr::Scheme scheme : {scr::Scheme::kPartner, scr::Scheme::kXor, scr::Scheme::kRs}) {
    const std::vector<ProtectSource> set = FourRanks(scheme);
    ASSERT_OK_AND_ASSIGN(const catalogue::FileEntry made, Write(set, 1));
    const std::string bytes = testing::GetBytes(disk_, std::string(kRecords) + "/" + made.name());
    EXPECT_EQ(made.bytes(), bytes.size());
    EXPECT_EQ(made.crc32(), Crc32(std::as_bytes(std::span(bytes))));
    std::uint64_t declared = 0;
    ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, kvtree::Decode(made.name(), bytes, &declared));
    ASSERT_OK_AND_ASSIGN(const scr::RedundancyHeader header, scr::GetRedundancyHeader(tree));
    EXPECT_EQ(header.scheme(), scheme);
    EXPECT_EQ(declared + header.payload_bytes(), bytes.size());
    EXPECT_EQ(header.members.at(0).files[2].first, "/node0/scr.dataset.1/b.dat");
  }
}

TEST_F(ProtectTest, ItIsThereAfterAPowerFailure) {
  ASSERT_OK_AND_ASSIGN(const catalogue::FileEntry made, Write(FourRanks(scr::Scheme::kXor), 3));
  const std::vector<std::string> before = Made();
  EXPECT_EQ(before.size(), 2u);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) disk_.Restart(seed);
  EXPECT_EQ(Made(), before);
  EXPECT_OK(VerifyFile(disk_, std::string(kRecords) + "/" + made.name(), made));
}

TEST_F(ProtectTest, ABlockThatIsDamagedGetsIntoNothing) {
  const std::vector<ProtectSource> set = FourRanks(scr::Scheme::kXor);
  const std::string& path = set[2].paths[0];
  std::string bytes = testing::GetBytes(disk_, path);
  bytes[(2 << 20) + 5] ^= 1;
  testing::PutBytes(disk_, path, bytes);
  int refused = 0;
  for (const std::uint32_t member : {0u, 1u, 3u}) {
    const auto made = Write(set, member);
    if (made.ok()) continue;  // it keeps no chunk that the block has a part in
    EXPECT_EQ(made.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(made.status().ToString(), HasSubstr(path));
    ++refused;
  }
  EXPECT_EQ(refused, 2);
  EXPECT_THAT(Made(), Each(Not(HasSubstr(std::string(kWorkSuffix)))));
}

TEST_F(ProtectTest, AFileOfAnotherSizeIsNamed) {
  const std::vector<ProtectSource> set = FourRanks(scr::Scheme::kRs);
  const std::string& path = set[0].paths[2];
  testing::PutBytes(disk_, path, testing::GetBytes(disk_, path) + "x");
  const auto made = Write(set, 2);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(made.status().ToString(), HasSubstr(path));
  EXPECT_THAT(Made(), IsEmpty());
}

TEST_F(ProtectTest, ChecksumsThatDoNotFitAreRefusedBeforeAnythingIsRead) {
  std::vector<ProtectSource> set = FourRanks(scr::Scheme::kXor);
  set[3].sums[0].add_crc32c(7);
  EXPECT_EQ(Write(set, 0).status().code(), absl::StatusCode::kDataLoss);
  set[3].sums.pop_back();
  EXPECT_EQ(Write(set, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(progress_.bytes_done, 0u);
}

TEST_F(ProtectTest, ItStopsWhenItIsTold) {
  const std::vector<ProtectSource> set = FourRanks(scr::Scheme::kPartner);
  progress_.stop = true;
  EXPECT_EQ(Write(set, 0).status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Made(), IsEmpty());
}

TEST_F(ProtectTest, OnlyWhatIsNeededIsReadAndOnce) {
  const std::vector<ProtectSource> set = FourRanks(scr::Scheme::kPartner);
  ASSERT_OK(Write(set, 1).status());
  EXPECT_EQ(progress_.bytes_done, set[0].sums[0].bytes() + set[0].sums[2].bytes());
}

TEST_F(ProtectTest, FilesAreTheBytesThatScrWrote) {
  std::map<scr::Scheme, int> compared;
  for (const std::string scenario : {"partner_np3", "xor_np4", "xor_np4_two_sets", "xor_np4_ppn2",
                                     "xor_np3_rank_without_files", "rs_np4_k2", "single_np2"}) {
    ASSERT_OK(RemoveTree(disk_, "/cache"));
    if (!testing::PutScenario(disk_, scenario, "nodes", "/cache")) return;
    struct Member {
      std::string path;  // of SCR's file
      ProtectSource source;
      scr::RedsetKind kind = scr::RedsetKind::kData;
    };
    std::map<std::string, std::map<std::uint32_t, Member>> sets;  // by dataset, kind and group
    for (const std::string& path : testing::FilesBelow(disk_, "/cache")) {
      const auto name = scr::ParseRedsetName(BaseOf(path));
      if (!name || name->what != scr::RedsetName::What::kHeader) continue;
      ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, kvtree::Decode(path, testing::GetBytes(disk_, path)));
      ASSERT_OK_AND_ASSIGN(const scr::RedundancyHeader header, scr::GetRedundancyHeader(tree));
      const scr::SetMember& own = header.members.at(header.rank);
      Member member{.path = path, .source = {}, .kind = name->kind};
      member.source.member.descriptor = own.descriptor;
      const std::string node = path.substr(0, path.find("/alice"));
      for (const auto& [recorded, meta] : own.files) {
        Note(member.source, recorded, node + recorded.substr(recorded.find("/alice")));
        member.source.member.files.back().second = meta;
      }
      const std::string folder = path.substr(path.find("scr.dataset."));
      sets[fmt::format("{} {} {}", folder.substr(0, folder.find('/')), static_cast<int>(name->kind), name->group)]
          .emplace(header.rank, std::move(member));
    }
    for (const auto& [name, members] : sets) {
      SCOPED_TRACE(scenario + ": " + name);
      std::vector<ProtectSource> set;
      for (const auto& [rank, member] : members) set.push_back(member.source);
      ASSERT_EQ(set.size(), set.front().member.descriptor.ranks);
      for (const auto& [rank, member] : members) {
        ASSERT_OK_AND_ASSIGN(const catalogue::FileEntry made, Write(set, rank, member.kind));
        EXPECT_EQ(made.name(), BaseOf(member.path));
        EXPECT_EQ(testing::GetBytes(disk_, std::string(kRecords) + "/" + made.name()),
                  testing::GetBytes(disk_, member.path));
        ++compared[member.source.member.descriptor.scheme];
      }
    }
  }
  EXPECT_GE(compared[scr::Scheme::kPartner], 6);
  EXPECT_GE(compared[scr::Scheme::kXor], 20);
  EXPECT_GE(compared[scr::Scheme::kRs], 8);
  EXPECT_GE(compared[scr::Scheme::kSingle], 4);
}

}  // namespace
}  // namespace cairn
