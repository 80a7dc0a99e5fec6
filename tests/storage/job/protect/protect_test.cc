// The redundancy files of a set's members: byte for byte those that SCR made of the same files; and what is damaged
// gets into none.
#include "storage/job/protect/protect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/redset_records.h"
#include "tests/storage/file/redundancy/scr_cache.h"
#include "tests/storage/job/protect/four_ranks.h"
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
  absl::StatusOr<catalogue::FileEntry> WriteOver(const std::string& over, const std::vector<ProtectSource>& set,
                                                 std::uint32_t member) {
    return WriteRedundancy(disk_, kRecords, scr::RedsetKind::kData, set, member, throttle_, progress_, over);
  }
  std::string Kept(const catalogue::FileEntry& made) {
    return testing::GetBytes(disk_, std::string(kRecords) + "/" + made.name());
  }

  std::vector<ProtectSource> FourRanks(scr::Scheme scheme) { return testing::FourRanks(disk_, scheme); }
  std::vector<std::string> Made() { return testing::FilesBelow(disk_, kRecords); }

  FakeDisk disk_;
  Throttle throttle_{0};
  TransferProgress progress_;
};

TEST_F(ProtectTest, WhatIsAnsweredIsWhatIsThere) {
  for (const auto& [scheme, member] : {std::pair{scr::Scheme::kPartner, 1u},
                                       {scr::Scheme::kXor, 1u},
                                       {scr::Scheme::kRs, 1u},
                                       {scr::Scheme::kRs, 3u}}) {
    const std::vector<ProtectSource> set = FourRanks(scheme);
    ASSERT_OK_AND_ASSIGN(const catalogue::FileEntry made, Write(set, member));
    const std::string bytes = testing::GetBytes(disk_, std::string(kRecords) + "/" + made.name());
    EXPECT_EQ(made.bytes(), bytes.size());
    EXPECT_EQ(made.crc32(), Crc32(std::as_bytes(std::span(bytes))));
    EXPECT_OK(VerifyFile(disk_, std::string(kRecords) + "/" + made.name(), made));
    std::uint64_t declared = 0;
    ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, kvtree::Decode(made.name(), bytes, &declared));
    ASSERT_OK_AND_ASSIGN(const scr::RedundancyHeader header, scr::GetRedundancyHeader(tree));
    EXPECT_EQ(header.scheme(), scheme);
    EXPECT_EQ(declared + header.payload_bytes(), bytes.size());
    const std::uint32_t left = (member + 3) % 4;
    EXPECT_EQ(header.members.at(left).files[2].first, fmt::format("/node{}/scr.dataset.1/b.dat", left));
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

TEST_F(ProtectTest, AFileThatIsWrittenOverIsByteForByteANewOne) {
  const std::vector<ProtectSource> set = FourRanks(scr::Scheme::kXor);
  ASSERT_OK_AND_ASSIGN(const catalogue::FileEntry fresh, Write(set, 1));
  const std::string wanted = Kept(fresh);
  for (const std::size_t bytes : {std::size_t{0}, wanted.size() / 2, wanted.size(), wanted.size() + 12'345}) {
    testing::PutBytes(disk_, "/here/old", std::string(bytes, 'x'));
    ASSERT_OK_AND_ASSIGN(const FileInfo old, disk_.Info("/here/old"));
    ASSERT_OK_AND_ASSIGN(const catalogue::FileEntry made, WriteOver("/here/old", set, 1));
    EXPECT_EQ(made.inode(), old.inode) << bytes;
    EXPECT_TRUE(Kept(made) == wanted) << bytes;
    EXPECT_EQ(made.crc32(), fresh.crc32());
    EXPECT_EQ(disk_.Info("/here/old").status().code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(Made().size(), 2u);
}

TEST_F(ProtectTest, WhatHasAnotherNameIsNotWrittenOver) {
  const std::vector<ProtectSource> set = FourRanks(scr::Scheme::kXor);
  testing::PutBytes(disk_, "/here/somebodys", "bytes");
  ASSERT_OK(disk_.Link("/here/somebodys", "/here/old"));
  ASSERT_OK_AND_ASSIGN(const catalogue::FileEntry made, WriteOver("/here/old", set, 1));
  EXPECT_EQ(testing::GetBytes(disk_, "/here/somebodys"), "bytes");
  EXPECT_OK(VerifyFile(disk_, std::string(kRecords) + "/" + made.name(), made));
}

TEST_F(ProtectTest, WhatCannotBeWrittenOverIsAsGoodAsNone) {
  const std::vector<ProtectSource> set = FourRanks(scr::Scheme::kRs);
  ASSERT_OK(disk_.MakeDirectory("/here/folder", 0700));
  ASSERT_OK(disk_.Symlink("/here/elsewhere", "/here/link"));
  for (const char* over : {"/here/not there", "/here/folder", "/here/link"}) {
    ASSERT_OK_AND_ASSIGN(const catalogue::FileEntry made, WriteOver(over, set, 1));
    EXPECT_OK(VerifyFile(disk_, std::string(kRecords) + "/" + made.name(), made)) << over;
  }
}

TEST_F(ProtectTest, NoPowerFailureLeavesHalfOfOneThatIsWrittenOver) {
  const std::vector<ProtectSource> set = FourRanks(scr::Scheme::kPartner);
  ASSERT_OK_AND_ASSIGN(const catalogue::FileEntry made, Write(set, 1));
  const std::string name = made.name(), wanted = Kept(made);
  for (std::uint64_t at = 1;; ++at) {
    ASSERT_LT(at, 10'000u) << "it never ends well";
    testing::PutBytes(disk_, "/here/old", std::string(wanted.size() + 100, 'x'));
    ASSERT_OK(disk_.Remove(std::string(kRecords) + "/" + name));
    disk_.SyncAll();
    disk_.CrashAt(at);
    const bool ended = WriteOver("/here/old", set, 1).ok();
    if (ended) break;
    disk_.Restart(at);
    const auto there = disk_.Info(std::string(kRecords) + "/" + name);
    if (there.ok()) {
      EXPECT_TRUE(Kept(made) == wanted) << at;
    } else {
      testing::PutBytes(disk_, std::string(kRecords) + "/" + name, "");
    }
    for (const std::string& left : Made()) {
      if (!IsWorkName(left)) continue;
      ASSERT_OK(disk_.Remove(left));
    }
  }
}

TEST_F(ProtectTest, AFileThatCannotBeSyncedIsNotKept) {
  const std::vector<ProtectSource> set = FourRanks(scr::Scheme::kRs);
  FakeFault fault;
  fault.op = FakeOp::kSync;
  fault.path_part = std::string(kWorkSuffix);
  disk_.FailOn(fault);
  EXPECT_EQ(Write(set, 1).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Made(), IsEmpty());
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

TEST_F(ProtectTest, SourcesAreReadAtTheSameTime) {
  const std::vector<ProtectSource> set = FourRanks(scr::Scheme::kXor);
  std::vector<std::string> done;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kRead || op == FakeOp::kWrite) done.push_back(path);
  });
  ASSERT_OK(Write(set, 0).status());
  disk_.SetHook(nullptr);
  // The header, then what is expected of the three sources, and only then something is made of it.
  const auto is_of_ours = [](const std::string& path) { return path.starts_with(kRecords); };
  ASSERT_TRUE(is_of_ours(done.at(0)));
  const auto made = std::find_if(done.begin() + 1, done.end(), is_of_ours);
  for (const std::uint32_t member : {1u, 2u, 3u}) {
    EXPECT_GE(std::count(done.begin(), made, set[member].paths[0]), 2) << member;
  }
}

TEST_F(ProtectTest, NoBlockIsReadThatIsNotNeeded) {
  const std::vector<ProtectSource> set = FourRanks(scr::Scheme::kXor);
  std::map<std::string, int> reads;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kRead) ++reads[path];
  });
  ASSERT_OK(Write(set, 0).status());
  disk_.SetHook(nullptr);
  // A chunk is a little longer than a block. Member 0 keeps the first checksum: of the first chunk of all others.
  EXPECT_EQ(reads, (std::map<std::string, int>{{set[1].paths[0], 2}, {set[2].paths[0], 2}, {set[3].paths[0], 2}}));
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
        testing::NoteFile(disk_, recorded, node + recorded.substr(recorded.find("/alice")), member.source);
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
