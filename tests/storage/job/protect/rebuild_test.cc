// Nodes are lost, or what they have is damaged; their ranks' files come back bit for bit, or it is said why not.
#include "storage/job/protect/rebuild.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>

#include "storage/base/path.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/redset.h"
#include "storage/place/cache/dataset_folder.h"
#include "tests/storage/job/protect/nodes.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Node;
using testing::Nodes;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

class RebuildTest : public ::testing::Test {
 protected:
  void Protect(scr::Scheme scheme) { ASSERT_OK(nodes_.Protect(nodes_.Sets(scheme))); }

  absl::StatusOr<Rebuilt> Open(const RebuildWish& wish) { return OpenRebuilt(wish, nodes_.throttle, nodes_.progress); }

  static absl::StatusOr<std::string> BytesOf(Disk& disk, const std::string& path) {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {}));
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
    std::string bytes(info.bytes, '\0');
    CAIRN_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }

  // Its files and catalogue, as they were.
  void ExpectBack(Nodes& nodes, const RebuildWish& wish) {
    SCOPED_TRACE(fmt::format("rank {}, {} members are left", wish.lost, wish.at.size()));
    ASSERT_OK_AND_ASSIGN(const Rebuilt rebuilt, OpenRebuilt(wish, nodes.throttle, nodes.progress));
    const catalogue::Catalogue wanted = nodes.CatalogueOf(wish.lost);
    EXPECT_EQ(EncodeCatalogue(rebuilt.catalogue), EncodeCatalogue(wanted));
    FakeDisk disk;
    std::size_t damaged = 0;
    const catalogue::FileEntry& file = rebuilt.catalogue.file(0);
    ASSERT_OK(CopyFiles(*rebuilt.disk, disk, {{.from = rebuilt.folder + "/" + file.name(), .to = "/x", .entry = &file}},
                        nodes.throttle, nodes.progress, &damaged));
    ASSERT_OK_AND_ASSIGN(const std::string bytes, BytesOf(disk, "/x"));
    EXPECT_TRUE(bytes == Nodes::ContentOf(wish.lost));
  }
  void ExpectBack(const RebuildWish& wish) { ExpectBack(nodes_, wish); }

  absl::Status ReadAll(const RebuildWish& wish) { return ReadAll(nodes_, wish); }
  static absl::Status ReadAll(Nodes& nodes, const RebuildWish& wish) {
    CAIRN_ASSIGN_OR_RETURN(const Rebuilt rebuilt, OpenRebuilt(wish, nodes.throttle, nodes.progress));
    for (const catalogue::FileEntry& file : rebuilt.catalogue.file()) {
      CAIRN_RETURN_IF_ERROR(BytesOf(*rebuilt.disk, rebuilt.folder + "/" + file.name()).status());
    }
    return absl::OkStatus();
  }

  kept::Record RecordOf(std::size_t i) {
    const auto record = ReadRedundancyRecord(nodes_.node(i).disk, nodes_.node(i).folder, TestRun(),
                                             nodes_.DescriptorOf(nodes_.node(i)));
    EXPECT_OK(record.status());
    return record.ok() ? *record : kept::Record();
  }
  std::string KeptPath(std::size_t i) {
    return RecordsFolder(nodes_.node(i).folder) + "/" + RecordOf(i).files(0).file().name();
  }

  Nodes nodes_ = testing::SixNodes();
};

TEST_F(RebuildTest, WhoeverIsLostItsFilesComeBack) {
  for (const scr::Scheme scheme : {scr::Scheme::kPartner, scr::Scheme::kXor, scr::Scheme::kRs}) {
    SCOPED_TRACE(std::string(scr::NameOf(scheme)));
    ASSERT_NO_FATAL_FAILURE(Protect(scheme));
    for (Rank lost = 0; lost < 6; ++lost) ExpectBack(nodes_.WishToRebuild(lost, {lost}));
  }
}

TEST_F(RebuildTest, TwoChecksumsBringBackAnyTwo) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kRs));
  for (Rank lost = 0; lost < 6; ++lost) {
    for (Rank other = 0; other < 6; ++other) {
      if (other != lost) ExpectBack(nodes_.WishToRebuild(lost, {lost, other}));
    }
  }
}

TEST_F(RebuildTest, CopiesBearTheLossOfOthersThatAreNoNeighbours) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kPartner));
  ExpectBack(nodes_.WishToRebuild(1, {1, 3, 5}));
  ExpectBack(nodes_.WishToRebuild(1, {0, 1}));  // who has its copy is left
}

TEST_F(RebuildTest, UnevenRanksComeBack) {
  for (const scr::Scheme scheme : {scr::Scheme::kPartner, scr::Scheme::kXor, scr::Scheme::kRs}) {
    Nodes nodes({{0, 1, 2}, {3}, {4, 5}, {6, 7}, {8}});
    ASSERT_OK(nodes.Protect(nodes.Sets(scheme, 3)));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const Rank rank : nodes.node(i).ranks) ExpectBack(nodes, nodes.WishToRebuild(rank, {i}));
    }
  }
}

TEST_F(RebuildTest, MoreThanTheSchemeBearsIsDataLossAndNamesTheRanks) {
  for (const auto& [scheme, gone] : {std::pair{scr::Scheme::kXor, std::set<std::size_t>{1, 4}},
                                     {scr::Scheme::kRs, {1, 4, 5}},
                                     {scr::Scheme::kPartner, {1, 2}}}) {
    ASSERT_NO_FATAL_FAILURE(Protect(scheme));
    const auto rebuilt = Open(nodes_.WishToRebuild(1, gone));
    EXPECT_EQ(rebuilt.status().code(), kDataLoss);
    for (const std::size_t i : gone) {
      EXPECT_THAT(rebuilt.status().ToString(), HasSubstr(fmt::format("rank {}: it is lost", i)));
    }
  }
}

// Nodes come to know a new set one after the other, and keep the old one beside it until all do: whichever of the two
// is asked for, its own files are used, or it is said that there are none.
TEST_F(RebuildTest, FilesOfTwoSetsAreNeverMixed) {
  // Their files have the same names.
  const kept::Set old_set = testing::XorOf({0, 1, 2, 3}), new_set = testing::XorOf({0, 1, 2, 5});
  for (std::size_t knowing = 0; knowing <= 4; ++knowing) {
    SCOPED_TRACE(fmt::format("{} nodes know the new one", knowing));
    Nodes nodes = testing::SixNodes();
    for (const std::size_t i : {0, 1, 2, 3}) {
      ASSERT_OK(nodes.Protect(nodes.node(i), {old_set}));
    }
    const std::vector<std::size_t> knows = {0, 1, 2, 5};
    for (std::size_t i = 0; i < knowing; ++i) {
      ASSERT_OK(nodes.Protect(nodes.node(knows[i]), {new_set}));
    }
    for (const Rank lost : {0, 1, 2}) {
      RebuildWish wish = nodes.WishToRebuild(lost, {lost}, old_set);
      ExpectBack(nodes, wish);
      wish = nodes.WishToRebuild(lost, {lost}, new_set);
      // A short file may need nothing of those that do not know it yet; rank 2's is the longest.
      const absl::Status read = ReadAll(nodes, wish);
      if (read.ok()) ExpectBack(nodes, wish);
      EXPECT_TRUE(read.ok() || absl::IsDataLoss(read)) << read;
      EXPECT_TRUE(lost != 2 || read.ok() == (knowing == 4)) << read;
    }
  }
}

// So it goes back into the cache of another node, beside that one's own ranks.
TEST_F(RebuildTest, ARankIsBroughtBackIntoACache) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kXor));
  Node& node = nodes_.node(0);
  ASSERT_OK_AND_ASSIGN(const Rebuilt rebuilt, Open(nodes_.WishToRebuild(2, {2})));
  const std::string before = RecordOf(0).SerializeAsString();
  ASSERT_OK(node.cache->Reopen(nodes_.DescriptorOf(node)));
  const std::string work = node.cache->WorkPath(testing::kNodesDataset, 2);
  std::size_t damaged = 0;
  ASSERT_OK(CopyFiles(*rebuilt.disk, node.disk,
                      {{.from = rebuilt.folder + "/" + rebuilt.catalogue.file(0).name(),
                        .to = work,
                        .entry = &rebuilt.catalogue.file(0)}},
                      nodes_.throttle, nodes_.progress, &damaged));
  ASSERT_OK(node.cache->CommitRank(rebuilt.catalogue, work));
  node.ranks.push_back(2);
  ASSERT_OK(node.cache->Complete(nodes_.DescriptorOf(node)));
  node.disk.Restart(3);
  ASSERT_OK_AND_ASSIGN(const auto folder,
                       CacheFolder::Open(node.disk, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  EXPECT_THAT(load.warnings, IsEmpty());
  const CachedDataset& dataset = load.whole.at(testing::kNodesDataset);
  ASSERT_EQ(dataset.ranks.size(), 2u);
  EXPECT_EQ(EncodeCatalogue(dataset.ranks[1]), EncodeCatalogue(nodes_.CatalogueOf(2)));
  EXPECT_EQ(dataset.redundancy.SerializeAsString(), before);
}

TEST_F(RebuildTest, ADamagedFileIsFoundAndWithoutItTwoChecksumsAreEnough) {
  for (const bool kept : {false, true}) {
    for (const scr::Scheme scheme : {scr::Scheme::kXor, scr::Scheme::kRs}) {
      SCOPED_TRACE(fmt::format("{}, {}", scr::NameOf(scheme), kept));
      ASSERT_NO_FATAL_FAILURE(Protect(scheme));
      RebuildWish wish = nodes_.WishToRebuild(2, {2});
      ASSERT_OK_AND_ASSIGN(const std::set<Rank> none, FindDamagedMembers(wish, nodes_.progress));
      EXPECT_THAT(none, IsEmpty());
      const std::string path = kept ? KeptPath(3) : nodes_.PathOf(3);
      ASSERT_OK_AND_ASSIGN(const FileInfo info, nodes_.node(3).disk.Info(path));
      // In the second MiB, if there is one: not with a header.
      const std::uint64_t bit = 8 * std::min<std::uint64_t>(info.bytes - 1, (1 << 20) + 100);
      nodes_.node(3).disk.FlipBit(path, bit);
      // Where rank 4 has the other checksum, only this one is left.
      const bool all_checksums = kept && scheme == scr::Scheme::kRs;
      const absl::Status read = ReadAll(all_checksums ? nodes_.WishToRebuild(2, {2, 4}) : wish);
      EXPECT_EQ(read.code(), kDataLoss);
      EXPECT_THAT(read.ToString(), HasSubstr(path));
      ASSERT_OK_AND_ASSIGN(wish.without, FindDamagedMembers(wish, nodes_.progress));
      EXPECT_THAT(wish.without, ElementsAre(3));
      if (scheme == scr::Scheme::kRs) {
        ExpectBack(wish);
      } else {
        EXPECT_STATUS(kDataLoss, Open(wish), "rank 3: its files were found to be damaged");
      }
      ASSERT_OK_AND_ASSIGN(const std::set<Rank> others, FindDamagedMembers(wish, nodes_.progress));
      EXPECT_THAT(others, IsEmpty());
      nodes_.node(3).disk.FlipBit(path, bit);  // as it was
    }
  }
}

TEST_F(RebuildTest, WhatIsMissingCountsAsLost) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kRs));
  const RebuildWish wish = nodes_.WishToRebuild(2, {2});
  ASSERT_OK(nodes_.node(4).disk.Remove(RecordsFolder(nodes_.node(4).folder) + "/redundancy.cairn"));
  ExpectBack(wish);
  ASSERT_OK(nodes_.node(4).disk.Remove(nodes_.node(4).folder + "/rank_4.cat"));
  ExpectBack(wish);
  ASSERT_OK_AND_ASSIGN(const std::set<Rank> damaged, FindDamagedMembers(wish, nodes_.progress));
  EXPECT_THAT(damaged, ElementsAre(4));
  ASSERT_OK(nodes_.node(5).disk.Remove(nodes_.PathOf(5)));
  const auto rebuilt = Open(wish);
  EXPECT_EQ(rebuilt.status().code(), kDataLoss);
  EXPECT_THAT(rebuilt.status().ToString(), AllOf(HasSubstr("rank_4.cat: "), HasSubstr("rank 5: ")));
}

// Its bytes are other than the record's checksums say: not a word of it is believed.
TEST_F(RebuildTest, ADamagedHeaderIsNotBelieved) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kRs));
  nodes_.node(3).disk.FlipBit(KeptPath(3), 8 * 200);
  ExpectBack(nodes_.WishToRebuild(2, {2}));  // rank 4's header knows its files, too
  nodes_.node(4).disk.FlipBit(KeptPath(4), 8 * 200);
  EXPECT_STATUS(kDataLoss, Open(nodes_.WishToRebuild(2, {2})), "nobody who is left knows its files");
}

TEST_F(RebuildTest, RecordsOfAnotherAreRefused) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kXor));
  const RebuildWish wish = nodes_.WishToRebuild(2, {2});
  const kept::Record sound = RecordOf(3);
  const auto refused = [&](const kept::Record& record, std::string_view part) {
    ASSERT_OK(WriteRedundancyRecord(nodes_.node(3).disk, nodes_.node(3).folder, record));
    EXPECT_STATUS(kDataLoss, Open(wish), part);
  };
  kept::Record record = sound;
  record.set_dataset(8);
  refused(record, "dataset: 8, expected 7");
  record = sound;
  record.set_launch(2);
  refused(record, "launch: 2");
  record = sound;
  record.set_step(71);
  refused(record, "step: 71");
  record = sound;
  record.set_run(TestRun(9).Hex());
  refused(record, "run: ");
  record = sound;  // of another set: it keeps nothing for this one
  for (kept::File& file : *record.mutable_files())
    std::swap(*file.mutable_set()->mutable_ranks()->Mutable(0), *file.mutable_set()->mutable_ranks()->Mutable(1));
  refused(record, "nothing is kept for this set");
  refused(RecordOf(4), "");
  ASSERT_OK(WriteRedundancyRecord(nodes_.node(3).disk, nodes_.node(3).folder, sound));
  ExpectBack(wish);
}

// A payload of other files, with a record that is sound: what is made of it is no catalogue of this rank.
TEST_F(RebuildTest, WhatIsMadeOfWrongBytesIsNoCatalogue) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kPartner));
  kept::Record record = RecordOf(3);
  const std::string path = KeptPath(3);
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadWhole(nodes_.node(3).disk, path, 8 << 20));
  bytes[bytes.size() - 60] ^= 1;  // in the catalogue
  ASSERT_OK(WriteTestFile(nodes_.node(3).disk, path, bytes));
  const catalogue::FileEntry entry = TestEntry(record.files(0).file().name(), "", bytes);
  *record.mutable_files(0)->mutable_file() = entry;
  ASSERT_OK(WriteRedundancyRecord(nodes_.node(3).disk, nodes_.node(3).folder, record));
  EXPECT_STATUS(kDataLoss, Open(nodes_.WishToRebuild(2, {2})), "CRC32C");
}

// A header that is sound but for a file that the catalogue does not know.
TEST_F(RebuildTest, TheCatalogueHasToHaveTheFilesOfTheHeader) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kPartner));
  kept::Record record = RecordOf(3);
  kept::File& file = *record.mutable_files(0);
  ASSERT_OK_AND_ASSIGN(const std::string bytes, BytesOf(nodes_.node(3).disk, KeptPath(3)));
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, kvtree::Decode("header", bytes.substr(0, file.header_bytes())));
  ASSERT_OK_AND_ASSIGN(scr::RedundancyHeader header, scr::GetRedundancyHeader(tree));
  std::vector<scr::RedsetFile>& files = header.members.at(2).files;
  files.insert(files.begin(), {ParentOf(files.back().first) + "/more.fti", scr::Meta()});
  const std::string front = kvtree::Encode(scr::MakeRankRecords(scr::RedsetKind::kData, header)[1].second);
  const std::string changed = front + bytes.substr(file.header_bytes());
  ASSERT_OK(WriteTestFile(nodes_.node(3).disk, KeptPath(3), changed));
  *file.mutable_file() = TestEntry(file.file().name(), "", changed);
  file.set_header_bytes(front.size());
  ASSERT_OK(WriteRedundancyRecord(nodes_.node(3).disk, nodes_.node(3).folder, record));
  EXPECT_STATUS(kDataLoss, Open(nodes_.WishToRebuild(2, {2})), "other files than the set's records");
}

// Of files that are there it is told at once that what is kept was made of others.
TEST_F(RebuildTest, WhatIsKeptOfOtherFilesThanAreThereCountsForNothing) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kXor));
  kept::Record record = RecordOf(3);
  kept::File& file = *record.mutable_files(0);
  const std::string path = KeptPath(3);
  ASSERT_OK_AND_ASSIGN(const std::string bytes, BytesOf(nodes_.node(3).disk, path));
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, kvtree::Decode("header", bytes.substr(0, file.header_bytes())));
  ASSERT_OK_AND_ASSIGN(scr::RedundancyHeader header, scr::GetRedundancyHeader(tree));
  const auto refused = [&](std::string_view part) {
    const std::string front = kvtree::Encode(scr::MakeRankRecords(scr::RedsetKind::kData, header)[1].second);
    const std::string changed = front + bytes.substr(file.header_bytes());
    ASSERT_OK(WriteTestFile(nodes_.node(3).disk, path, changed));
    kept::Record other = record;
    *other.mutable_files(0)->mutable_file() = TestEntry(file.file().name(), "", changed);
    other.mutable_files(0)->set_header_bytes(front.size());
    ASSERT_OK(WriteRedundancyRecord(nodes_.node(3).disk, nodes_.node(3).folder, other));
    EXPECT_STATUS(kDataLoss, Open(nodes_.WishToRebuild(2, {2})), part);
  };
  const scr::RedundancyHeader sound = header;
  header.members.at(3).files.front().second.bytes -= 1;
  refused("of rank 3 it has other files");
  header = sound;
  header.members.at(3).files.front().first += "x";
  refused("of rank 3 it has other files");
  header = sound;
  header.chunk_bytes += 1;
  refused("bytes behind the header, which says");
  header = sound;
  for (auto& [rank, member] : header.members) member.descriptor.group = 1;
  for (auto& [rank, member] : header.members) member.descriptor.groups = 2;
  refused("is of another set");
  header = sound;
  std::swap(header.world_ranks.at(0), header.world_ranks.at(1));
  refused("not in this set");
}

TEST_F(RebuildTest, AnotherStepThanWasAskedForIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kXor));
  RebuildWish wish = nodes_.WishToRebuild(2, {2});
  wish.step = 71;
  EXPECT_STATUS(kDataLoss, Open(wish), "step: 70, expected 71");
}

TEST_F(RebuildTest, WhatIsNoSetIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kXor));
  RebuildWish wish = nodes_.WishToRebuild(2, {2});
  wish.lost = 6;
  EXPECT_STATUS(kInvalidArgument, Open(wish), "rank 6");
  wish = nodes_.WishToRebuild(2, {2});
  wish.set.set_ranks(0, 1);
  EXPECT_STATUS(kInvalidArgument, Open(wish), "comes twice");
  EXPECT_STATUS(kInvalidArgument, FindDamagedMembers(wish, nodes_.progress), "comes twice");
}

// That says nothing about the member: whoever asks may try again.
TEST_F(RebuildTest, WhatADiskSaysOfItselfIsNoDamage) {
  ASSERT_NO_FATAL_FAILURE(Protect(scr::Scheme::kRs));
  const RebuildWish wish = nodes_.WishToRebuild(2, {2});
  for (const char* part : {"rank_3.cat", "redundancy.cairn", ".fti"}) {
    nodes_.node(3).disk.FailOn({.path_part = part, .times = 1000});
    EXPECT_STATUS(absl::StatusCode::kUnavailable, ReadAll(wish), "injected");
    EXPECT_STATUS(absl::StatusCode::kUnavailable, FindDamagedMembers(wish, nodes_.progress), "injected");
    nodes_.node(3).disk.ClearFaults();
  }
  nodes_.progress.stop = true;
  EXPECT_STATUS(absl::StatusCode::kCancelled, Open(wish), "");
  EXPECT_STATUS(absl::StatusCode::kCancelled, FindDamagedMembers(wish, nodes_.progress), "");
}

}  // namespace
}  // namespace cairn
