// Each way of making a record once, on disks that fail, lose power, and let others come between any two operations.
// (Real processes and a real file system without links: create_once_processes_test.cc.)
#include "storage/io/create_once.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/io/once_frame.h"
#include "tests/support/fake_disk.h"
#include "tests/support/fiber.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Names = std::vector<std::string>;

constexpr std::uint64_t kSeeds = 25;  // crashes tried at each operation
constexpr std::uint64_t kBytesMax = 1 << 20;

// More than a block, so that a torn write shows.
const std::string kOld(9000, 'o');
const std::string kNew(10000, 'n');

// There is nobody to wait for.
void Nobody(int) {}

void LetOthers(int) {
  if (Fiber::InOne()) Fiber::Pause();
}

// What a file system that takes this way has.
FakeDiskOptions DiskOf(CreationWay way) {
  return {.links = way == CreationWay::kHardLink, .renames_new = way == CreationWay::kRenameNew};
}

// The content, or "-" if nobody has made it.
std::string Read(Disk& disk, const std::string& path) {
  const auto text = ReadWhole(disk, path, kBytesMax);
  if (absl::IsNotFound(text.status())) return "-";
  return text.ok() ? *text : text.status().ToString();
}

class CreateFileOnceTest : public ::testing::TestWithParam<CreationWay> {
 protected:
  static CreateOnceOptions Options() { return {.way = GetParam(), .pause = Nobody}; }
  static absl::Status Make(Disk& disk, const std::string& content) {
    return CreateFileOnce(disk, "/d/a", content, Options());
  }
  static std::unique_ptr<FakeDisk> WithDirectory(FakeDiskOptions options = DiskOf(GetParam())) {
    auto disk = std::make_unique<FakeDisk>(options);
    EXPECT_OK(disk->MakeDirectory("/d", 0700));
    disk->SyncAll();
    return disk;
  }
  // The power fails at each operation of `act`. `check` gets its answer and what it has not been interrupted in.
  static void CrashEverywhere(const std::function<void(FakeDisk&)>& prepare,
                              const std::function<absl::Status(FakeDisk&)>& act,
                              const std::function<void(FakeDisk&, const absl::Status&, bool interrupted)>& check,
                              std::uint64_t seeds = kSeeds) {
    bool interrupted = true;
    for (std::uint64_t n = 1; interrupted; ++n) {
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        SCOPED_TRACE(fmt::format("power fails at operation {}, seed {}", n, seed));
        const auto disk = WithDirectory();
        prepare(*disk);
        disk->SyncAll();
        disk->CrashAt(n);
        const absl::Status status = act(*disk);
        interrupted = disk->crashed();
        disk->Restart(seed);
        check(*disk, status, interrupted);
        if (HasFailure()) return;
      }
    }
  }
};

std::string WayName(const ::testing::TestParamInfo<CreationWay>& info) {
  const char* const names[] = {"HardLink", "RenameNew", "Checksummed"};
  return names[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Ways, CreateFileOnceTest,
                         ::testing::Values(CreationWay::kHardLink, CreationWay::kRenameNew, CreationWay::kChecksummed),
                         WayName);

void Nothing(FakeDisk&) {}

void ExpectNothingButWorkNamesAndA(Disk& disk) {
  ASSERT_OK_AND_ASSIGN(const Names names, disk.List("/d"));
  for (const std::string& found : names) EXPECT_TRUE(found == "a" || IsWorkName(found)) << found;
}

TEST_P(CreateFileOnceTest, MakesTheContentAndLeavesNoWorkName) {
  const auto disk = WithDirectory();
  ASSERT_OK(CreateFileOnce(*disk, "/d/a", kNew, {.mode = 0640, .way = GetParam(), .pause = Nobody}));
  EXPECT_EQ(Read(*disk, "/d/a"), kNew);
  EXPECT_EQ(ReadOnce(*disk, "/d/a", kNew.size()).value(), kNew);
  EXPECT_STATUS(StatusCode::kResourceExhausted, ReadOnce(*disk, "/d/a", kNew.size() - 1), "/d/a");
  EXPECT_EQ(disk->Info("/d/a")->mode, 0100640u);
  EXPECT_EQ(disk->List("/d").value(), (Names{"a"}));
  EXPECT_STATUS(StatusCode::kAlreadyExists, Make(*disk, kOld), "/d/a");
  EXPECT_EQ(Read(*disk, "/d/a"), kNew);
  EXPECT_EQ(disk->List("/d").value(), (Names{"a"}));
}

TEST_P(CreateFileOnceTest, AfterACrashAtAnyOperationAnotherMakerFindsTheContentOrMakesIt) {
  CrashEverywhere(
      Nothing, [](FakeDisk& disk) { return Make(disk, kOld); },
      [](FakeDisk& disk, const absl::Status& status, bool) {
        const std::string before = Read(disk, "/d/a");
        EXPECT_TRUE(before == kOld || (!status.ok() && before == "-")) << before.size() << " bytes";
        const auto once = ReadOnce(disk, "/d/a", kBytesMax);
        EXPECT_EQ(once.ok() ? *once : "-", before);
        ExpectNothingButWorkNamesAndA(disk);
        const absl::Status again = Make(disk, kNew);
        EXPECT_EQ(again.code(), before == kOld ? StatusCode::kAlreadyExists : StatusCode::kOk) << again.ToString();
        const std::string after = before == kOld ? kOld : kNew;
        EXPECT_EQ(Read(disk, "/d/a"), after);
        disk.Restart(1);
        EXPECT_EQ(Read(disk, "/d/a"), after) << "what a maker was told is durable";
      });
}

TEST_P(CreateFileOnceTest, AMakerThatDiesLeavesTheRecordToOthersOfAnyWay) {
  // Without a power failure, at each operation.
  for (const CreationWay other : {CreationWay::kHardLink, CreationWay::kRenameNew, CreationWay::kChecksummed}) {
    bool ended = false;
    for (int n = 0; !ended; ++n) {
      SCOPED_TRACE(fmt::format("dies before operation {}, then {}", n + 1, NameOf(other)));
      const auto disk = WithDirectory(FakeDiskOptions{});
      disk->SetHook([](FakeOp, const std::string&) { LetOthers(0); });
      absl::Status first = absl::UnknownError("died");
      Fiber maker([&] { first = Make(*disk, kOld); });
      for (int i = 0; i <= n && !maker.at_end(); ++i) maker.Resume();
      ended = maker.at_end();
      maker.End();
      const std::string before = Read(*disk, "/d/a");
      const absl::Status second = CreateFileOnce(*disk, "/d/a", kNew, {.way = other, .pause = Nobody});
      EXPECT_EQ(second.code(), before == "-" ? StatusCode::kOk : StatusCode::kAlreadyExists) << second.ToString();
      EXPECT_EQ(Read(*disk, "/d/a"), before == "-" ? kNew : kOld);
    }
  }
}

TEST_P(CreateFileOnceTest, FailureAtAnyOperationLeavesNoneOrTheContentWhole) {
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE(fmt::format("operation {} fails", n));
    const auto disk = WithDirectory();
    const std::uint64_t before = disk->operations();
    disk->FailOn({.nth = n, .status = absl::UnavailableError("EIO")});
    const absl::Status status = Make(*disk, kOld);
    const bool interrupted = disk->operations() - before >= n;
    disk->ClearFaults();
    const std::string text = Read(*disk, "/d/a");
    EXPECT_TRUE(text == kOld || (!status.ok() && text == "-")) << text;
    ExpectNothingButWorkNamesAndA(*disk);
    const absl::Status again = Make(*disk, kNew);
    EXPECT_EQ(again.ok(), text == "-") << again.ToString();
    EXPECT_EQ(Read(*disk, "/d/a"), text == "-" ? kNew : kOld);
    if (!interrupted || HasFailure()) break;
  }
}

TEST_P(CreateFileOnceTest, ASecondMakerIsRefusedAndChangesNothing) {
  CrashEverywhere([](FakeDisk& disk) { ASSERT_OK(Make(disk, kOld)); }, [](FakeDisk& disk) { return Make(disk, kNew); },
                  [](FakeDisk& disk, const absl::Status& status, bool interrupted) {
                    EXPECT_FALSE(status.ok());
                    if (!interrupted) {
                      EXPECT_STATUS(StatusCode::kAlreadyExists, status, "/d/a");
                    }
                    EXPECT_EQ(Read(disk, "/d/a"), kOld);
                  });
}

TEST_P(CreateFileOnceTest, WhatAnotherMadeIsDurableOnceWeWereRefused) {
  // The other maker has not synced the directory behind its record.
  CrashEverywhere(
      Nothing,
      [](FakeDisk& disk) {
        const std::uint64_t last = GetParam() == CreationWay::kChecksummed ? 2 : 1;
        disk.FailOn({.op = FakeOp::kSyncDirectory, .nth = last});
        EXPECT_FALSE(Make(disk, kOld).ok());
        disk.ClearFaults();
        return Make(disk, kNew);
      },
      [](FakeDisk& disk, const absl::Status& status, bool) {
        EXPECT_FALSE(status.ok());
        if (absl::IsAlreadyExists(status)) {
          EXPECT_EQ(Read(disk, "/d/a"), kOld);
        }
      });
}

TEST_P(CreateFileOnceTest, ARecordThatWasMadeAlthoughTheAnswerSaysOtherwiseCounts) {
  // NFS: the first answer was lost, and the operation that is repeated finds what it has done itself.
  const FakeOp op =
      std::vector{FakeOp::kLink, FakeOp::kRenameNew, FakeOp::kRename}[static_cast<std::size_t>(GetParam())];
  const auto disk = WithDirectory(FakeDiskOptions{});
  bool doing = false;
  disk->SetHook([&](FakeOp now, const std::string&) {
    if (now != op || doing) return;
    doing = true;
    ASSERT_OK_AND_ASSIGN(const Names names, disk->List("/d"));
    const std::string work = "/d/" + names.back();
    ASSERT_TRUE(IsWorkName(work));
    ASSERT_OK(op == FakeOp::kLink ? disk->Link(work, "/d/a") : disk->Rename(work, "/d/a"));
  });
  EXPECT_OK(Make(*disk, kNew));
  EXPECT_TRUE(doing);
  EXPECT_EQ(Read(*disk, "/d/a"), kNew);
}

TEST_P(CreateFileOnceTest, AnyContentComesBackAsItWas) {
  const auto disk = WithDirectory();
  const std::vector<std::string> contents = {"", std::string(1, '\0'), std::string(9000, '\0'), Frame("x", true),
                                             "text"};
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const std::string path = fmt::format("/d/{}", i);
    ASSERT_OK(CreateFileOnce(*disk, path, contents[i], Options()));
    EXPECT_EQ(ReadWhole(*disk, path, kBytesMax).value(), contents[i]);
    EXPECT_EQ(ReadOnce(*disk, path, kBytesMax).value(), contents[i]);
    EXPECT_STATUS(StatusCode::kAlreadyExists, CreateFileOnce(*disk, path, "other", Options()), path);
  }
}

TEST_P(CreateFileOnceTest, WhatOtherProgramsReadIsNeverFramed) {
  CrashEverywhere(
      Nothing,
      [](FakeDisk& disk) {
        return CreateFileOnce(disk, "/d/a", kOld, {.framed = false, .way = GetParam(), .pause = Nobody});
      },
      [](FakeDisk& disk, const absl::Status& status, bool) {
        const auto info = disk.Info("/d/a");
        const bool there = info.ok() && info->bytes > 0;
        EXPECT_TRUE(there || !status.ok());
        if (there) {
          EXPECT_EQ(info->bytes, kOld.size());
          EXPECT_EQ(Read(disk, "/d/a"), kOld);
        } else {
          EXPECT_EQ(Read(disk, "/d/a"), "-");
        }
        const absl::Status again =
            CreateFileOnce(disk, "/d/a", kNew, {.framed = false, .way = GetParam(), .pause = Nobody});
        EXPECT_EQ(again.ok(), !there) << again.ToString();
        EXPECT_EQ(disk.Info("/d/a")->bytes, there ? kOld.size() : kNew.size());
        EXPECT_EQ(Read(disk, "/d/a"), there ? kOld : kNew);
      });
}

TEST_P(CreateFileOnceTest, AnotherProgramsEmptyFileStaysInItsPlace) {
  const auto disk = WithDirectory();
  ASSERT_OK(disk->Open("/d/a", {.writable = true, .create = true}));
  EXPECT_STATUS(StatusCode::kAlreadyExists,
                CreateFileOnce(*disk, "/d/a", kNew, {.framed = false, .way = GetParam(), .pause = Nobody}), "/d/a");
  EXPECT_EQ(ReadWhole(*disk, "/d/a", kBytesMax).value(), "") << "nobody makes it";
  EXPECT_EQ(disk->List("/d").value(), (Names{"a"}));
  EXPECT_STATUS(StatusCode::kNotFound, ReadOnce(*disk, "/d/a", kBytesMax), "/d/a");
  EXPECT_OK(Make(*disk, kNew)) << "as a record it was never made";
}

TEST_P(CreateFileOnceTest, WhatIsNotARegularFileIsInTheWay) {
  const auto disk = WithDirectory();
  ASSERT_OK(disk->MakeDirectory("/d/a", 0700));
  EXPECT_STATUS(StatusCode::kAlreadyExists, Make(*disk, kNew), "/d/a");
  ASSERT_OK(disk->Remove("/d/a"));
  ASSERT_OK(disk->Symlink("elsewhere", "/d/a"));
  EXPECT_STATUS(StatusCode::kAlreadyExists, Make(*disk, kNew), "/d/a");
  EXPECT_EQ(disk->List("/d").value(), (Names{"a"}));
}

// A power failure may take such a record back, but never leaves another content, and the name is free again.
TEST_P(CreateFileOnceTest, WithoutSyncsItIsWholeOrCanBeMadeAgain) {
  const CreateOnceOptions loosely{.durable = false, .way = GetParam(), .pause = Nobody};
  bool lost = false;
  CrashEverywhere(
      [&](FakeDisk& disk) {
        disk.SetHook([](FakeOp op, const std::string& path) {
          EXPECT_TRUE(op != FakeOp::kSync && op != FakeOp::kSyncDirectory) << path;
        });
      },
      [&](FakeDisk& disk) { return CreateFileOnce(disk, "/d/a", kOld, loosely); },
      [&](FakeDisk& disk, const absl::Status& status, bool) {
        const auto text = ReadOnce(disk, "/d/a", kBytesMax);
        EXPECT_TRUE(text.ok() ? *text == kOld : absl::IsNotFound(text.status())) << text.status().ToString();
        lost = lost || (status.ok() && !text.ok());
        const absl::Status again = CreateFileOnce(disk, "/d/a", kNew, loosely);
        EXPECT_EQ(again.ok(), !text.ok()) << again.ToString();
        EXPECT_EQ(ReadOnce(disk, "/d/a", kBytesMax).value(), text.ok() ? kOld : kNew);
      },
      /*seeds=*/300);
  EXPECT_TRUE(lost) << "the test is to lose some";
}

TEST_P(CreateFileOnceTest, ADamagedRecordIsNotMadeAnew) {
  const auto disk = WithDirectory();
  ASSERT_OK(Make(*disk, kOld));
  disk->FlipBit("/d/a", 8 * 5000);
  EXPECT_STATUS(StatusCode::kAlreadyExists, Make(*disk, kNew), "/d/a");
  if (GetParam() == CreationWay::kChecksummed) {
    EXPECT_STATUS(StatusCode::kDataLoss, ReadWhole(*disk, "/d/a", kBytesMax), "/d/a");
  }
}

// --- Which way ---

TEST_P(CreateFileOnceTest, TheWayIsFoundByUseAndByProbing) {
  const auto disk = WithDirectory();
  ASSERT_OK(CreateFileOnce(*disk, "/d/a", kNew));
  const bool framed = GetParam() == CreationWay::kChecksummed;
  EXPECT_EQ(disk->Info("/d/a")->bytes, kNew.size() + (framed ? kFrameBytes : 0));
  EXPECT_EQ(Read(*disk, "/d/a"), kNew);
  EXPECT_EQ(disk->List("/d").value(), (Names{"a"}));
  EXPECT_EQ(ProbeCreation(*disk, "/d").value(), GetParam());
  EXPECT_EQ(disk->List("/d").value(), (Names{"a"}));
  const auto fresh = WithDirectory();  // another device
  EXPECT_EQ(ProbeCreation(*fresh, "/d").value(), GetParam());
  EXPECT_EQ(fresh->List("/d").value(), Names{});
}

TEST_P(CreateFileOnceTest, AWayThatFailedIsNotTriedAgain) {
  const auto disk = WithDirectory();
  ASSERT_OK(CreateFileOnce(*disk, "/d/a", kNew));
  std::set<FakeOp> used;
  disk->SetHook([&](FakeOp op, const std::string&) { used.insert(op); });
  ASSERT_OK(CreateFileOnce(*disk, "/d/b", kNew));
  EXPECT_EQ(used.contains(FakeOp::kLink), GetParam() == CreationWay::kHardLink);
  EXPECT_EQ(used.contains(FakeOp::kRenameNew), GetParam() == CreationWay::kRenameNew);
}

TEST_P(CreateFileOnceTest, AForcedWayThatTheFileSystemHasNotIsRefused) {
  const auto disk = WithDirectory(DiskOf(CreationWay::kChecksummed));
  const absl::Status made = Make(*disk, kNew);
  EXPECT_EQ(made.code(), GetParam() == CreationWay::kChecksummed ? StatusCode::kOk : StatusCode::kFailedPrecondition);
  EXPECT_EQ(disk->List("/d").value(), made.ok() ? (Names{"a"}) : Names{});
}

TEST(ProbeCreationTest, AFolderThatCannotBeWrittenIsAnError) {
  FakeDisk disk;
  EXPECT_STATUS(StatusCode::kNotFound, ProbeCreation(disk, "/none"), "/none");
  disk.FailOn({.op = FakeOp::kLink, .status = absl::PermissionDeniedError("EACCES")});
  EXPECT_STATUS(StatusCode::kPermissionDenied, ProbeCreation(disk, "/"), "EACCES");
  EXPECT_EQ(disk.List("/").value(), Names{});
}

// --- Many at once ---

// Makers of all ways and readers on one file system, in any order of their operations. Some die.
class Race {
 public:
  explicit Race(std::uint64_t seed) : random_(seed) {
    EXPECT_OK(disk_.MakeDirectory("/d", 0700));
    disk_.SetHook([](FakeOp, const std::string&) { LetOthers(0); });
  }

  void Run() {
    Prepare();
    const std::size_t makers = 2 + OneOf(3), readers = OneOf(3);
    for (std::size_t i = 0; i < makers; ++i) AddMaker(fmt::format("content {} {}", i, std::string(100, 'x')));
    for (std::size_t i = 0; i < readers; ++i) AddReader();
    const bool deadly = OneOf(2) == 0;
    while (!fibers_.empty()) {
      const std::size_t i = OneOf(fibers_.size());
      // Some run on for a while: so the others get far behind.
      for (std::size_t steps = 1 + OneOf(8); steps > 0 && !fibers_[i]->at_end(); --steps) fibers_[i]->Resume();
      if (fibers_[i]->at_end() || (deadly && OneOf(30) == 0))
        fibers_.erase(fibers_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    Make("the last one", CreateOnceOptions{.way = AnyWay(), .pause = LetOthers});
    EXPECT_LE(winners_.size(), 1u);
    EXPECT_EQ(seen_.size(), 1u) << "all see one content";
    if (!winners_.empty()) {
      EXPECT_TRUE(seen_.contains(winners_.front()));
    }
  }

 private:
  std::size_t OneOf(std::size_t n) { return (random_() >> 16) % n; }
  CreationWay AnyWay() { return static_cast<CreationWay>(OneOf(3)); }

  // Perhaps somebody died there before.
  void Prepare() {
    const std::string torn = Frame("lost with the power", /*synced=*/false);
    const std::vector<std::optional<std::string>> left = {std::nullopt, "", torn.substr(0, 40), std::string(50, '\0')};
    const auto& text = left[OneOf(left.size())];
    if (!text) return;
    by_whole_ = false;
    Put("/d/a", *text);
    if (OneOf(2) == 0) Put(OnceWorkName("/d/a"), Frame("work of the dead", true));
  }
  void Put(const std::string& path, const std::string& text) {
    const auto file = disk_.Open(path, {.writable = true, .create = true});
    ASSERT_OK(file);
    ASSERT_OK((*file)->WriteAt(0, std::as_bytes(std::span(text))));
  }

  void AddMaker(const std::string& content) {
    const CreateOnceOptions options{.durable = OneOf(2) == 0, .way = AnyWay(), .pause = LetOthers};
    fibers_.push_back(std::make_unique<Fiber>([this, content, options] { Make(content, options); }));
  }
  void Make(const std::string& content, const CreateOnceOptions& options) {
    const absl::Status made = CreateFileOnce(disk_, "/d/a", content, options);
    if (made.ok()) winners_.push_back(content);
    EXPECT_TRUE(made.ok() || absl::IsAlreadyExists(made)) << made.ToString();
    const auto there = ReadOnce(disk_, "/d/a", kBytesMax);
    EXPECT_OK(there) << "it was said to be made";
    if (there.ok()) seen_.insert(*there);
  }
  void AddReader() {
    fibers_.push_back(std::make_unique<Fiber>([this] {
      for (int i = 0; i < 5; ++i) {
        const auto there = by_whole_ ? ReadWhole(disk_, "/d/a", kBytesMax) : ReadOnce(disk_, "/d/a", kBytesMax);
        if (there.ok()) seen_.insert(*there);
        EXPECT_TRUE(there.ok() || absl::IsNotFound(there.status())) << there.status().ToString();
      }
    }));
  }

  std::mt19937_64 random_;
  FakeDisk disk_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::string> winners_;
  std::set<std::string> seen_;
  bool by_whole_ = true;  // no makers' leftovers are there that only ReadOnce knows for what they are
};

TEST(CreateFileOnceRaceTest, InAnyOrderOneContentIsMadeAndAllSeeIt) {
  const char* const given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t runs = given != nullptr ? 1 : std::getenv("CAIRN_SOAK") != nullptr ? 200'000 : 10'000;
  for (std::uint64_t seed = first; seed < first + runs && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("CAIRN_TEST_SEED={}", seed));
    Race(seed).Run();
  }
}

}  // namespace
}  // namespace cairn
