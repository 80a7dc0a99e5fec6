// What a daemon before this one had only captured: images and labels as it would have left them, on a real disk.
#include "daemon/core/salvage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "daemon/data/deposits.h"
#include "daemon/data/image.h"
#include "daemon/data/image_label.h"
#include "daemon/data/plan.h"
#include "daemon/data/work_pool.h"
#include "storage/base/checksum.h"
#include "storage/base/ids.h"
#include "storage/base/sealed_memory.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/scr/records.h"
#include "storage/io/posix_disk.h"
#include "storage/place/cache/cache_folder.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a supervisor holds.
class Held final : public Deposits {
 public:
  absl::StatusOr<UniqueFd> Make(std::uint64_t) override { return absl::UnavailableError("none"); }
  void GiveUp(std::uint64_t inode) override { held.erase(inode); }
  std::vector<UniqueFd> TakeLeft() override {
    std::vector<UniqueFd> left;
    for (const auto& [inode, fd] : held) left.emplace_back(::dup(fd.get()));
    return left;
  }
  void NeedsTime(std::uint64_t) override { asked_for_time = true; }
  std::uint64_t Hold(UniqueFd fd) {
    const std::uint64_t inode = LookAtMemory(fd.get())->inode;
    held[inode] = std::move(fd);
    return inode;
  }

  std::map<std::uint64_t, UniqueFd> held;
  bool asked_for_time = false;
};

class SalvageTest : public ::testing::Test {
 protected:
  static constexpr DatasetId kId = 7;
  static constexpr std::uint64_t kBytes = 3'000'000, kSmall = 24;

  SalvageTest() : pool_(MakeWorkPool(2)), disk_(MakePosixDisk()), held_(std::make_shared<Held>()) {
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

  static std::string BytesOf(Rank rank, std::uint64_t bytes) {
    std::string data(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 31 + i / 251 + rank);
    return data;
  }

  CapturedPart Part(Rank rank, std::uint32_t nranks) const {
    CapturedPart part;
    catalogue::Catalogue& catalogue = part.catalogue;
    catalogue.set_run(run_.Hex());
    catalogue.set_launch(2);
    catalogue.set_dataset(kId);
    catalogue.set_step(50);
    catalogue.set_rank(rank);
    catalogue.set_nranks(nranks);
    for (const std::uint64_t bytes : {kBytes, kSmall}) {
      local::Variable& variable = *catalogue.add_variables();
      variable.set_id(bytes == kBytes ? 1 : 2);
      variable.set_type(1);
      variable.set_count(bytes);
      variable.set_bytes(bytes);
    }
    part.name = "ckpt.7";
    part.user = "alice";
    part.job = "run";
    part.mark = "m";
    part.created_us = 1'700'000'000'000'000;
    part.layout = *ftiff::PlanFresh(Sizes(), ftiff::Packing::kAligned);
    return part;
  }
  static std::vector<ftiff::VariableSize> Sizes() { return {{.id = 1, .bytes = kBytes}, {.id = 2, .bytes = kSmall}}; }

  // As a client fills it by its plan; what an earlier use has left in it is there, too.
  static UniqueFd ImageOf(const CapturedPart& part) {
    auto memory = MakeSealedMemory("test", 2 * Image::kAlignment);
    EXPECT_OK(memory.status());
    const std::string old(2 * Image::kAlignment, '\x5a');
    EXPECT_EQ(::pwrite(memory->get(), old.data(), old.size(), 0), static_cast<ssize_t>(old.size()));
    const std::string data[] = {BytesOf(part.catalogue.rank(), kBytes), BytesOf(part.catalogue.rank(), kSmall)};
    const auto plan = MakePlan(part.layout, Sizes(), old.size());
    EXPECT_OK(plan.status());
    for (const PlanPiece& piece : *plan) {
      EXPECT_EQ(::pwrite(memory->get(), data[piece.variable].data() + piece.variable_offset, piece.bytes,
                         static_cast<off_t>(piece.image_offset)),
                static_cast<ssize_t>(piece.bytes));
    }
    return *std::move(memory);
  }

  // Leaves the image with its label, sealed or not.
  void Leave(const CapturedPart& part, bool sealed = true) {
    UniqueFd image = ImageOf(part);
    const SealedMemory memory = *LookAtMemory(image.get());
    auto label = MakeSealedMemory("test", kLabelBytes);
    ASSERT_OK(label.status());
    ImageLabel writer(UniqueFd(::dup(label->get())));
    ASSERT_OK(writer.Write(part, memory));
    if (sealed) writer.Seal();
    held_->Hold(std::move(image));
    held_->Hold(*std::move(label));
  }

  // A start: what it warns of. Afterwards nothing is held any more.
  std::vector<std::string> Start(CacheFolder& folder) {
    std::vector<std::string> warnings;
    {
      Salvage salvage(held_, *pool_);
      salvage.Into(folder);
      warnings = salvage.TakeWarnings();
    }
    EXPECT_THAT(held_->held, IsEmpty());
    return warnings;
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
      EXPECT_TRUE(bytes == BytesOf(catalogue.rank(), catalogue.variables(v).bytes())) << "variable " << v;
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
  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<PosixDisk> disk_;
  std::shared_ptr<Held> held_;
};

TEST_F(SalvageTest, WhatAllRanksHadCapturedBecomesLocalBitForBit) {
  Leave(Part(0, 2));
  Leave(Part(1, 2));
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), IsEmpty());
  EXPECT_TRUE(held_->asked_for_time);
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
  {
    const auto folder = Open();
    scr::Descriptor descriptor;
    descriptor.id = kId, descriptor.name = "ckpt.7", descriptor.created_us = 1'700'000'000'000'000;
    descriptor.user = "alice", descriptor.job_id = "run", descriptor.mark = "m";
    descriptor.launch = 2, descriptor.step = 50, descriptor.ranks = 2;
    ASSERT_OK(folder->Begin(descriptor));
    catalogue::Catalogue catalogue = Part(0, 2).catalogue;
    catalogue.clear_variables();
    ASSERT_OK(folder->CommitRank(catalogue, ""));
  }
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
  for (std::uint64_t crash = 0; crash + 1 < Salvage::kTriesMax; ++crash) {
    for (const auto& [inode, fd] : held_->held) {  // what it would have read
      if (IsLabel(*LookAtMemory(fd.get()))) {
        ASSERT_OK(ReadLabel(fd.get(), Salvage::kTriesMax).status());
      }
    }
  }
  EXPECT_THAT(Start(*folder), IsEmpty());
  ExpectWhole(*folder, {0});
}

TEST_F(SalvageTest, WhatHasFailedFiveTimesIsNotTriedAgain) {
  Leave(Part(0, 1));
  for (const auto& [inode, fd] : held_->held) {
    if (IsLabel(*LookAtMemory(fd.get()))) {
      for (std::uint64_t i = 0; i < Salvage::kTriesMax; ++i)
        ASSERT_OK(ReadLabel(fd.get(), Salvage::kTriesMax).status());
    }
  }
  const auto folder = Open();
  EXPECT_THAT(Start(*folder), ElementsAre(HasSubstr("it was tried 5 times")));
  ExpectNothing(*folder);
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

TEST_F(SalvageTest, ALabelThatSpeaksOfAnotherImageIsNotBelieved) {
  Leave(Part(0, 1));
  for (auto at = held_->held.begin(); at != held_->held.end();) {  // the image is gone, another one is there
    at = IsLabel(*LookAtMemory(at->second.get())) ? std::next(at) : held_->held.erase(at);
  }
  held_->Hold(ImageOf(Part(0, 1)));
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
