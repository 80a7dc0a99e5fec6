// A prefix with datasets of Cairn's and of SCR's on a disk in memory.
#ifndef CAIRN_TESTS_STORAGE_PLACE_PREFIX_SITE_H_
#define CAIRN_TESTS_STORAGE_PLACE_PREFIX_SITE_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/scr/records.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

inline constexpr auto kAlreadyExists = absl::StatusCode::kAlreadyExists;
inline constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
inline constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
inline constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
inline constexpr auto kNotFound = absl::StatusCode::kNotFound;

inline constexpr char kPath[] = "/pfs/demo";
inline constexpr char kIndex[] = "/pfs/demo/.scr/index.scr";
inline constexpr std::uint32_t kRanks = 2;

using Ids = std::vector<DatasetId>;

class Site {
 public:
  Site() { Reopen(); }

  void Reopen() {
    auto opened = Prefix::Open(disk, kPath);
    EXPECT_OK(opened.status());
    if (opened.ok()) prefix = *std::move(opened);
  }
  std::vector<catalogue::Catalogue> CataloguesOf(DatasetId id) const {
    std::vector<catalogue::Catalogue> catalogues;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      catalogues.push_back(TestCatalogue(prefix->run(), id, rank, kRanks, TestContent(id + rank, content_bytes)));
    }
    return catalogues;
  }
  // The bytes, as a flush leaves them.
  absl::Status Arrive(DatasetId id) {
    for (const catalogue::Catalogue& catalogue : CataloguesOf(id)) {
      const std::string path = prefix->FilePath(catalogue.file(0).prefix_name());
      CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, ParentOf(path)));
      CAIRN_RETURN_IF_ERROR(WriteTestFile(disk, path, TestContent(id + catalogue.rank(), content_bytes)));
      CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(ParentOf(path)));
    }
    return absl::OkStatus();
  }
  absl::Status Commit(DatasetId id) { return Commit(TestDescriptor(id, kRanks)); }
  absl::Status Commit(scr::Descriptor descriptor) {
    std::vector<catalogue::Catalogue> catalogues = CataloguesOf(descriptor.id);
    for (catalogue::Catalogue& catalogue : catalogues) catalogue.set_launch(*descriptor.launch);
    CAIRN_RETURN_IF_ERROR(Arrive(descriptor.id));
    return prefix->Commit(descriptor, catalogues);
  }
  // From now on there is room for all that is there and `bytes` more.
  void FillUp(std::uint64_t bytes) {
    constexpr std::uint64_t kPlenty = 1 << 30;
    disk.SetCapacity(kPlenty);
    const auto room = disk.FreeBytes(kPath);
    EXPECT_OK(room.status());
    disk.SetCapacity(kPlenty - room.value_or(0) + bytes);
  }
  // As SCR leaves it: two ranks with a file each; names of `shared`, if given, belong to rank 0 of all that have it.
  void PutScr(DatasetId id, const std::string& shared = {}) {
    scr::IndexEntry entry;
    entry.descriptor.id = id;
    entry.descriptor.name = fmt::format("step_{}", id);
    entry.descriptor.complete = true;
    std::vector<std::vector<std::string>> files(kRanks);
    for (Rank rank = 0; rank < kRanks; ++rank) files[rank].push_back(ScrName(id, rank));
    if (!shared.empty()) files[0].push_back(shared);
    for (const auto& of_rank : files) {
      for (const std::string& name : of_rank) {
        const std::string path = prefix->FilePath(name);
        EXPECT_OK(MakeDirectories(disk, ParentOf(path)));
        EXPECT_OK(WriteTestFile(disk, path, TestContent(id, scr_bytes)));
        EXPECT_OK(disk.SyncDirectory(ParentOf(path)));
        entry.descriptor.files += 1;
        entry.descriptor.bytes += scr_bytes;
      }
    }
    entry.complete = true;
    PutScrRecords(entry, entry.descriptor, files);
  }
  void PutScrRecords(const scr::IndexEntry& entry, const scr::Descriptor& summary,
                     const std::vector<std::vector<std::string>>& files) {
    const std::string folder = fmt::format("{}/.scr/scr.dataset.{}", kPath, summary.id);
    EXPECT_OK(MakeDirectories(disk, folder));
    for (const auto& [suffix, tree] : scr::MakeRank2File(files)) {
      EXPECT_OK(ReplaceTree(disk, folder + "/rank2file" + suffix, tree));
    }
    EXPECT_OK(ReplaceTree(disk, folder + "/summary.scr", scr::MakeSummary(summary)));
    kvtree::Tree index = disk.Info(kIndex).ok() ? Index() : kvtree::Tree();
    scr::PutIndexEntry(entry, index);
    EXPECT_OK(ReplaceTree(disk, kIndex, index));
  }
  static std::string ScrName(DatasetId id, Rank rank) { return fmt::format("step_{}/rank_{}.ckpt", id, rank); }

  kvtree::Tree TreeAt(const std::string& path) {
    const auto tree = ReadTree(disk, path);
    EXPECT_OK(tree.status());
    return tree.ok() ? *tree : kvtree::Tree();
  }
  kvtree::Tree Index() { return TreeAt(kIndex); }
  std::string Current() { return std::string(Index().Get("CURRENT").value_or("")); }
  PrefixContents Contents() {
    const auto contents = prefix->Contents();
    EXPECT_OK(contents.status());
    return contents.ok() ? *contents : PrefixContents();
  }
  Ids CommittedIds() {
    const auto committed = prefix->Committed();
    EXPECT_OK(committed.status());
    Ids ids;
    if (!committed.ok()) return ids;
    for (const auto& [id, dataset] : *committed) ids.push_back(id);
    return ids;
  }
  Ids Restorable() {
    Ids ids;
    for (const auto& [id, dataset] : Contents().datasets) ids.push_back(id);
    return ids;
  }
  bool IsThere(const std::string& name) { return disk.Info(prefix->FilePath(name)).ok(); }

  std::size_t content_bytes = 100, scr_bytes = 50;  // of a rank's file
  FakeDisk disk;
  std::unique_ptr<Prefix> prefix;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_PLACE_PREFIX_SITE_H_
