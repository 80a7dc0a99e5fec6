// A dataset of which two ranks of four lie here, and what has to be in its .scr by a record.
#ifndef CAIRN_TESTS_STORAGE_PLACE_CACHE_PROTECT_FIXTURE_H_
#define CAIRN_TESTS_STORAGE_PLACE_CACHE_PROTECT_FIXTURE_H_

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/redset_records.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/cache/dataset_folder.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/storage/place/cache/kept_files.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

inline constexpr DatasetId kProtected = 3;
inline constexpr std::uint32_t kProtectedRanks = 4;

inline scr::Descriptor ProtectedDescriptor(const std::vector<Rank>& ranks) {
  scr::Descriptor descriptor = TestDescriptor(kProtected, kProtectedRanks);
  descriptor.held.emplace();
  for (const Rank rank : ranks) descriptor.held->Add(rank);
  return descriptor;
}

inline absl::StatusOr<std::unique_ptr<CacheFolder>> OpenProtected(Disk& disk) {
  return CacheFolder::Open(disk, "/ssd", "alice", "demo", TestRun(), "/pfs/demo");
}

inline absl::Status CommitProtected(Disk& disk, CacheFolder& folder, Rank rank) {
  const std::string content = TestContent(rank, 4000 + rank), work = folder.WorkPath(kProtected, rank);
  CAIRN_RETURN_IF_ERROR(WriteTestFile(disk, work, content));
  return folder.CommitRank(TestCatalogue(TestRun(), kProtected, rank, kProtectedRanks, content), work);
}

inline absl::Status WriteProtected(Disk& disk, CacheFolder& folder, const std::vector<Rank>& ranks) {
  CAIRN_RETURN_IF_ERROR(folder.Begin(ProtectedDescriptor(ranks)));
  for (const Rank rank : ranks) CAIRN_RETURN_IF_ERROR(CommitProtected(disk, folder, rank));
  return folder.Complete(ProtectedDescriptor(ranks));
}

inline std::set<Rank> RanksOf(const CachedDataset& dataset) {
  std::set<Rank> ranks;
  for (const catalogue::Catalogue& catalogue : dataset.ranks) ranks.insert(catalogue.rank());
  return ranks;
}

// SCR's records say of each rank what the record says, name files that are there, and nothing else is in .scr.
inline void ExpectRecordsAgree(Disk& disk, const std::string& folder, const std::set<Rank>& ranks,
                               const kept::Record& record) {
  std::map<Rank, kept::Set> sets;
  for (const kept::File& file : record.files()) sets.try_emplace(file.rank(), file.set());  // the newest
  std::set<std::string> wanted = {"reddesc.er.er", "reddescmap.er.er", "reddesc.er.shuffile", "reddescmap.er.shuffile"};
  if (!sets.empty()) wanted.insert("redundancy.cairn");
  for (const kept::File& file : record.files()) wanted.insert(file.file().name());
  for (const scr::RedsetKind kind : {scr::RedsetKind::kData, scr::RedsetKind::kFilemaps}) {
    const std::string list = scr::FileNameOf({.kind = kind, .what = scr::RedsetName::What::kOwnership});
    ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, ReadTree(disk, RecordsFolder(folder) + "/" + list));
    ASSERT_OK_AND_ASSIGN(const auto owned, scr::GetOwnership(tree));
    EXPECT_EQ(owned.size(), ranks.size()) << list;
    for (const auto& [rank, files] : owned) {
      for (const std::string& file : files) EXPECT_OK(disk.Info(file).status());
    }
    for (const Rank rank : ranks) {
      ASSERT_TRUE(owned.contains(rank)) << list;
      scr::SetDescriptor set = scr::SingleSet(rank, kProtectedRanks);
      if (sets.contains(rank)) {
        for (const auto& member : DescriptorsOf(sets[rank], kProtectedRanks)) {
          if (member.world_rank == rank) set = member;
        }
      }
      const std::string header = scr::FileNameOf(scr::HeaderNameOf(kind, set));
      const std::string descriptor =
          scr::FileNameOf({.kind = kind, .what = scr::RedsetName::What::kDescriptor, .rank = rank});
      wanted.insert({header, descriptor, fmt::format("filemap_{}", rank)});
      EXPECT_TRUE(std::ranges::count(owned.at(rank), RecordsFolder(folder) + "/" + header) == 1) << header;
      ASSERT_OK_AND_ASSIGN(const kvtree::Tree described, ReadTree(disk, RecordsFolder(folder) + "/" + descriptor));
      ASSERT_OK_AND_ASSIGN(const auto found, scr::GetSetDescriptors(described));
      EXPECT_EQ(found.at(rank).scheme, set.scheme);
      EXPECT_EQ(found.at(rank).ranks, set.ranks);
      EXPECT_EQ(found.at(rank).rank, set.rank);
    }
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> there, disk.List(RecordsFolder(folder)));
  std::set<std::string> names(there.begin(), there.end());
  names.erase("given_up.cairn");
  EXPECT_EQ(names, wanted);
}

// What it names is there, byte for byte.
inline void ExpectKept(Disk& disk, const std::string& folder, const kept::Record& record) {
  for (const kept::File& file : record.files()) {
    EXPECT_OK(VerifyFile(disk, RecordsFolder(folder) + "/" + file.file().name(), file.file()));
  }
}

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_PLACE_CACHE_PROTECT_FIXTURE_H_
