// What was never committed goes, and nothing else does.
#include "storage/place/publish/unfinished.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/transfer/work_file.h"
#include "storage/format/scr/records.h"
#include "storage/place/names.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using enum absl::StatusCode;

constexpr char kPath[] = "/pfs/demo";

// Of one rank, with the application's files out/a and out/b.
class Site {
 public:
  Site() { Open(); }
  void Open() {
    auto opened = Prefix::Open(disk, kPath);
    EXPECT_OK(opened.status());
    prefix = opened.ok() ? *std::move(opened) : nullptr;
  }
  static std::string BytesOf(const std::string& name) { return TestContent(name.size() + name.back(), 300); }
  static timespec TimeOf(const catalogue::FileEntry& file) {
    return {.tv_sec = file.mtime_s(), .tv_nsec = static_cast<long>(file.mtime_ns())};
  }
  catalogue::Catalogue CatalogueOf(DatasetId id) const {
    catalogue::Catalogue catalogue = EmptyCatalogue(prefix->run(), id, 0, 1);
    catalogue.set_files(true);
    for (const char* name : {"out/a", "out/b"}) {
      catalogue::FileEntry& entry = *catalogue.add_file();
      entry = TestEntry(name, name, BytesOf(name));
      entry.set_mode(0100640);
      entry.set_mtime_s(1'700'000'000);
      entry.set_mtime_ns(7);
    }
    return catalogue;
  }
  // With its mode and times.
  absl::Status Put(const std::string& name, const std::string& bytes, timespec mtime) {
    const std::string path = prefix->FilePath(name);
    CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, ParentOf(path)));
    CAIRN_RETURN_IF_ERROR(WriteTestFile(disk, path, bytes));
    CAIRN_RETURN_IF_ERROR(disk.SetModeAndTimes(path, 0640, mtime, mtime));
    return disk.SyncDirectory(ParentOf(path));
  }
  absl::Status PutFiles(DatasetId id) {
    const catalogue::Catalogue catalogue = CatalogueOf(id);
    for (const catalogue::FileEntry& file : catalogue.file()) {
      CAIRN_RETURN_IF_ERROR(Put(file.prefix_name(), BytesOf(file.prefix_name()), TimeOf(file)));
    }
    return absl::OkStatus();
  }
  bool IsThere(const std::string& name) { return disk.Info(prefix->FilePath(name)).ok(); }

  FakeDisk disk;
  std::unique_ptr<Prefix> prefix;
};

class UnfinishedTest : public ::testing::TestWithParam<bool>, protected Site {
 protected:
  absl::Status Remove(DatasetId id) { return RemoveUnfinished(disk, *prefix, id, {.alone = GetParam()}); }
};

INSTANTIATE_TEST_SUITE_P(Alone, UnfinishedTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Alone" : "AmongOthers"; });

TEST_P(UnfinishedTest, AllOfItGoesAndItCanNeverBeCommitted) {
  scr::Descriptor descriptor = TestDescriptor(2, 1);
  descriptor.own_files = true;
  ASSERT_OK(prefix->BeginFlush(descriptor));
  ASSERT_OK(PutFiles(2));
  ASSERT_OK(prefix->StoreCatalogue(CatalogueOf(2)));
  ASSERT_OK(Put(RoutedFolder(2) + "/not/handed/over", "x", {}));
  ASSERT_OK(Remove(2));
  for (const char* name : {"out", "ckpt.2"}) EXPECT_FALSE(IsThere(name)) << name;
  EXPECT_STATUS(kAborted, prefix->BeginFlush(descriptor), "removed");
  EXPECT_OK(Remove(2));  // nothing is left
}

TEST_P(UnfinishedTest, AFileThatIsAnotherByNowStays) {
  const catalogue::Catalogue catalogue = CatalogueOf(2);
  ASSERT_OK(prefix->StoreCatalogue(catalogue));
  ASSERT_OK(Put("out/a", "another length", TimeOf(catalogue.file(0))));
  ASSERT_OK(Put("out/b", BytesOf("out/b"), {.tv_sec = 1'800'000'000, .tv_nsec = 0}));
  ASSERT_OK(Remove(2));
  EXPECT_TRUE(IsThere("out/a"));
  EXPECT_TRUE(IsThere("out/b"));
  EXPECT_FALSE(IsThere("ckpt.2"));
}

TEST_P(UnfinishedTest, FilesOfTheApplicationsInItsFolderStay) {
  ASSERT_OK(PutFiles(2));
  ASSERT_OK(prefix->StoreCatalogue(CatalogueOf(2)));
  const std::string copy = "ckpt.2/rank_0.ckpt" + std::string(kWorkSuffix) + "01234567";  // of another dataset's flush
  for (const std::string& name : {std::string("ckpt.2/rank_0.ckpt"), copy, std::string("ckpt.2/rank_9.cat/data")}) {
    ASSERT_OK(Put(name, "x", {}));
  }
  ASSERT_OK(Remove(2));
  EXPECT_TRUE(IsThere("ckpt.2/rank_0.ckpt"));
  EXPECT_TRUE(IsThere(copy));
  EXPECT_TRUE(IsThere("ckpt.2/rank_9.cat/data"));
  EXPECT_FALSE(IsThere("ckpt.2/rank_0.cat"));
}

TEST_P(UnfinishedTest, TimesMayBeInWholeSeconds) {
  const catalogue::Catalogue catalogue = CatalogueOf(2);
  ASSERT_OK(prefix->StoreCatalogue(catalogue));
  ASSERT_OK(Put("out/a", BytesOf("out/a"), {.tv_sec = catalogue.file(0).mtime_s(), .tv_nsec = 0}));
  ASSERT_OK(Remove(2));
  EXPECT_FALSE(IsThere("out/a"));
}

TEST_P(UnfinishedTest, WhatStillWaitsIsNotInItsPlace) {
  ASSERT_OK(PutFiles(2));
  ASSERT_OK(prefix->StoreCatalogue(CatalogueOf(2)));
  ASSERT_OK(Put(AdoptedName(2, 0, 0), "", {}));
  ASSERT_OK(Remove(2));
  EXPECT_TRUE(IsThere("out/a")) << "it was there before";
  EXPECT_FALSE(IsThere("out/b"));
  EXPECT_FALSE(IsThere("ckpt.2"));
}

TEST_P(UnfinishedTest, WhatACommittedDatasetHasByTheSameNameStays) {
  scr::Descriptor descriptor = TestDescriptor(3, 1);
  descriptor.own_files = true;
  ASSERT_OK(PutFiles(3));
  ASSERT_OK(prefix->Commit(descriptor, {CatalogueOf(3)}));
  ASSERT_OK(prefix->StoreCatalogue(CatalogueOf(2)));
  ASSERT_OK(Remove(2));
  EXPECT_TRUE(IsThere("out/a"));
  EXPECT_TRUE(IsThere("out/b"));
  EXPECT_FALSE(IsThere("ckpt.2"));
  EXPECT_TRUE(prefix->Committed()->contains(3));
}

TEST_P(UnfinishedTest, AtAnotherRunsPrefixNothingGoes) {
  const auto old = std::move(prefix);
  ASSERT_OK(RemoveTree(disk, kPath));
  Open();
  ASSERT_OK(PutFiles(2));
  ASSERT_OK(prefix->StoreCatalogue(CatalogueOf(2)));
  const catalogue::Catalogue catalogue = CatalogueOf(2);
  const std::string work = TransferWorkName(prefix->FilePath("out/a"), catalogue.file(0), 2);
  ASSERT_OK(WriteTestFile(disk, work, "half"));
  EXPECT_STATUS(kFailedPrecondition,
                RemoveUnfinished(disk, *old, 2, {.known = {catalogue}, .placed = true, .alone = GetParam()}),
                "the prefix is run");
  EXPECT_TRUE(IsThere("out/a") && IsThere("ckpt.2/rank_0.cat") && disk.Info(work).ok());
}

TEST_P(UnfinishedTest, ACatalogueThatTheDiskDoesNotGiveIsWaitedFor) {
  ASSERT_OK(PutFiles(2));
  ASSERT_OK(prefix->StoreCatalogue(CatalogueOf(2)));
  disk.FailOn({.op = FakeOp::kOpen, .path_part = "rank_0.cat"});
  EXPECT_STATUS(kUnavailable, Remove(2), "injected");
  EXPECT_TRUE(IsThere("out/a"));
  ASSERT_OK(Remove(2));
  EXPECT_FALSE(IsThere("out/a"));
}

TEST_P(UnfinishedTest, KnownFilesAreInTheirPlacesOnlyIfSomebodyHasBegunToPutThemThere) {
  ASSERT_OK(PutFiles(2));
  const Leftovers waiting{.known = {CatalogueOf(2)}, .placed = false, .alone = GetParam()};
  ASSERT_OK(RemoveUnfinished(disk, *prefix, 2, waiting));
  EXPECT_TRUE(IsThere("out/a"));
  const Leftovers placed{.known = {CatalogueOf(2)}, .placed = true, .alone = GetParam()};
  ASSERT_OK(RemoveUnfinished(disk, *prefix, 2, placed));
  EXPECT_FALSE(IsThere("out/a"));
}

// --- Of an adopt ---

TEST(AloneTest, AFullDiskGetsRoom) {
  Site site;
  ASSERT_OK(site.Put(AdoptedName(2, 0, 0), std::string(100'000, 'x'), {}));
  ASSERT_OK(site.PutFiles(2));
  ASSERT_OK(site.prefix->StoreCatalogue(site.CatalogueOf(2)));
  site.disk.SetCapacity(1 << 20);
  ASSERT_OK_AND_ASSIGN(const std::uint64_t free_bytes, site.disk.FreeBytes(kPath));
  site.disk.SetCapacity((1 << 20) - free_bytes);
  ASSERT_STATUS(kResourceExhausted, WriteTestFile(site.disk, "/pfs/one_more", "x"), "");
  ASSERT_OK(RemoveUnfinished(site.disk, *site.prefix, 2, {.alone = true}));
  EXPECT_FALSE(site.IsThere("ckpt.2"));
}

// The power fails at each operation in turn: what is called again finds all that is left, and what was there before
// stays.
TEST(AloneTest, APowerFailureAnywhereIsMadeGoodByTheNextCall) {
  bool crashed = true;
  std::uint64_t n = 1;
  for (; crashed; ++n) {
    for (const std::uint64_t seed : {n, n + 1000, n + 2000}) {
      SCOPED_TRACE(fmt::format("operation {}, seed {}", n, seed));
      Site site;
      ASSERT_OK(site.PutFiles(2));
      ASSERT_OK(site.Put(AdoptedName(2, 0, 0), "", {}));  // out/a was in its place before
      ASSERT_OK(site.prefix->StoreCatalogue(site.CatalogueOf(2)));
      site.disk.SyncAll();
      site.disk.CrashAt(n);
      RemoveUnfinished(site.disk, *site.prefix, 2, {.alone = true}).IgnoreError();
      crashed = site.disk.crashed();
      site.disk.Restart(seed);
      site.Open();
      ASSERT_OK(RemoveUnfinished(site.disk, *site.prefix, 2, {.alone = true}));
      EXPECT_TRUE(site.IsThere("out/a"));
      EXPECT_FALSE(site.IsThere("out/b"));
      EXPECT_FALSE(site.IsThere("ckpt.2"));
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(n, 15u);
}

}  // namespace
}  // namespace cairn
