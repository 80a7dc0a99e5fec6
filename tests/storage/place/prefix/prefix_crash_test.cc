// The power fails at every operation of a history of flushes. Afterwards the prefix lists exactly what was promised: a
// promise is a call that answered OK, and what a call was about when the power failed may be there or not, but whole.
#include <gtest/gtest.h>

#include <map>

#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr char kPath[] = "/pfs/demo";
constexpr std::uint32_t kRanks = 2;

enum class Promise { kAbsent, kEither, kWhole };
using Promises = std::map<DatasetId, Promise>;

std::string ContentOf(DatasetId id, Rank rank) {
  return TestContent(100 * id + rank, 2000 * rank + 10);
}

std::vector<catalogue::Catalogue> CataloguesOf(const RunId& run, DatasetId id) {
  std::vector<catalogue::Catalogue> catalogues;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    catalogues.push_back(TestCatalogue(run, id, rank, kRanks, ContentOf(id, rank)));
  }
  return catalogues;
}

// The cache is a disk of its own that never fails.
absl::Status Flush(Disk& cache, Disk& disk, Prefix& prefix, DatasetId id, Promises* promises) {
  (*promises)[id] = Promise::kAbsent;
  const auto catalogues = CataloguesOf(prefix.run(), id);
  std::vector<CopyJob> jobs;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    const std::string from = fmt::format("/rank_{}", rank);
    CAIRN_RETURN_IF_ERROR(WriteTestFile(cache, from, ContentOf(id, rank)));
    const catalogue::FileEntry& file = catalogues[rank].file(0);
    jobs.push_back({.from = from, .to = prefix.FilePath(file.prefix_name()), .entry = &file});
  }
  Throttle throttle(0);
  TransferProgress progress;
  CAIRN_RETURN_IF_ERROR(CopyFiles(cache, disk, jobs, throttle, progress, nullptr));
  (*promises)[id] = Promise::kEither;
  CAIRN_RETURN_IF_ERROR(prefix.Commit(TestDescriptor(id, kRanks), catalogues));
  (*promises)[id] = Promise::kWhole;
  return absl::OkStatus();
}

absl::Status Remove(Prefix& prefix, DatasetId id, Promises* promises) {
  (*promises)[id] = Promise::kEither;
  CAIRN_RETURN_IF_ERROR(prefix.Remove(id, CataloguesOf(prefix.run(), id)));
  (*promises)[id] = Promise::kAbsent;
  return absl::OkStatus();
}

absl::Status History(Disk& cache, Disk& disk, Promises* promises) {
  CAIRN_ASSIGN_OR_RETURN(auto prefix, Prefix::Open(disk, kPath));
  CAIRN_RETURN_IF_ERROR(Flush(cache, disk, *prefix, 1, promises));
  CAIRN_RETURN_IF_ERROR(Flush(cache, disk, *prefix, 2, promises));
  CAIRN_RETURN_IF_ERROR(Remove(*prefix, 1, promises));
  CAIRN_RETURN_IF_ERROR(Flush(cache, disk, *prefix, 3, promises));
  CAIRN_RETURN_IF_ERROR(Remove(*prefix, 3, promises));
  return absl::OkStatus();
}

void ExpectPromisesKept(Disk& cache, Disk& disk, const Promises& promises) {
  ASSERT_OK_AND_ASSIGN(auto prefix, Prefix::Open(disk, kPath));
  ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
  for (const std::string& warning : prefix->TakeWarnings()) ADD_FAILURE() << "a crash is no damage: " << warning;
  for (const auto& [id, promise] : promises) {
    if (promise == Promise::kEither) continue;
    EXPECT_EQ(committed.contains(id), promise == Promise::kWhole) << "dataset " << id;
  }
  for (const auto& [id, dataset] : committed) {
    EXPECT_TRUE(dataset.by_cairn);
    ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(id));
    for (const catalogue::Catalogue& catalogue : catalogues) {
      EXPECT_OK(VerifyFile(disk, prefix->FilePath(catalogue.file(0).prefix_name()), catalogue.file(0)));
    }
  }
  // For SCR, too: what the index lists is what is committed.
  if (!committed.empty()) {
    ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, ReadTree(disk, "/pfs/demo/.scr/index.scr"));
    ASSERT_OK_AND_ASSIGN(const scr::Index index, scr::GetIndex(tree));
    for (const auto& [id, entry] : index.datasets) EXPECT_TRUE(committed.contains(id)) << "dataset " << id;
  }
  Promises next;
  EXPECT_OK(Flush(cache, disk, *prefix, 10, &next));
  EXPECT_TRUE(prefix->Committed()->at(10).current);
}

TEST(PrefixCrashTest, AfterAPowerFailureAnywhereExactlyThePromisedDatasetsAreCommitted) {
  FakeDisk cache;
  std::uint64_t operations = 0;
  {
    FakeDisk disk;
    Promises promises;
    ASSERT_OK(History(cache, disk, &promises));
    operations = disk.operations();
  }
  for (std::uint64_t n = 1; n <= operations && !HasFailure(); ++n) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(fmt::format("power fails at operation {} of {}, seed {}", n, operations, seed));
      FakeDisk disk;
      Promises promises;
      disk.CrashAt(n);
      EXPECT_FALSE(History(cache, disk, &promises).ok());
      disk.Restart(seed * 104729 + n);
      ExpectPromisesKept(cache, disk, promises);
    }
  }
}

// After an error of the storage, the same call again comes to the same end.
TEST(PrefixCrashTest, AfterAnErrorAnywhereTheNextTrySucceeds) {
  FakeDisk cache;
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE(fmt::format("operation {} fails", n));
    FakeDisk disk;
    Promises promises;
    ASSERT_OK_AND_ASSIGN(auto prefix, Prefix::Open(disk, kPath));
    ASSERT_OK(Flush(cache, disk, *prefix, 1, &promises));
    FakeFault fault;
    fault.nth = n;
    disk.FailOn(fault);
    const bool flushed = Flush(cache, disk, *prefix, 2, &promises).ok();
    const bool removed = Remove(*prefix, 1, &promises).ok();
    disk.ClearFaults();
    const absl::Status again = Flush(cache, disk, *prefix, 2, &promises);
    EXPECT_TRUE(again.ok() || absl::IsAlreadyExists(again)) << again.ToString();
    EXPECT_OK(Remove(*prefix, 1, &promises));
    ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
    EXPECT_EQ(committed.size(), 1u);
    EXPECT_TRUE(committed.contains(2));
    if (flushed && removed) break;
  }
}

}  // namespace
}  // namespace cairn
