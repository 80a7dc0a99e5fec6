// The power fails at every operation of a history of datasets. Afterwards the folder lists exactly what was promised:
// a promise is a call that answered OK, and what a call was about when the power failed may be there or not, but whole.
#include <gtest/gtest.h>

#include <map>
#include <span>

#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/place/cache/cache_folder.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr std::uint32_t kRanks = 2;

enum class Promise { kAbsent, kEither, kWhole };
using Promises = std::map<DatasetId, Promise>;

std::string ContentOf(DatasetId id, Rank rank) {
  return TestContent(100 * id + rank, 9000 * rank + 10);
}

absl::StatusOr<std::unique_ptr<CacheFolder>> OpenFolder(Disk& disk) {
  return CacheFolder::Open(disk, "/ssd", "alice", "demo", TestRun(), "/pfs/demo");
}

absl::Status WriteDataset(Disk& disk, CacheFolder& folder, DatasetId id, Promises* promises) {
  (*promises)[id] = Promise::kAbsent;
  CAIRN_RETURN_IF_ERROR(folder.Begin(TestDescriptor(id, kRanks)));
  for (Rank rank = 0; rank < kRanks; ++rank) {
    const std::string content = ContentOf(id, rank);
    const std::string work = folder.WorkPath(id, rank);
    CAIRN_RETURN_IF_ERROR(WriteTestFile(disk, work, content));
    CAIRN_RETURN_IF_ERROR(folder.CommitRank(TestCatalogue(TestRun(), id, rank, kRanks, content), work));
  }
  (*promises)[id] = Promise::kEither;
  CAIRN_RETURN_IF_ERROR(folder.Complete(TestDescriptor(id, kRanks)));
  (*promises)[id] = Promise::kWhole;
  return absl::OkStatus();
}

absl::Status RemoveDataset(CacheFolder& folder, DatasetId id, Promises* promises) {
  (*promises)[id] = Promise::kEither;
  CAIRN_RETURN_IF_ERROR(folder.Remove(id));
  (*promises)[id] = Promise::kAbsent;
  return absl::OkStatus();
}

// Dataset `id` is written into the files of `base`, which are given up for it. Of rank 0 only: the other's is new.
absl::Status WriteOver(Disk& disk, CacheFolder& folder, DatasetId base, DatasetId id, Promises* promises) {
  (*promises)[id] = Promise::kAbsent;
  CAIRN_RETURN_IF_ERROR(folder.Begin(TestDescriptor(id, kRanks)));
  (*promises)[base] = Promise::kEither;
  CAIRN_RETURN_IF_ERROR(folder.Retire(base));
  (*promises)[base] = Promise::kAbsent;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    const std::string content = ContentOf(id, rank);
    const std::string work = folder.WorkPath(id, rank);
    if (rank == 0) {
      CAIRN_RETURN_IF_ERROR(disk.Rename(fmt::format("{}/Ckpt{}-Rank0.fti", folder.DatasetPath(base), base), work));
      CAIRN_ASSIGN_OR_RETURN(auto file, disk.Open(work, {.writable = true}));
      CAIRN_RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(content))));
      CAIRN_RETURN_IF_ERROR(file->Sync());
    } else {
      CAIRN_RETURN_IF_ERROR(WriteTestFile(disk, work, content));
    }
    CAIRN_RETURN_IF_ERROR(folder.CommitRank(TestCatalogue(TestRun(), id, rank, kRanks, content), work));
  }
  (*promises)[id] = Promise::kEither;
  CAIRN_RETURN_IF_ERROR(folder.Complete(TestDescriptor(id, kRanks)));
  (*promises)[id] = Promise::kWhole;
  return folder.Remove(base);
}

absl::Status History(Disk& disk, Promises* promises) {
  CAIRN_ASSIGN_OR_RETURN(auto folder, OpenFolder(disk));
  CAIRN_RETURN_IF_ERROR(folder->Load().status());
  CAIRN_RETURN_IF_ERROR(WriteDataset(disk, *folder, 1, promises));
  CAIRN_RETURN_IF_ERROR(WriteDataset(disk, *folder, 2, promises));
  CAIRN_RETURN_IF_ERROR(RemoveDataset(*folder, 1, promises));
  CAIRN_RETURN_IF_ERROR(WriteDataset(disk, *folder, 3, promises));
  CAIRN_RETURN_IF_ERROR(RemoveDataset(*folder, 3, promises));
  CAIRN_RETURN_IF_ERROR(WriteDataset(disk, *folder, 4, promises));
  CAIRN_RETURN_IF_ERROR(WriteOver(disk, *folder, 2, 5, promises));
  CAIRN_RETURN_IF_ERROR(WriteOver(disk, *folder, 4, 6, promises));
  return absl::OkStatus();
}

// SCR takes a dataset that the index names for complete by its encode states alone (SCR specification, section 14):
// where both say so, everything else must be there, before Cairn has tidied up.
void ExpectScrSeesOnlyWholeDatasets(Disk& disk, const std::string& folder, const Promises& promises) {
  const auto index = ReadTree(disk, folder + "/cindex.scrinfo");
  for (const auto& [id, promise] : promises) {
    if (!index.ok() || index->FindPath({"DSET", std::to_string(id)}) == nullptr) {
      EXPECT_NE(promise, Promise::kWhole) << "dataset " << id;
      continue;
    }
    const std::string dataset = fmt::format("{}/scr.dataset.{}", folder, id);
    const auto data = ReadTree(disk, dataset + "/.scr/reddesc.er.er");
    const auto maps = ReadTree(disk, dataset + "/.scr/reddescmap.er.er");
    const bool encoded = data.ok() && data->Get("STATE") == "2" && maps.ok() && maps->Get("STATE") == "2";
    EXPECT_TRUE(encoded || promise != Promise::kWhole) << "dataset " << id;
    if (!encoded) continue;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const std::string group = fmt::format("{}.single.grp_{}_of_{}.mem_1_of_1.redset", rank, rank + 1, kRanks);
      for (const char* kind : {"reddesc", "reddescmap"}) {
        EXPECT_OK(ReadTree(disk, fmt::format("{}/.scr/{}.er.{}.redset", dataset, kind, rank)));
        EXPECT_OK(ReadTree(disk, fmt::format("{}/.scr/{}.er.{}", dataset, kind, group)));
        EXPECT_OK(ReadTree(disk, fmt::format("{}/.scr/{}.er.shuffile", dataset, kind)));
      }
      ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, ReadTree(disk, fmt::format("{}/.scr/filemap_{}", dataset, rank)));
      ASSERT_OK_AND_ASSIGN(const scr::Filemap filemap, scr::GetFilemap(tree));
      for (const auto& [path, meta] : filemap.files) {
        ASSERT_OK_AND_ASSIGN(const FileInfo info, disk.Info(path));
        EXPECT_EQ(info.bytes, meta.bytes) << path;
      }
    }
  }
}

void ExpectReadable(Disk& disk, const CacheFolder& folder, const CacheLoad& load) {
  for (const auto& [id, dataset] : load.whole) {
    ASSERT_EQ(dataset.ranks.size(), kRanks);
    for (const catalogue::Catalogue& rank : dataset.ranks) {
      ASSERT_EQ(rank.file_size(), 1);
      EXPECT_OK(VerifyFile(disk, folder.DatasetPath(id) + "/" + rank.file(0).name(), rank.file(0)));
    }
  }
}

void ExpectPromisesKept(Disk& disk, const Promises& promises) {
  ASSERT_OK_AND_ASSIGN(auto folder, OpenFolder(disk));
  ExpectScrSeesOnlyWholeDatasets(disk, folder->path(), promises);
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  for (const std::string& warning : load.warnings) ADD_FAILURE() << "a crash is no damage: " << warning;
  for (const auto& [id, promise] : promises) {
    const bool whole = load.whole.contains(id);
    if (promise == Promise::kEither) continue;
    EXPECT_EQ(whole, promise == Promise::kWhole) << "dataset " << id;
  }
  ExpectReadable(disk, *folder, load);
  Promises next;
  EXPECT_OK(WriteDataset(disk, *folder, 10, &next));
}

std::uint64_t OperationsOfHistory() {
  FakeDisk disk;
  Promises promises;
  EXPECT_OK(History(disk, &promises));
  return disk.operations();
}

TEST(CacheCrashTest, AfterAPowerFailureAnywhereExactlyThePromisedDatasetsAreWhole) {
  const std::uint64_t operations = OperationsOfHistory();
  for (std::uint64_t n = 1; n <= operations && !HasFailure(); ++n) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(fmt::format("power fails at operation {} of {}, seed {}", n, operations, seed));
      FakeDisk disk;
      Promises promises;
      disk.CrashAt(n);
      EXPECT_FALSE(History(disk, &promises).ok());
      disk.Restart(seed * 7919 + n);
      ExpectPromisesKept(disk, promises);
    }
  }
}

// The index is gone with the power: what was promised is found by its own records, and nothing that was removed, given
// up or never whole comes back by them.
TEST(CacheCrashTest, AfterAPowerFailureThatTookTheIndexTheDatasetsAreFoundWithoutIt) {
  const std::uint64_t operations = OperationsOfHistory();
  for (std::uint64_t n = 1; n <= operations && !HasFailure(); ++n) {
    SCOPED_TRACE(fmt::format("power fails at operation {} of {}", n, operations));
    FakeDisk disk;
    Promises promises;
    disk.CrashAt(n);
    EXPECT_FALSE(History(disk, &promises).ok());
    disk.Restart(n);
    ASSERT_OK_AND_ASSIGN(auto folder, OpenFolder(disk));
    const std::string index = folder->path() + "/cindex.scrinfo";
    if (n % 2 == 0) {
      disk.FlipBit(index, 8 * 21);
    } else {
      ASSERT_OK(disk.Remove(index));
    }
    disk.SyncAll();
    // So does the start that follows: what it leaves is mended by the next.
    disk.CrashAt(1 + n % 97);
    if (auto half = OpenFolder(disk); half.ok()) (*half)->Load().IgnoreError();
    disk.Restart(n + 1);
    ASSERT_OK_AND_ASSIGN(folder, OpenFolder(disk));
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
    for (const auto& [id, promise] : promises) {
      if (promise == Promise::kEither) continue;
      EXPECT_EQ(load.whole.contains(id), promise == Promise::kWhole) << "dataset " << id;
    }
    ExpectReadable(disk, *folder, load);
  }
}

// The same with a start that itself loses power.
TEST(CacheCrashTest, APowerFailureDuringLoadLosesNothing) {
  for (std::uint64_t n = 1; n <= 60; ++n) {
    SCOPED_TRACE(fmt::format("power fails at operation {} of the start", n));
    FakeDisk disk;
    Promises promises;
    ASSERT_OK_AND_ASSIGN(auto folder, OpenFolder(disk));
    ASSERT_OK(WriteDataset(disk, *folder, 1, &promises));
    ASSERT_OK(folder->Begin(TestDescriptor(2, kRanks)));
    promises[2] = Promise::kAbsent;
    disk.Restart(n);
    disk.CrashAt(n);
    if (auto half = OpenFolder(disk); half.ok()) (*half)->Load().IgnoreError();  // fails or not: the next one counts
    disk.Restart(n + 1);
    ExpectPromisesKept(disk, promises);
  }
}

}  // namespace
}  // namespace cairn
