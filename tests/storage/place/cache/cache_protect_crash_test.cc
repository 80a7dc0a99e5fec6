// The power fails at every operation while sets are put in force and ranks are added. Afterwards the dataset is whole,
// by the record before or after the call, or by none; what the record names is there, and SCR's records agree with it.
#include <gtest/gtest.h>

#include <optional>

#include "tests/storage/place/cache/protect_fixture.h"

namespace cairn {
namespace {

// What a start may find.
struct Allowed {
  std::vector<std::set<Rank>> ranks;
  std::vector<kept::Record> records;
};

absl::Status Protect(Disk& disk, CacheFolder& folder, const kept::Set& set, Allowed* allowed) {
  const std::string dataset = folder.DatasetPath(kProtected);
  const scr::Descriptor descriptor = ProtectedDescriptor({0, 2});
  CAIRN_ASSIGN_OR_RETURN(const kept::Record record, WriteKept(disk, dataset, descriptor, set));
  allowed->records.push_back(record);
  CAIRN_RETURN_IF_ERROR(folder.Protect(descriptor, record));
  allowed->records = {record};
  return absl::OkStatus();
}

// What the ranks kept for the set before stays until the new one is known to be whole.
absl::Status ProtectBeside(Disk& disk, CacheFolder& folder, const kept::Set& set, Allowed* allowed) {
  const kept::Record before = allowed->records.front();
  const scr::Descriptor descriptor = ProtectedDescriptor({0, 2});
  CAIRN_ASSIGN_OR_RETURN(const kept::Record made, WriteKept(disk, folder.DatasetPath(kProtected), descriptor, set));
  allowed->records.push_back(WithOlder(made, before));
  CAIRN_RETURN_IF_ERROR(folder.Protect(descriptor, allowed->records.back()));
  allowed->records = {allowed->records.back(), made};
  CAIRN_RETURN_IF_ERROR(folder.Protect(descriptor, WithoutOlder(allowed->records.front(), {set})));
  allowed->records = {made};
  return absl::OkStatus();
}

absl::Status AddRank(Disk& disk, CacheFolder& folder, Rank rank, bool complete, Allowed* allowed) {
  std::set<Rank> now = allowed->ranks.front();
  CAIRN_RETURN_IF_ERROR(folder.Reopen(ProtectedDescriptor({now.begin(), now.end()})));
  CAIRN_RETURN_IF_ERROR(CommitProtected(disk, folder, rank));
  if (!complete) {
    folder.EndReopened(kProtected);
    return absl::OkStatus();
  }
  now.insert(rank);
  allowed->ranks.push_back(now);
  CAIRN_RETURN_IF_ERROR(folder.Complete(ProtectedDescriptor({now.begin(), now.end()})));
  allowed->ranks = {now};
  return absl::OkStatus();
}

absl::Status History(Disk& disk, CacheFolder& folder, Allowed* allowed) {
  CAIRN_RETURN_IF_ERROR(Protect(disk, folder, TestSet(kept::XOR, {0, 1, 2, 3}), allowed));
  CAIRN_RETURN_IF_ERROR(ProtectBeside(disk, folder, TestSet(kept::RS, {0, 1, 2}), allowed));
  CAIRN_RETURN_IF_ERROR(Protect(disk, folder, TestSet(kept::PARTNER, {2, 3}), allowed));  // rank 0 is single again
  CAIRN_RETURN_IF_ERROR(AddRank(disk, folder, 1, false, allowed));
  CAIRN_RETURN_IF_ERROR(AddRank(disk, folder, 3, true, allowed));
  const scr::Descriptor descriptor = ProtectedDescriptor({0, 2, 3});
  allowed->records.push_back(EmptyRecord(descriptor));
  CAIRN_RETURN_IF_ERROR(folder.Protect(descriptor, EmptyRecord(descriptor)));
  allowed->records.erase(allowed->records.begin());
  return absl::OkStatus();
}

// A dataset that is whole and durable, before all that.
struct Start {
  FakeDisk disk;
  std::unique_ptr<CacheFolder> folder;
  Allowed allowed{.ranks = {{0, 2}}, .records = {kept::Record()}};

  Start() {
    auto opened = OpenProtected(disk);
    EXPECT_OK(opened.status());
    folder = *std::move(opened);
    EXPECT_OK(WriteProtected(disk, *folder, {0, 2}));
    disk.SyncAll();
  }
};

bool Names(const kept::Record& a, const kept::Record& b) {
  if (a.files_size() != b.files_size()) return false;
  for (int i = 0; i < a.files_size(); ++i) {
    if (a.files(i).SerializeAsString() != b.files(i).SerializeAsString()) return false;
  }
  return true;
}

void ExpectAllowed(Start& start, bool warned_too) {
  ASSERT_OK_AND_ASSIGN(const auto folder, OpenProtected(start.disk));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  for (const std::string& warning : load.warnings) {
    if (!warned_too) ADD_FAILURE() << "a crash is no damage: " << warning;
  }
  ASSERT_TRUE(load.whole.contains(kProtected));
  const CachedDataset& dataset = load.whole.at(kProtected);
  const std::string path = folder->DatasetPath(kProtected);
  const std::set<Rank> ranks = RanksOf(dataset);
  EXPECT_EQ(std::ranges::count(start.allowed.ranks, ranks), 1) << ::testing::PrintToString(ranks);
  bool known = false;
  for (const kept::Record& record : start.allowed.records) known = known || Names(record, dataset.redundancy);
  EXPECT_TRUE(known) << dataset.redundancy.ShortDebugString();
  ExpectKept(start.disk, path, dataset.redundancy);
  ExpectRecordsAgree(start.disk, path, ranks, dataset.redundancy);
  for (const catalogue::Catalogue& rank : dataset.ranks) {
    EXPECT_OK(VerifyFile(start.disk, path + "/" + rank.file(0).name(), rank.file(0)));
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, start.disk.List(path));
  EXPECT_EQ(names.size(), 2 * ranks.size() + 1) << ::testing::PrintToString(names);
}

std::uint64_t OperationsOfHistory() {
  Start start;
  const std::uint64_t before = start.disk.operations();
  EXPECT_OK(History(start.disk, *start.folder, &start.allowed));
  return start.disk.operations() - before;
}

TEST(CacheProtectCrashTest, AfterAPowerFailureAnywhereItIsWholeByEitherRecord) {
  const std::uint64_t operations = OperationsOfHistory();
  for (std::uint64_t n = 1; n <= operations && !::testing::Test::HasFailure(); ++n) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(fmt::format("power fails at operation {} of {}, seed {}", n, operations, seed));
      Start start;
      start.disk.CrashAt(n);
      History(start.disk, *start.folder, &start.allowed).IgnoreError();  // EndReopened does not tell
      start.disk.Restart(seed * 7919 + n);
      ExpectAllowed(start, false);
    }
  }
}

// So is a start that puts this in order.
TEST(CacheProtectCrashTest, APowerFailureDuringTheStartThatFollowsLosesNothing) {
  const std::uint64_t operations = OperationsOfHistory();
  for (std::uint64_t n = 1; n <= operations && !::testing::Test::HasFailure(); n += 3) {
    for (std::uint64_t m = 1 + n % 7; m < 120; m += 11) {
      SCOPED_TRACE(fmt::format("power fails at operation {} of {}, then at {} of the start", n, operations, m));
      Start start;
      start.disk.CrashAt(n);
      History(start.disk, *start.folder, &start.allowed).IgnoreError();
      start.disk.Restart(n);
      start.disk.CrashAt(m);
      if (auto half = OpenProtected(start.disk); half.ok()) (*half)->Load().IgnoreError();
      start.disk.Restart(n + m);
      ExpectAllowed(start, false);
    }
  }
}

// The index goes with the power, too: the dataset is found by its folder.
TEST(CacheProtectCrashTest, ItIsWholeWithoutTheIndex) {
  const std::uint64_t operations = OperationsOfHistory();
  for (std::uint64_t n = 1; n <= operations && !::testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE(fmt::format("power fails at operation {} of {}", n, operations));
    Start start;
    start.disk.CrashAt(n);
    History(start.disk, *start.folder, &start.allowed).IgnoreError();
    start.disk.Restart(n);
    ASSERT_OK(start.disk.Remove(start.folder->path() + "/cindex.scrinfo"));
    start.disk.SyncAll();
    ExpectAllowed(start, true);
  }
}

// A start that takes back what damage has ended: the next one goes on, and takes nothing for damage that it left.
TEST(CacheProtectCrashTest, AStartThatEndsAProtectionMayBeCutShort) {
  for (const bool record_too : {false, true}) {
    for (std::uint64_t m = 1; m < 200; ++m) {
      SCOPED_TRACE(fmt::format("power fails at operation {} of the start, the record is damaged: {}", m, record_too));
      Start start;
      const std::string records = RecordsFolder(start.folder->DatasetPath(kProtected)) + "/";
      ASSERT_OK(Protect(start.disk, *start.folder, TestSet(kept::XOR, {0, 1, 2}), &start.allowed));
      kept::Record rest = start.allowed.records.front();
      if (record_too) {
        start.disk.FlipBit(records + "redundancy.cairn", 8 * 40);
        rest.clear_files();
      } else {
        ASSERT_OK(start.disk.Remove(records + rest.files(0).file().name()));
        rest.mutable_files()->DeleteSubrange(0, 2);
      }
      start.disk.SyncAll();
      start.allowed.records = {rest};
      start.disk.CrashAt(m);
      if (auto half = OpenProtected(start.disk); half.ok()) (*half)->Load().IgnoreError();
      start.disk.Restart(m);
      ASSERT_OK_AND_ASSIGN(const auto folder, OpenProtected(start.disk));
      ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
      for (const std::string& warning : load.warnings)
        EXPECT_NE(warning.find("no other"), std::string::npos) << warning;
      ExpectAllowed(start, false);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// A call that fails and is done again.
TEST(CacheProtectCrashTest, AfterAnErrorTheNextCallSucceeds) {
  const std::uint64_t operations = OperationsOfHistory();
  for (std::uint64_t n = 1; n <= operations && !::testing::Test::HasFailure(); n += 2) {
    SCOPED_TRACE(fmt::format("operation {} of {} fails", n, operations));
    Start start;
    start.disk.FailOn({.nth = n});
    History(start.disk, *start.folder, &start.allowed).IgnoreError();
    start.disk.ClearFaults();
    ASSERT_OK_AND_ASSIGN(const auto folder, OpenProtected(start.disk));
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
    ASSERT_TRUE(load.whole.contains(kProtected));
    const std::set<Rank> ranks = RanksOf(load.whole.at(kProtected));
    const scr::Descriptor descriptor = ProtectedDescriptor({ranks.begin(), ranks.end()});
    const std::string path = folder->DatasetPath(kProtected);
    ASSERT_OK_AND_ASSIGN(const kept::Record record,
                         WriteKept(start.disk, path, descriptor, TestSet(kept::XOR, {0, 1, 2})));
    ASSERT_OK(folder->Protect(descriptor, record));
    ExpectRecordsAgree(start.disk, path, ranks, record);
  }
}

// It is whole with the rank or without, and the others keep what they kept.
TEST(CacheProtectCrashTest, APowerFailureWhileARankGoesAside) {
  std::uint64_t operations = 0;
  for (std::uint64_t n = 0; (n == 0 || n <= operations) && !::testing::Test::HasFailure(); ++n) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(fmt::format("power fails at operation {} of {}, seed {}", n, operations, seed));
      Start start;
      ASSERT_OK(Protect(start.disk, *start.folder, TestSet(kept::XOR, {0, 1, 2}), &start.allowed));
      kept::Record rest = start.allowed.records.front();
      rest.mutable_files()->DeleteSubrange(2, 2);
      const std::uint64_t before = start.disk.operations();
      if (n > 0) start.disk.CrashAt(n);
      const absl::Status gone = start.folder->SetRankAside(kProtected, 2);
      if (n == 0) {
        ASSERT_OK(gone);
        operations = start.disk.operations() - before;
      }
      start.disk.Restart(seed * 7919 + n);
      start.allowed.records.push_back(rest);
      start.allowed.ranks.push_back({0});
      if (gone.ok()) start.allowed = {.ranks = {{0}}, .records = {rest}};
      ExpectAllowed(start, true);  // a damaged copy is told of, if it is there
    }
  }
}

}  // namespace
}  // namespace cairn
