// What a daemon before this one had only captured: images and labels as it would have left them, on a real disk.
#include "daemon/core/salvage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "daemon/data/image_label.h"
#include "daemon/data/work_pool.h"
#include "storage/base/checksum.h"
#include "storage/base/ids.h"
#include "storage/base/sealed_memory.h"
#include "storage/format/scr/records.h"
#include "storage/io/posix_disk.h"
#include "storage/place/cache/cache_folder.h"
#include "tests/daemon/core/captured_parts.h"
#include "tests/daemon/core/lasting_deposits.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SalvageTest : public ::testing::Test {
 protected:
  static constexpr DatasetId kId = 7;

  SalvageTest() : pool_(MakeWorkPool(2)), disk_(MakePosixDisk()), held_(std::make_shared<LastingDeposits>()) {
    std::string folder = "/tmp/cairn-test.XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    path_ = folder;
    run_ = RunId::Random();
  }
  ~SalvageTest() override { fs::remove_all(path_); }

  std::unique_ptr<CacheFolder> Open() {
    auto folder = CacheFolder::Open(*disk_, path_, "alice", "run", RunIdentity(run_), "/prefix");
    EXPECT_OK(folder.status());
    return *std::move(folder);
  }

  CapturedPart Part(Rank rank, std::uint32_t nranks) const { return CapturedPartOf(run_, kId, rank, nranks); }
  void Leave(const CapturedPart& part, bool sealed = true) { LeaveCaptured(*held_, part, sealed); }

  std::unique_ptr<Salvage> Read() {
    return std::make_unique<Salvage>(held_, *pool_, [this] { return now_; });
  }
  // A start: what it warns of. Afterwards nothing is held any more.
  std::vector<std::string> Start(CacheFolder& folder) {
    std::vector<std::string> warnings;
    const auto salvage = Read();
    EXPECT_OK(salvage->Into(folder, warnings));
    for (std::string& warning : salvage->DropStrangers({}, /*all_runs_known=*/true)) {
      warnings.push_back(std::move(warning));
    }
    EXPECT_EQ(held_->size(), 0u);
    return warnings;
  }
  // On a disk on which no file may become as long as that.
  absl::Status IntoFull(Salvage& salvage, CacheFolder& folder, std::vector<std::string>& warnings,
                        std::uint64_t bytes_max = 1 << 20) {
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit small{.rlim_cur = bytes_max, .rlim_max = before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const absl::Status status = salvage.Into(folder, warnings);
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    return status;
  }
  // A start on it, which leaves everything to the next.
  void StartFull() {
    const auto folder = Open();
    std::vector<std::string> warnings;
    EXPECT_STATUS(absl::StatusCode::kResourceExhausted, IntoFull(*Read(), *folder, warnings), "is kept");
    EXPECT_THAT(warnings, IsEmpty());
    EXPECT_EQ(held_->size(), 2u);
    EXPECT_FALSE(fs::exists(folder->WorkPath(kId, 0))) << "it has no room that others need";
  }
  // The ranks' parts are in the cache, without their variables; nobody holds an image of them any more.
  void StoreInFolder(std::uint32_t ranks, std::uint32_t nranks) {
    const auto folder = Open();
    scr::Descriptor descriptor;
    descriptor.id = kId, descriptor.name = "ckpt.7", descriptor.created_us = 1'700'000'000'000'000;
    descriptor.user = "alice", descriptor.job_id = "run", descriptor.mark = "m";
    descriptor.launch = 2, descriptor.step = 50, descriptor.ranks = nranks;
    ASSERT_OK(folder->Begin(descriptor));
    for (Rank rank = 0; rank < ranks; ++rank) {
      catalogue::Catalogue catalogue = Part(rank, nranks).catalogue;
      catalogue.clear_variables();
      ASSERT_OK(folder->CommitRank(catalogue, ""));
    }
  }

  // The dataset is whole, and each rank has its bytes.
  void ExpectWhole(CacheFolder& folder, std::set<Rank> with_bytes) {
    const auto load = folder.Load();
    ASSERT_OK(load.status());
    EXPECT_THAT(load->warnings, IsEmpty());
    ASSERT_TRUE(load->whole.contains(kId));
    const CachedDataset& dataset = load->whole.at(kId);
    EXPECT_EQ(dataset.descriptor.launch, 2u);
    EXPECT_EQ(dataset.descriptor.mark, "m");
    EXPECT_EQ(dataset.descriptor.step, 50u);
    EXPECT_EQ(dataset.descriptor.user, "alice");
    for (const catalogue::Catalogue& catalogue : dataset.ranks) {
      if (with_bytes.contains(catalogue.rank())) ExpectBytes(folder, catalogue);
    }
  }
  static void ExpectBytes(CacheFolder& folder, const catalogue::Catalogue& catalogue) {
    ASSERT_EQ(catalogue.file_size(), 1);
    std::stringstream text;
    text << std::ifstream(folder.DatasetPath(kId) + "/" + catalogue.file(0).name()).rdbuf();
    const std::string file = text.str();
    ASSERT_EQ(file.size(), catalogue.file(0).bytes());
    EXPECT_EQ(Crc32(std::as_bytes(std::span(file))), catalogue.file(0).crc32());
    for (int v = 0; v < catalogue.variables_size(); ++v) {
      std::string bytes;
      for (const auto& run : catalogue.placement(v).run()) bytes += file.substr(run.offset(), run.bytes());
      EXPECT_TRUE(bytes == CapturedBytes(catalogue.rank(), catalogue.variables(v).bytes())) << "variable " << v;
    }
    EXPECT_EQ(file.find('\x5a' + std::string(7, '\x5a')), file.npos) << "what was in the image before";
  }
  void ExpectNothing(CacheFolder& folder) {
    const auto load = folder.Load();
    ASSERT_OK(load.status());
    EXPECT_THAT(load->whole, IsEmpty());
    EXPECT_FALSE(fs::exists(folder.DatasetPath(kId)));
  }

  std::string path_;
  RunId run_;
  std::chrono::system_clock::time_point now_{std::chrono::seconds(1'700'000'000)};  // when the parts were begun
  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<PosixDisk> disk_;
  std::shared_ptr<LastingDeposits> held_;
};

TEST_F(SalvageTest, WhatAllRanksHadCapturedBecomesLocalBitForBit) {
  Leave(Part(0, 2));
  Leave(Part(1, 2));
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), IsEmpty());
  EXPECT_TRUE(held_->asked_for_time());
  ExpectWhole(*folder, {0, 1});
}

TEST_F(SalvageTest, TheFileIsWrittenAnewWhateverACrashHasLeftOfIt) {
  Leave(Part(0, 1));
  const auto folder = Open();
  fs::create_directories(folder->DatasetPath(kId) + "/.scr");
  std::ofstream(folder->WorkPath(kId, 0)) << std::string(8 << 20, 'x');
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectWhole(*folder, {0});
}

TEST_F(SalvageTest, PartsThatAreStoredAlreadyAreTakenFromTheFolder) {
  StoreInFolder(1, 2);
  Leave(Part(1, 2));
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectWhole(*folder, {1});
}

TEST_F(SalvageTest, WhatSomeRanksHadNotCapturedIsDroppedAndSaidToBe) {
  Leave(Part(1, 3));
  Leave(Part(2, 3), /*sealed=*/false);
  const auto folder = Open();
  EXPECT_THAT(Start(*folder),
              ElementsAre(HasSubstr("dataset 7 (step 50, launch 2), which the last daemon had begun, is "
                                    "dropped: 1 of 3 ranks had been captured here, not 0, 2")));
  ExpectNothing(*folder);
}

// It was whole, and its removal was cut short behind the first of its steps.
TEST_F(SalvageTest, WhatHasBeenWholeAndHasNoEntryDoesNotComeBack) {
  Leave(Part(0, 1));
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectWhole(*folder, {0});
  fs::copy(folder->DatasetPath(kId), path_ + "/copy", fs::copy_options::recursive);
  ASSERT_OK(folder->Remove(kId));
  fs::copy(path_ + "/copy", folder->DatasetPath(kId), fs::copy_options::recursive);
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectNothing(*folder);
}

TEST_F(SalvageTest, WhatIsWholeAlreadyIsLeftAlone) {
  Leave(Part(0, 1));
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectWhole(*folder, {0});
  Leave(Part(0, 1));
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectWhole(*folder, {0});
}

// It is killed before it has brought anything to the cache.
TEST_F(SalvageTest, AStartThatIsCutShortLeavesItToTheNextOne) {
  Leave(Part(0, 1));
  const auto folder = Open();
  held_->CountTries(Salvage::kTriesMax - 1);
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectWhole(*folder, {0});
}

TEST_F(SalvageTest, WhatFiveStartsDidNotSurviveIsNotTriedAgain) {
  Leave(Part(0, 1));
  held_->CountTries(Salvage::kTriesMax);
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), ElementsAre(HasSubstr("it was tried 5 times")));
  ExpectNothing(*folder);
}

// Labels whose turn has not come are not counted: only the one that a start did not survive is.
TEST_F(SalvageTest, OneThatStartsDoNotSurviveTakesNoOtherWithIt) {
  CapturedPart sick = Part(0, 1);
  sick.catalogue.set_dataset(kId + 1);
  Leave(sick);
  held_->CountTries(Salvage::kTriesMax);
  Leave(Part(0, 1));
  for (std::uint64_t start = 0; start < 2 * Salvage::kTriesMax; ++start) {
    std::vector<UniqueFd> left = held_->TakeLeft();
    // A start that ends before it stores anything: nothing is given up.
    auto others = std::make_shared<LastingDeposits>();
    for (UniqueFd& fd : left) others->Hold(std::move(fd));
    const Salvage salvage(others, *pool_, [this] { return now_; });
  }
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), ElementsAre(HasSubstr("it was tried 5 times")));
  ExpectWhole(*folder, {0});
}

TEST_F(SalvageTest, WhatDisagreesIsDropped) {
  CapturedPart other = Part(1, 2);
  other.catalogue.set_step(51);
  Leave(Part(0, 2));
  Leave(other);
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), ElementsAre(HasSubstr("is another dataset")));
  ExpectNothing(*folder);
  Leave(Part(0, 1));
  Leave(Part(0, 1));
  EXPECT_THAT(Start(*folder), ElementsAre(HasSubstr("rank 0 is there twice")));
  ExpectNothing(*folder);
}

TEST_F(SalvageTest, WhatIsOfNoRunHereIsDropped) {
  CapturedPart other = Part(0, 1);
  other.catalogue.set_run(RunId::Random().Hex());
  Leave(other);
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), ElementsAre(HasSubstr("for no run of this cache")));
  ExpectNothing(*folder);
}

TEST_F(SalvageTest, WhatIsOfARunThatCannotBeReadNowIsLeftToTheNextStart) {
  Leave(Part(0, 1));
  EXPECT_THAT(Read()->DropStrangers({run_}, /*all_runs_known=*/true), ElementsAre(HasSubstr("or for the next start")));
  EXPECT_EQ(held_->size(), 2u);
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectWhole(*folder, {0});
}

TEST_F(SalvageTest, WhatIsOfARunThatCanBeReadLaterIsTakenUpThen) {
  Leave(Part(0, 1));
  const auto salvage = Read();
  EXPECT_THAT(salvage->DropStrangers({}, /*all_runs_known=*/false), ElementsAre(HasSubstr("its run can be opened")));
  EXPECT_TRUE(salvage->Has(run_));
  const auto folder = Open();
  std::vector<std::string> warnings;
  EXPECT_OK(salvage->Into(*folder, warnings));
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_FALSE(salvage->Has(run_));
  EXPECT_EQ(held_->size(), 0u);
  ExpectWhole(*folder, {0});
}

TEST_F(SalvageTest, WhatIsOfARunThatCannotBeReadForADayIsDropped) {
  Leave(Part(0, 1));
  now_ += Salvage::kKeptFor;
  EXPECT_THAT(Read()->DropStrangers({run_}, /*all_runs_known=*/true),
              ElementsAre(HasSubstr("dropped: its run's folder could not be looked at for a day")));
  EXPECT_EQ(held_->size(), 0u);
}

// It is made whole in one of the threads that others' openings need, too.
TEST_F(SalvageTest, NoRunWaitsForAnother) {
  const RunId other = RunId::Random();
  Leave(Part(0, 1));
  LeaveCaptured(*held_, CapturedPartOf(other, kId, 0, 1));
  const auto folder = Open();
  const auto other_folder = CacheFolder::Open(*disk_, path_, "alice", "other", RunIdentity(other), "/other");
  ASSERT_OK(other_folder.status());
  const auto salvage = Read();
  std::vector<std::string> warnings, others_warnings;
  std::future<absl::Status> others;
  held_->before_change = [&, first = true]() mutable {
    if (!std::exchange(first, false)) return;
    others = std::async(std::launch::async, [&] { return salvage->Into(**other_folder, others_warnings); });
    EXPECT_EQ(others.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    EXPECT_FALSE(salvage->empty()) << "this run's is in work";
  };
  EXPECT_OK(salvage->Into(*folder, warnings));
  EXPECT_OK(others.get());
  EXPECT_TRUE(salvage->empty());
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_THAT(others_warnings, IsEmpty());
  EXPECT_EQ(held_->size(), 0u);
  ExpectWhole(*folder, {0});
  ExpectWhole(**other_folder, {0});
}

TEST_F(SalvageTest, WhatWaitsForItsRunIsDroppedWhenItIsOld) {
  Leave(Part(0, 1));
  const auto salvage = Read();
  salvage->DropStrangers({run_}, /*all_runs_known=*/true);
  now_ += Salvage::kKeptFor - std::chrono::seconds(1);
  ASSERT_OK_AND_ASSIGN(std::vector<std::string> dropped, salvage->DropOld());
  EXPECT_THAT(dropped, IsEmpty());
  EXPECT_FALSE(salvage->empty());
  now_ += std::chrono::seconds(1);
  ASSERT_OK_AND_ASSIGN(dropped, salvage->DropOld());
  EXPECT_THAT(dropped, ElementsAre(HasSubstr("dropped: its run's folder could not be looked at for a day")));
  EXPECT_TRUE(salvage->empty());
  EXPECT_EQ(held_->size(), 0u);
}

// All of its ranks' parts are stored: without a mark the next start would make it whole.
TEST_F(SalvageTest, WhatIsDroppedDoesNotComeBack) {
  StoreInFolder(2, 2);
  now_ += Salvage::kKeptFor;
  std::vector<std::string> warnings;
  EXPECT_OK(IntoFull(*Read(), *Open(), warnings, /*bytes_max=*/0));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("is dropped: ")));
  const auto folder = Open();  // Load was never called
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectNothing(*folder);
}

// However many starts there are in that day.
TEST_F(SalvageTest, WhatTheDiskRefusesIsKeptForADay) {
  Leave(Part(0, 1));
  for (std::uint64_t start = 0; start < 2 * Salvage::kTriesMax; ++start) StartFull();
  now_ += Salvage::kKeptFor - std::chrono::seconds(1);
  StartFull();
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectWhole(*folder, {0});
}

TEST_F(SalvageTest, WhatTheDiskRefusesLongerIsDroppedAndSaidToBe) {
  Leave(Part(0, 1));
  now_ += Salvage::kKeptFor;
  const auto folder = Open();
  const auto salvage = Read();
  std::vector<std::string> warnings;
  EXPECT_OK(IntoFull(*salvage, *folder, warnings));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("is dropped: rank 0: ")));
  EXPECT_EQ(held_->size(), 0u);
  ExpectNothing(*folder);
}

// Or by a clock that was set back.
TEST_F(SalvageTest, ALabelOfTheFutureIsNotKeptUntilThen) {
  Leave(Part(0, 1));
  now_ -= Salvage::kKeptFor;
  const auto folder = Open();
  std::vector<std::string> warnings;
  EXPECT_OK(IntoFull(*Read(), *folder, warnings));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("is dropped: rank 0: ")));
  EXPECT_EQ(held_->size(), 0u);
}

TEST_F(SalvageTest, ADiskThatRefusedItMayBeTriedAgainByTheSameDaemon) {
  Leave(Part(0, 1));
  const auto salvage = Read();
  const auto folder = Open();
  std::vector<std::string> warnings;
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, IntoFull(*salvage, *folder, warnings), "is kept");
  EXPECT_OK(salvage->Into(*folder, warnings));
  EXPECT_THAT(warnings, IsEmpty());
  ExpectWhole(*folder, {0});
}

// Nobody was told that it is captured.
TEST_F(SalvageTest, WhatSomeRanksHadNotCapturedWaitsForNoDisk) {
  StoreInFolder(1, 3);
  Leave(Part(1, 3));
  const auto folder = Open();
  std::vector<std::string> warnings;
  EXPECT_OK(IntoFull(*Read(), *folder, warnings, /*bytes_max=*/0));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("2 of 3 ranks had been captured here, not 2")));
  EXPECT_EQ(held_->size(), 0u);
}

TEST_F(SalvageTest, WhatIsStoredByAllRanksWaitsForADiskThatRefusesItsRecords) {
  StoreInFolder(2, 2);
  {
    const auto folder = Open();
    std::vector<std::string> warnings;
    const auto salvage = Read();
    EXPECT_STATUS(absl::StatusCode::kResourceExhausted, IntoFull(*salvage, *folder, warnings, /*bytes_max=*/0),
                  "is kept");
    EXPECT_FALSE(salvage->Has(run_)) << "nobody holds anything of it";
  }
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectWhole(*folder, {});
}

TEST_F(SalvageTest, ALabelThatSpeaksOfAnotherImageIsNotBelieved) {
  Leave(Part(0, 1));
  held_->LoseImages();  // and another one is there
  held_->Hold(CapturedImage(Part(0, 1)));
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), ElementsAre(HasSubstr("is not believed: a label: image")));
  ExpectNothing(*folder);
}

TEST_F(SalvageTest, AnythingElseThatIsLeftIsGivenUp) {
  held_->Hold(*MakeSealedMemory("test", 4096));
  held_->Hold(*MakeSealedMemory("test", kLabelBytes));
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectNothing(*folder);
}

}  // namespace
}  // namespace cairn
