// Leases as files, on each kind of file system that records may lie on. (What a challenger concludes from them:
// lease_watch_test.cc.)
#include "storage/place/prefix/lease.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/kvtree/tree.h"
#include "storage/place/arbiter/folder_arbiter.h"
#include "tests/support/fake_disk.h"
#include "tests/support/fiber.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Names = std::vector<std::string>;

constexpr char kFolder[] = "/p/.cairn";
const RunId kRun = *RunId::Parse("00112233445566778899aabbccddeeff");
constexpr char kCache[] = "0123456789abcdef0123456789abcdef";

LeaseRecord Record(std::string what = "rank 0 of 4") {
  return {.run = kRun,
          .launch = 3,
          .epoch = 0,
          .counter = 1,
          .cache = kCache,
          .host = "node7",
          .pid = 123,
          .term_ms = 120'000,
          .state = LeaseRecord::State::kLive,
          .what = std::move(what)};
}

LeaseRecord WithCounter(LeaseRecord record, std::uint64_t counter) {
  record.counter = counter;
  return record;
}

std::string PathOf(LaunchId launch, std::uint64_t epoch) {
  return std::string(kFolder) + "/" + lease::NameOf(launch, epoch);
}

// Whole, over what is there.
void Put(Disk& disk, const std::string& path, const std::string& bytes) {
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open(path, {.writable = true, .create = true}));
  if (!bytes.empty()) {
    ASSERT_OK(file->WriteAt(0, std::as_bytes(std::span(bytes))));
  }
  ASSERT_OK(file->Sync());
}

std::string Bytes(Disk& disk, const std::string& path) {
  const auto file = disk.Open(path, {});
  EXPECT_OK(file);
  if (!file.ok()) return "";
  std::string bytes((*file)->Info()->bytes, '\0');
  EXPECT_OK((*file)->ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

std::unique_ptr<Arbiter> At(Disk& disk) {
  return MakeFolderArbiter(disk, "/p");
}

absl::StatusOr<std::optional<LeaseSeen>> Find(Disk& disk, LaunchId launch = 3) {
  CAIRN_ASSIGN_OR_RETURN(const Names names, disk.List(kFolder));
  return lease::Find(*At(disk), launch, names);
}

// REQUIRES: there is one.
LeaseSeen Seen(Disk& disk) {
  const auto seen = Find(disk);
  EXPECT_OK(seen);
  EXPECT_TRUE(seen.ok() && seen->has_value());
  return seen.ok() && seen->has_value() ? **seen : LeaseSeen();
}

TEST(LeaseNameTest, NamesAreReadBackAndNoOthers) {
  EXPECT_EQ(lease::NameOf(3, 17), "launch.3.17.lease");
  EXPECT_EQ(lease::Parse("launch.3.17.lease"), std::pair(LaunchId{3}, std::uint64_t{17}));
  for (const char* name :
       {"", "launch.3", "launch.3.lease", "launch.3.17", "launch.0.1.lease", "launch.1.0.lease", "launch.01.1.lease",
        "launch.1.01.lease", "launch.1.1.1.lease", "launch.-1.1.lease", "launch.1000000000000000000.1.lease",
        "launch.1.1000000000000000000.lease", "launch.1..lease", "launch..1.lease", ".lease", "alaunch.1.1.lease",
        "launch.1.1.lease.once.cairn-work0123456789abcdef", "launch.1.base", "launch.1.1.leases"}) {
    EXPECT_FALSE(lease::Parse(name)) << name;
  }
}

// --- The file ---

enum class FileSystem { kLinks, kRenames, kNeither };

class LeaseFileTest : public ::testing::TestWithParam<FileSystem> {
 protected:
  static std::unique_ptr<FakeDisk> NewDisk() {
    auto disk = std::make_unique<FakeDisk>(
        FakeDiskOptions{.links = GetParam() == FileSystem::kLinks, .renames_new = GetParam() != FileSystem::kNeither});
    EXPECT_OK(disk->MakeDirectory("/p", 0700));
    EXPECT_OK(disk->MakeDirectory(kFolder, 0700));
    disk->SyncAll();
    return disk;
  }
  static absl::StatusOr<LeaseRecord> Make(Disk& disk, LeaseRecord record = Record()) {
    return lease::Make(*At(disk), std::move(record));
  }

  const std::unique_ptr<FakeDisk> disk_ = NewDisk();
};

std::string NameOfFileSystem(const ::testing::TestParamInfo<FileSystem>& info) {
  const char* const names[] = {"Links", "Renames", "Neither"};
  return names[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(FileSystems, LeaseFileTest,
                         ::testing::Values(FileSystem::kLinks, FileSystem::kRenames, FileSystem::kNeither),
                         NameOfFileSystem);

TEST_P(LeaseFileTest, WhatIsMadeIsFoundWholeAndAlone) {
  ASSERT_OK_AND_ASSIGN(const LeaseRecord made, Make(*disk_));
  EXPECT_EQ(made.epoch, 1u);
  EXPECT_EQ(disk_->List(kFolder).value(), (Names{"launch.3.1.lease"}));
  EXPECT_EQ(disk_->Info(PathOf(3, 1))->bytes, lease::kBytes);
  EXPECT_EQ(disk_->Info(PathOf(3, 1))->mode, 0100600u);
  const LeaseSeen seen = Seen(*disk_);
  EXPECT_EQ(seen.epoch, 1u);
  EXPECT_EQ(seen.bytes, Bytes(*disk_, PathOf(3, 1)));
  EXPECT_EQ(seen.record, made);
}

TEST_P(LeaseFileTest, EachMakerGetsTheNextEpochOfItsLaunchAndTheHighestCounts) {
  ASSERT_OK(Make(*disk_));
  LeaseRecord other = Record("another launch");
  other.launch = 30;
  EXPECT_EQ(Make(*disk_, other)->epoch, 1u);
  Put(*disk_, PathOf(3, 41), "not a lease");
  EXPECT_EQ(Make(*disk_, Record("second"))->epoch, 42u);
  EXPECT_EQ(Seen(*disk_).record->what, "second");
  EXPECT_EQ((*Find(*disk_, 30))->record->what, "another launch");
  EXPECT_FALSE(Find(*disk_, 31)->has_value());
}

TEST_P(LeaseFileTest, ALeaseIsWrittenOverInPlace) {
  ASSERT_OK_AND_ASSIGN(LeaseRecord record, Make(*disk_, Record(std::string(500, 'w'))));
  const std::uint64_t inode = disk_->Info(PathOf(3, 1))->inode;
  record.counter = 2;
  record.what = "short";
  record.state = LeaseRecord::State::kDraining;
  ASSERT_OK(lease::Write(*At(*disk_), record));
  EXPECT_EQ(disk_->Info(PathOf(3, 1))->inode, inode);
  EXPECT_EQ(disk_->Info(PathOf(3, 1))->bytes, lease::kBytes);
  EXPECT_EQ(Seen(*disk_).record, record);
  record.state = LeaseRecord::State::kEnded;
  ASSERT_OK(lease::Write(*At(*disk_), record));
  EXPECT_EQ(Seen(*disk_).record, record);
  EXPECT_EQ(disk_->List(kFolder).value(), (Names{"launch.3.1.lease"}));
}

TEST_P(LeaseFileTest, AWriteToALeaseThatIsGoneMakesNone) {
  ASSERT_OK_AND_ASSIGN(const LeaseRecord record, Make(*disk_));
  ASSERT_OK(disk_->Remove(PathOf(3, 1)));
  EXPECT_STATUS(StatusCode::kNotFound, lease::Write(*At(*disk_), record), "launch.3.1.lease");
  EXPECT_EQ(disk_->List(kFolder).value(), Names{});
}

TEST_P(LeaseFileTest, AfterACrashAtAnyOperationOfMakeAnotherCanBeMade) {
  LeaseRecord first = Record();
  first.epoch = 1;
  bool interrupted = true;
  for (std::uint64_t n = 1; interrupted; ++n) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      SCOPED_TRACE(fmt::format("power fails at operation {}, seed {}", n, seed));
      const auto disk = NewDisk();
      disk->CrashAt(n);
      const auto made = Make(*disk);
      interrupted = disk->crashed();
      disk->Restart(seed);
      ASSERT_OK_AND_ASSIGN(const auto found, Find(*disk));
      // None, or an empty file that its maker did not finish, or the lease.
      if (made.ok()) {
        EXPECT_TRUE(found && found->record == *made) << "what a maker was told is durable";
      } else if (found && !found->bytes.empty()) {
        EXPECT_EQ(found->record, first);
      }
      ASSERT_OK_AND_ASSIGN(const LeaseRecord second, Make(*disk, Record("second")));
      EXPECT_EQ(second.epoch, found ? 2u : 1u);
      EXPECT_EQ(Seen(*disk).record, second);
    }
  }
}

TEST_P(LeaseFileTest, AfterAFailureAtAnyOperationOfMakeAnotherCanBeMade) {
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE(fmt::format("operation {} fails", n));
    const auto disk = NewDisk();
    const std::uint64_t before = disk->operations();
    disk->FailOn({.nth = n});
    const auto made = Make(*disk);
    const bool interrupted = disk->operations() - before >= n;
    disk->ClearFaults();
    ASSERT_OK_AND_ASSIGN(const auto found, Find(*disk));
    if (made.ok()) {
      EXPECT_TRUE(found && found->record == *made);
    }
    ASSERT_OK_AND_ASSIGN(const LeaseRecord second, Make(*disk, Record("second")));
    EXPECT_EQ(Seen(*disk).record, second);
    if (!interrupted || HasFailure()) break;
  }
}

TEST_P(LeaseFileTest, ACrashAtAnyOperationOfWriteLeavesTheOldOrTheNew) {
  bool interrupted = true;
  for (std::uint64_t n = 1; interrupted; ++n) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const auto disk = NewDisk();
      ASSERT_OK_AND_ASSIGN(const LeaseRecord old, Make(*disk));
      const LeaseRecord next = WithCounter(old, 2);
      disk->CrashAt(n);
      const absl::Status written = lease::Write(*At(*disk), next);
      interrupted = disk->crashed();
      disk->Restart(seed);
      const LeaseSeen seen = Seen(*disk);
      EXPECT_TRUE(seen.record == next || (!written.ok() && seen.record == old)) << "operation " << n;
    }
  }
}

TEST_P(LeaseFileTest, ATornWriteIsNoRecordUntilTheNextWrite) {
  ASSERT_OK_AND_ASSIGN(const LeaseRecord old, Make(*disk_, Record(std::string(500, 'a'))));
  const std::string before = Seen(*disk_).bytes;
  LeaseRecord next = WithCounter(old, 2);
  next.what = std::string(500, 'b');
  disk_->FailOn({.op = FakeOp::kWrite});
  EXPECT_STATUS(StatusCode::kUnavailable, lease::Write(*At(*disk_), next), "launch.3.1.lease");
  const LeaseSeen torn = Seen(*disk_);
  EXPECT_FALSE(torn.record);
  EXPECT_EQ(torn.epoch, 1u);
  EXPECT_NE(torn.bytes, before) << "it has changed all the same";
  ASSERT_OK(lease::Write(*At(*disk_), next));
  EXPECT_EQ(Seen(*disk_).record, next);
}

// --- Makers at the same time ---

TEST_P(LeaseFileTest, AMakerThatAnotherForestallsTakesTheEpochAfterIt) {
  // The other one comes after the listing, right before the name is made.
  bool come = false;
  disk_->SetHook([&](FakeOp op, const std::string& path) {
    if (come || path != PathOf(3, 1) || op == FakeOp::kInfo) return;
    come = true;
    EXPECT_EQ(Make(*disk_, Record("the other"))->epoch, 1u);
  });
  ASSERT_OK_AND_ASSIGN(const LeaseRecord made, Make(*disk_));
  EXPECT_TRUE(come);
  EXPECT_EQ(made.epoch, 2u);
  EXPECT_EQ(Seen(*disk_).record, made);
  const auto other = lease::Find(*At(*disk_), 3, {lease::NameOf(3, 1)});
  EXPECT_EQ((*other)->record->what, "the other");
}

TEST_P(LeaseFileTest, MakersInAnyOrderGetEpochsOfTheirOwn) {
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const auto disk = NewDisk();
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<LeaseRecord> made;
    for (int i = 0; i < 3; ++i) {
      fibers.push_back(std::make_unique<Fiber>([&, i] {
        auto record = Make(*disk, Record(fmt::format("maker {}", i)));
        EXPECT_OK(record);
        if (record.ok()) made.push_back(*std::move(record));
      }));
    }
    disk->SetHook([](FakeOp, const std::string&) {
      if (Fiber::InOne()) Fiber::Pause();
    });
    while (!fibers.empty()) {
      const std::size_t i = (random() >> 16) % fibers.size();
      for (std::uint64_t steps = 1 + (random() >> 16) % 8; steps > 0 && !fibers[i]->at_end(); --steps) {
        fibers[i]->Resume();
      }
      if (fibers[i]->at_end()) fibers.erase(fibers.begin() + static_cast<std::ptrdiff_t>(i));
    }
    ASSERT_EQ(made.size(), 3u);
    std::uint64_t highest = 0;
    for (const LeaseRecord& record : made) {
      const auto seen = lease::Find(*At(*disk), 3, {lease::NameOf(3, record.epoch)});
      ASSERT_OK(seen);
      EXPECT_TRUE(*seen && (*seen)->record == record) << record.epoch;
      highest = std::max(highest, record.epoch);
    }
    EXPECT_EQ(Seen(*disk).epoch, highest);
  }
}

// --- What else may lie there ---

class LeaseBytesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(MakeDirectories(disk_, kFolder));
    ASSERT_OK(lease::Make(*At(disk_), Record()));
  }
  // As Make does it, of any tree.
  void PutTree(const kvtree::Tree& tree) {
    std::string bytes = kvtree::Encode(tree);
    bytes.resize(lease::kBytes, '\0');
    Put(disk_, PathOf(3, 1), bytes);
  }
  kvtree::Tree Tree() {
    std::uint64_t declared = 0;
    return *kvtree::Decode("lease", Bytes(disk_, PathOf(3, 1)), &declared);
  }

  FakeDisk disk_;
};

constexpr std::uint64_t kNumberMax = 999'999'999'999'999'999;  // in a name

TEST_F(LeaseBytesTest, AnyBitFlipOrCutIsNoRecord) {
  const std::string whole = Bytes(disk_, PathOf(3, 1));
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    Put(disk_, PathOf(3, 1), bytes);
    const LeaseSeen seen = Seen(disk_);
    ASSERT_FALSE(seen.record) << "bit " << bit;
    ASSERT_EQ(seen.bytes, bytes);
  }
  for (std::size_t n = 0; n < whole.size(); ++n) {
    Put(disk_, PathOf(3, 1), whole.substr(0, n));
    const LeaseSeen seen = Seen(disk_);
    ASSERT_FALSE(seen.record) << "cut at " << n;
    ASSERT_EQ(seen.bytes, whole.substr(0, n));
  }
}

TEST_F(LeaseBytesTest, AFileThatIsTooLongIsNoRecordAndNotReadToItsEnd) {
  const std::string whole = Bytes(disk_, PathOf(3, 1));
  Put(disk_, PathOf(3, 1), whole + std::string(100'000, '\0'));
  EXPECT_FALSE(Seen(disk_).record);
  EXPECT_EQ(Seen(disk_).bytes, whole);
}

TEST_F(LeaseBytesTest, FieldsThatMakeNoSenseAreNoRecord) {
  const kvtree::Tree good = Tree();
  PutTree(good);
  EXPECT_TRUE(Seen(disk_).record);
  const std::vector<std::pair<const char*, const char*>> bad = {
      {"VERSION", "2"},      {"RUN", "no run"}, {"LAUNCH", "4"}, {"EPOCH", "2"},      {"COUNTER", "-1"},
      {"PID", "4294967296"}, {"TERM", "0"},     {"TERM", "1s"},  {"STATE", "ASLEEP"}, {"STATE", ""}};
  for (const auto& [key, value] : bad) {
    kvtree::Tree tree = good;
    tree.Set(key, value);
    PutTree(tree);
    EXPECT_FALSE(Seen(disk_).record) << key << " " << value;
  }
  for (const char* key : {"VERSION", "RUN", "LAUNCH", "EPOCH", "COUNTER", "CACHE", "HOST", "PID", "TERM", "STATE"}) {
    kvtree::Tree tree = good;
    tree.Erase(key);
    PutTree(tree);
    EXPECT_FALSE(Seen(disk_).record) << "without " << key;
  }
}

TEST_F(LeaseBytesTest, AnotherEpochsContentIsNoRecord) {
  Put(disk_, PathOf(3, 2), Bytes(disk_, PathOf(3, 1)));
  EXPECT_EQ(Seen(disk_).epoch, 2u);
  EXPECT_FALSE(Seen(disk_).record);
}

TEST_F(LeaseBytesTest, WhatIsNoFileIsNoRecord) {
  ASSERT_OK(disk_.MakeDirectory(PathOf(3, 2), 0700));
  EXPECT_EQ(Seen(disk_).epoch, 2u);
  EXPECT_FALSE(Seen(disk_).record);
  EXPECT_EQ(lease::Make(*At(disk_), Record())->epoch, 3u);
}

TEST_F(LeaseBytesTest, ALeaseThatWentSinceTheListingIsPassedOver) {
  const auto found = lease::Find(*At(disk_), 3, {lease::NameOf(3, 1), lease::NameOf(3, 2)});
  ASSERT_OK(found);
  EXPECT_EQ((*found)->epoch, 1u);
}

TEST_F(LeaseBytesTest, WhatCannotBeReadForOtherReasonsIsAnError) {
  disk_.FailOn({.op = FakeOp::kRead, .status = absl::UnavailableError("ESTALE")});
  EXPECT_STATUS(StatusCode::kUnavailable, Find(disk_), "ESTALE");
  disk_.FailOn({.op = FakeOp::kOpen, .status = absl::PermissionDeniedError("EACCES")});
  EXPECT_STATUS(StatusCode::kPermissionDenied, Find(disk_), "EACCES");
}

TEST_F(LeaseBytesTest, TheLongestRecordFitsAndItsTextsAreCutAndCleaned) {
  LeaseRecord record = Record();
  record.launch = kNumberMax;
  record.counter = record.term_ms = UINT64_MAX;
  record.pid = UINT32_MAX;
  record.state = LeaseRecord::State::kDraining;
  record.host = std::string(63, 'h') + "\xc3\xa9 and more";  // a character of two bytes across the limit
  record.what = std::string("a\0b\nc\x7f", 6) + std::string(600, 'w');
  record.cache = std::string(40, 'c');
  ASSERT_OK(lease::Make(*At(disk_), record));
  const auto seen = Find(disk_, kNumberMax);
  ASSERT_TRUE(seen.ok() && *seen && (*seen)->record);
  EXPECT_EQ((*seen)->record->host, std::string(63, 'h'));
  EXPECT_EQ((*seen)->record->what, "a?b?c?" + std::string(lease::kWhatBytesMax - 6, 'w'));
  EXPECT_EQ((*seen)->record->cache, std::string(32, 'c'));
  EXPECT_EQ((*seen)->record->term_ms, UINT64_MAX);
}

TEST_F(LeaseBytesTest, EmptyTextsAreKept) {
  LeaseRecord record = Record("");
  record.host = record.cache = "";
  record.epoch = 1;
  ASSERT_OK(lease::Write(*At(disk_), record));
  EXPECT_EQ(Seen(disk_).record, record);
}

// Other daemons compare it, of this release and of others.
TEST_F(LeaseBytesTest, ThatNothingIsLeftIsSaidInTheSameWordsForEver) {
  EXPECT_EQ(lease::kLeftNothing, "nothing is in caches of nodes only");
  LeaseRecord record = Record(std::string(lease::kLeftNothing));
  record.epoch = 1;
  record.state = LeaseRecord::State::kEnded;
  ASSERT_OK(lease::Write(*At(disk_), record));
  EXPECT_EQ(Seen(disk_).record->what, lease::kLeftNothing);
}

TEST_F(LeaseBytesTest, ALeaseWithoutTermOrLaunchIsNotWritten) {
  LeaseRecord record = Record();
  record.term_ms = 0;
  EXPECT_STATUS(StatusCode::kInvalidArgument, lease::Make(*At(disk_), record), "term of 0 ms");
  record = Record();
  for (const LaunchId launch : {LaunchId{0}, kNumberMax + 1}) {
    record.launch = launch;
    EXPECT_STATUS(StatusCode::kInvalidArgument, lease::Make(*At(disk_), record), fmt::format("launch {}", launch));
  }
  EXPECT_EQ(disk_.List(kFolder).value(), (Names{"launch.3.1.lease"}));
}

TEST_F(LeaseBytesTest, BeyondTheLastEpochNoneIsMade) {
  Put(disk_, PathOf(3, kNumberMax), "");
  EXPECT_STATUS(StatusCode::kResourceExhausted, lease::Make(*At(disk_), Record()), "launch.3.999999999999999999.lease");
}

}  // namespace
}  // namespace cairn
