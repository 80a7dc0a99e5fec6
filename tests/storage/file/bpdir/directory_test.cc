// Directories that are opened, grow, are cut and written anew, through each kind of file source.
#include "storage/file/bpdir/directory.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/clock.h"
#include "storage/io/posix_disk.h"
#include "tests/storage/file/bpdir/sample.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::bpdir {
namespace {

using absl::StatusCode;
using testing::SampleDirectory;
using testing::WriteFile;
using Change = Directory::Change;

// Notes what is asked of it.
class Counting final : public FileSource {
 public:
  struct Asked {
    std::string name;
    std::uint64_t offset, bytes;
  };
  Counting(std::unique_ptr<FileSource> files, std::vector<Asked>& asked) : files_(std::move(files)), asked_(asked) {}

  absl::StatusOr<std::uint64_t> Bytes(const std::string& name) override { return files_->Bytes(name); }
  absl::Status Read(const std::string& name, std::uint64_t offset, std::span<std::byte> target) override {
    asked_.push_back({name, offset, target.size()});
    return files_->Read(name, offset, target);
  }
  absl::StatusOr<std::span<const std::byte>> HoldIf(const std::string& name, std::uint64_t offset, std::uint64_t bytes,
                                                    const PrefixCheck& check) override {
    asked_.push_back({name, offset, bytes});
    return files_->HoldIf(name, offset, bytes, check);
  }
  void Release(std::span<const std::byte> held) override { files_->Release(held); }
  std::span<const std::byte> InPlace(const std::string& name, std::uint64_t offset, std::uint64_t bytes) override {
    return files_->InPlace(name, offset, bytes);
  }
  std::string NameOf(const std::string& name) const override { return files_->NameOf(name); }
  std::unique_ptr<FileSource> Anew() const override { return std::make_unique<Counting>(files_->Anew(), asked_); }

 private:
  const std::unique_ptr<FileSource> files_;
  std::vector<Asked>& asked_;
};

class DirectoryTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }

  std::unique_ptr<FileSource> Files() {
    const std::string way = GetParam();
    if (way == "mapped") return *MapFiles(path_);
    if (way == "held") return *MapHeldFiles(path_);
    if (way == "copied") return *CopyFiles(path_);
    return ReadFiles(*disk_, path_);
  }
  std::unique_ptr<Directory> Open() {
    auto directory = Directory::Open(Files());
    EXPECT_OK(directory);
    return directory.ok() ? *std::move(directory) : nullptr;
  }
  static void ExpectSample(Directory& directory, std::uint32_t steps) {
    const bp5::Metadata& metadata = directory.metadata();
    ASSERT_EQ(metadata.steps(), steps);
    if (steps == 0) return;
    const auto a = metadata.FindVariable("a");
    ASSERT_TRUE(a);
    for (std::uint32_t step = 0; step < steps; ++step) {
      std::vector<double> values(12), expected(12);
      for (std::size_t i = 0; i < 12; ++i) expected[i] = 100.0 * step + static_cast<double>(i);
      const auto read = bp5::ReadSelection(metadata, *a, step, {.start = {0, 0}, .count = {4, 3}}, directory.data(),
                                           std::as_writable_bytes(std::span(values)));
      ASSERT_OK(read);
      EXPECT_TRUE(*read);
      EXPECT_EQ(values, expected) << "step " << step;
    }
  }
  static Change Refresh(Directory& directory) {
    const auto change = directory.Refresh();
    EXPECT_OK(change);
    return change.value_or(Change::kNone);
  }
  std::string At(const std::string& name) const { return path_ + "/" + name; }

  const std::string path_ = ::testing::TempDir() + "/directory_test_" + GetParam() + ".bp";
  const std::unique_ptr<PosixDisk> disk_ = MakePosixDisk({.engine = {.io_uring = false, .threads = 1}});
};

INSTANTIATE_TEST_SUITE_P(AllSources, DirectoryTest, ::testing::Values("mapped", "held", "copied", "disk"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(DirectoryTest, WithoutAnIndexThereIsNone) {
  EXPECT_STATUS(StatusCode::kNotFound, Directory::Open(Files()), "md.idx");
  EXPECT_STATUS(StatusCode::kNotFound, Directory::Open(path_), "md.idx");
  EXPECT_STATUS(StatusCode::kNotFound, Directory::Open(path_ + "/none"), "none");
  SampleDirectory sample;
  sample.AddStep();
  sample.WriteTo(path_);
  std::filesystem::remove(At("md.idx"));
  EXPECT_STATUS(StatusCode::kNotFound, Directory::Open(Files()), "md.idx");
}

TEST_P(DirectoryTest, EveryStepComesWithTheLastByteOfItsRecord) {
  SampleDirectory sample;
  for (int step = 0; step < 4; ++step) sample.AddStep();
  sample.WriteTo(path_);
  const std::string& index = sample.image().index();
  WriteFile(At("md.idx"), "");
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  std::uint32_t steps = 0;
  for (std::size_t bytes = 0; bytes <= index.size(); ++bytes) {
    WriteFile(At("md.idx"), index.substr(0, bytes));
    const bool complete = steps < 4 && bytes == sample.index_ends()[steps];
    steps += complete ? 1 : 0;
    ASSERT_EQ(Refresh(*directory), complete ? Change::kGrown : Change::kNone) << bytes << " bytes";
    ASSERT_EQ(directory->metadata().steps(), steps);
  }
  ExpectSample(*directory, 4);
}

TEST_P(DirectoryTest, WhatWasFoundStaysWhereItIsWhileItGrows) {
  SampleDirectory sample({.active = true});
  sample.AddStep();
  sample.WriteTo(path_);
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  const auto n = directory->metadata().FindVariable("n");
  ASSERT_TRUE(n);
  const std::byte* first = directory->metadata().Find(*n, 0, 0);
  ASSERT_NE(first, nullptr);
  for (std::uint32_t steps = 2; steps < 40; ++steps) {
    sample.AddStep();
    sample.WriteTo(path_);
    ASSERT_EQ(Refresh(*directory), Change::kGrown);
    ASSERT_EQ(Refresh(*directory), Change::kNone);
    ASSERT_EQ(directory->metadata().Find(*n, 0, 0), first);
  }
  ExpectSample(*directory, 39);
}

TEST_P(DirectoryTest, TheActiveFlagIsThatOfTheLastLook) {
  SampleDirectory sample({.active = true}), closed({.active = false});
  sample.AddStep();
  closed.AddStep();
  sample.WriteTo(path_);
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  EXPECT_TRUE(directory->active());
  closed.WriteTo(path_);
  EXPECT_TRUE(directory->active());
  EXPECT_EQ(Refresh(*directory), Change::kNone);
  EXPECT_FALSE(directory->active());
  sample.WriteTo(path_);
  EXPECT_EQ(Refresh(*directory), Change::kNone);
  EXPECT_TRUE(directory->active());
}

TEST_P(DirectoryTest, ACutDirectoryIsReadAnew) {
  SampleDirectory sample;
  for (int step = 0; step < 3; ++step) sample.AddStep();
  sample.WriteTo(path_);
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  const auto pinned = directory->Pin();
  WriteFile(At("md.idx"), sample.image().index().substr(0, sample.index_ends()[1]));
  EXPECT_EQ(Refresh(*directory), Change::kReplaced);
  ExpectSample(*directory, 2);
  EXPECT_NE(directory->Pin(), pinned);
  WriteFile(At("md.idx"), sample.image().index().substr(0, 30));
  EXPECT_EQ(Refresh(*directory), Change::kReplaced);
  ExpectSample(*directory, 0);
  sample.WriteTo(path_);
  EXPECT_EQ(Refresh(*directory), Change::kGrown);
  ExpectSample(*directory, 3);
}

TEST_P(DirectoryTest, AnotherDirectoryOfTheSameSizeIsNoticed) {
  SampleDirectory sample({.id = 1}), other({.id = 2});
  sample.AddStep();
  other.AddStep();
  sample.WriteTo(path_);
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  other.WriteTo(path_);
  EXPECT_EQ(Refresh(*directory), Change::kReplaced);
  EXPECT_EQ(directory->metadata().header().id, 2u);
  EXPECT_EQ(Refresh(*directory), Change::kNone);
}

TEST_P(DirectoryTest, ByItsPathItsDataIsMappedWhileItIsClosed) {
  SampleDirectory closed({.active = false, .id = 1}), active({.active = true, .id = 2});
  closed.AddStep();
  active.AddStep();
  const auto is_mapped = [](Directory& directory) { return !directory.data().InPlace(0, 0, 8).empty(); };
  active.WriteTo(path_);
  auto directory = Directory::Open(path_);
  ASSERT_OK(directory);
  EXPECT_FALSE(is_mapped(**directory));
  closed.WriteTo(path_);
  EXPECT_EQ(Refresh(**directory), Change::kReplaced);
  EXPECT_TRUE(is_mapped(**directory));
  active.WriteTo(path_);
  EXPECT_EQ(Refresh(**directory), Change::kReplaced);
  EXPECT_FALSE(is_mapped(**directory));
  ExpectSample(**directory, 1);
}

TEST_P(DirectoryTest, OpeningReadsTheFilesAndNoRecordByItself) {
  SampleDirectory sample;
  for (int step = 0; step < 500; ++step) sample.AddStep();
  sample.WriteTo(path_);
  std::vector<Counting::Asked> asked;
  ASSERT_OK(Directory::Open(std::make_unique<Counting>(Files(), asked)));
  EXPECT_LT(asked.size(), 10u);
}

TEST_P(DirectoryTest, WhatAnotherHasCutIsAnErrorBeforeItIsLookedAt) {
  SampleDirectory sample({.active = true});
  sample.AddStep();
  sample.AddStep();
  sample.WriteTo(path_);
  const bool mapped = GetParam() == std::string("mapped") || GetParam() == std::string("held");
  for (const char* const name : {"md.0", "mmd.0"}) {
    const auto directory = Open();
    ASSERT_NE(directory, nullptr);
    WriteFile(At(name), "");
    if (mapped) {
      EXPECT_STATUS(StatusCode::kDataLoss, directory->CheckHeld(), std::string(name) + ": was cut to 0 bytes");
      EXPECT_STATUS(StatusCode::kDataLoss, directory->CheckHeld(), "refresh") << "as long as it is so";
    } else {
      EXPECT_OK(directory->CheckHeld());
      ExpectSample(*directory, 2);
    }
    sample.WriteTo(path_);
    EXPECT_OK(directory->CheckHeld());
    ExpectSample(*directory, 2);
  }
}

TEST_P(DirectoryTest, WhetherItWasCutIsLookedAtOnceAMillisecond) {
  std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
  const ScopedClock clock({.wall = nullptr, .steady = [&] { return now; }, .sleep = nullptr});
  SampleDirectory sample({.active = true});
  sample.AddStep();
  sample.WriteTo(path_);
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  EXPECT_OK(directory->CheckHeld());
  WriteFile(At("md.0"), "");
  EXPECT_OK(directory->CheckHeld());
  now += std::chrono::milliseconds(1);
  const bool mapped = GetParam() == std::string("mapped") || GetParam() == std::string("held");
  EXPECT_EQ(directory->CheckHeld().ok(), !mapped);
}

TEST_P(DirectoryTest, AnotherFileUnderTheNameIsNoCut) {
  SampleDirectory sample({.active = true});
  sample.AddStep();
  sample.WriteTo(path_);
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  std::filesystem::remove(At("md.0"));
  WriteFile(At("md.0"), "");
  EXPECT_OK(directory->CheckHeld());
  ExpectSample(*directory, 1);
}

// A job cut the last step off and wrote others: only the bytes of its record tell.
TEST_P(DirectoryTest, AnotherLastRecordIsNoticed) {
  SampleDirectory sample;
  for (int step = 0; step < 3; ++step) sample.AddStep();
  sample.WriteTo(path_);
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  std::string index = sample.image().index();
  index[index.size() - 16] ^= 64;  // where writer 0's data lies
  WriteFile(At("md.idx"), index);
  EXPECT_EQ(Refresh(*directory), Change::kReplaced);
  EXPECT_EQ(directory->metadata().steps(), 3u);
}

TEST_P(DirectoryTest, ShorterFormatsOrMetadataAreNoTail) {
  SampleDirectory sample;
  sample.AddStep();
  sample.WriteTo(path_);
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  const std::string& formats = sample.image().formats();
  WriteFile(At("mmd.0"), formats.substr(0, formats.size() / 2));
  EXPECT_STATUS(StatusCode::kDataLoss, directory->Refresh(), "mmd.0");
  EXPECT_EQ(directory->metadata().steps(), 1u) << "an error leaves all as it was";
  std::filesystem::remove(At("mmd.0"));
  EXPECT_STATUS(StatusCode::kDataLoss, directory->Refresh(), "mmd.0");
  WriteFile(At("mmd.0"), formats);
  EXPECT_EQ(Refresh(*directory), Change::kNone);
  ExpectSample(*directory, 1);
}

TEST_P(DirectoryTest, AStepWhoseBytesAreNotThereYetIsAnErrorUntilTheyAre) {
  SampleDirectory sample;
  sample.AddStep();
  sample.WriteTo(path_);
  const std::string before = sample.image().metadata();
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  sample.AddStep();
  sample.WriteTo(path_);
  WriteFile(At("md.0"), before + sample.image().metadata().substr(before.size(), 40));
  for (int i = 0; i < 3; ++i) {
    EXPECT_STATUS(StatusCode::kDataLoss, directory->Refresh(), "md.");
    EXPECT_EQ(directory->metadata().steps(), 1u);
  }
  sample.WriteTo(path_);
  EXPECT_EQ(Refresh(*directory), Change::kGrown);
  ExpectSample(*directory, 2);
}

TEST_P(DirectoryTest, TheIndexMayVanishAndComeBack) {
  SampleDirectory sample;
  sample.AddStep();
  sample.WriteTo(path_);
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  std::filesystem::remove(At("md.idx"));
  EXPECT_STATUS(StatusCode::kNotFound, directory->Refresh(), "md.idx");
  ExpectSample(*directory, 1);
  sample.AddStep();
  sample.WriteTo(path_);
  EXPECT_EQ(Refresh(*directory), Change::kGrown);
  ExpectSample(*directory, 2);
}

// Appended to by jobs of four, two and three writers, record by record.
TEST_P(DirectoryTest, AVectorThatGrowsShowsWhatTheWholeShows) {
  const auto vectors = testing::VectorsPath("bp5");
  if (!vectors) GTEST_SKIP() << "no vectors";
  for (const std::string name : {"append_w423.bp", "appendafter_w323.bp", "hetero_w4.bp", "legacy283_absent_w2.bp"}) {
    SCOPED_TRACE(name);
    const std::string from = *vectors + "/" + name;
    const std::string index = testing::ReadVector(from + "/md.idx");
    const auto whole = Directory::Open(from);
    ASSERT_OK(whole);
    SetUp();
    for (const auto& file : std::filesystem::directory_iterator(from)) {
      WriteFile(At(file.path().filename().string()), testing::ReadVector(file.path().string()));
    }
    WriteFile(At("md.idx"), index.substr(0, 64));
    WriteFile(At("md.0"), "");
    const auto directory = Open();
    ASSERT_NE(directory, nullptr);
    const std::string metadata = testing::ReadVector(from + "/md.0");
    const std::uint32_t steps = (*whole)->metadata().steps();
    for (std::uint32_t step = 0; step < steps; ++step) {
      WriteFile(At("md.0"), metadata.substr(0, (*whole)->metadata().metadata_end(step)));
      WriteFile(At("md.idx"), index.substr(0, (*whole)->metadata().index_end(step)));
      ASSERT_EQ(Refresh(*directory), Change::kGrown);
      ASSERT_EQ(directory->metadata().steps(), step + 1);
    }
    const auto& variables = (*whole)->metadata().variables();
    ASSERT_EQ(directory->metadata().variables().size(), variables.size());
    for (bp5::VariableNumber v = 0; v < variables.size(); ++v) {
      EXPECT_EQ(directory->metadata().variables()[v].name, variables[v].name);
      EXPECT_EQ(directory->metadata().variables()[v].steps, variables[v].steps);
    }
  }
}

// More than is read of md.idx at once, and a record that is longer than that.
TEST_P(DirectoryTest, ALongIndexIsReadToItsEnd) {
  SampleDirectory sample;
  sample.AddStep();
  sample.AddStep();
  sample.WriteTo(path_);
  const std::string& index = sample.image().index();
  const std::string few = bp5::EncodeWriterMap(std::vector<std::uint32_t>(2, 0), 1);
  std::string all = index.substr(0, 64);
  while (all.size() < std::size_t{9} << 20) all += few;
  all += bp5::EncodeWriterMap(std::vector<std::uint32_t>(1 << 20, 0), 1);
  all += index.substr(64, sample.index_ends()[0] - 64);
  WriteFile(At("md.idx"), all);
  const auto directory = Open();
  ASSERT_NE(directory, nullptr);
  EXPECT_EQ(directory->metadata().index_bytes(), all.size());
  ExpectSample(*directory, 1);
  EXPECT_EQ(Refresh(*directory), Change::kNone);
  WriteFile(At("md.idx"), all + index.substr(sample.index_ends()[0]));
  EXPECT_EQ(Refresh(*directory), Change::kGrown);
  ExpectSample(*directory, 2);
}

TEST_P(DirectoryTest, AnIndexOfNothingIsRefusedWithItsBeginning) {
  SampleDirectory sample;
  sample.AddStep();
  sample.WriteTo(path_);
  WriteFile(At("md.idx"), sample.image().index().substr(0, 64));
  std::filesystem::resize_file(At("md.idx"), std::uint64_t{1} << 40);
  std::vector<Counting::Asked> asked;
  EXPECT_STATUS(StatusCode::kDataLoss, Directory::Open(std::make_unique<Counting>(Files(), asked)), "md.idx");
  std::uint64_t bytes = 0;
  for (const auto& one : asked) bytes += one.bytes;
  EXPECT_LT(bytes, std::uint64_t{5} << 20);
}

TEST_P(DirectoryTest, ARefreshReadsTheTailOnly) {
  SampleDirectory sample;
  for (int step = 0; step < 50; ++step) sample.AddStep();
  sample.WriteTo(path_);
  const std::size_t metadata = sample.image().metadata().size(), formats = sample.image().formats().size();
  std::vector<Counting::Asked> asked;
  const auto directory = Directory::Open(std::make_unique<Counting>(Files(), asked));
  ASSERT_OK(directory);
  asked.clear();
  sample.AddStep();
  sample.WriteTo(path_);
  EXPECT_EQ(Refresh(**directory), Change::kGrown);
  std::uint64_t index = 0;
  for (const auto& one : asked) {
    if (one.name == "md.idx") index += one.bytes;
    if (one.name == "md.0") {
      EXPECT_EQ(one.offset, metadata);
    }
    if (one.name == "mmd.0") {
      EXPECT_EQ(one.offset, formats);
    }
  }
  EXPECT_LT(index, 300u) << "header, last record, new record";
  asked.clear();
  EXPECT_EQ(Refresh(**directory), Change::kNone);
  EXPECT_EQ(asked.size(), 2u) << "header and last record";
  // A writer is at work on the step after the next.
  sample.AddStep();
  const std::size_t before = (*directory)->metadata().metadata_bytes(), behind = sample.image().metadata().size();
  sample.AddStep();
  sample.WriteTo(path_);
  WriteFile(At("md.idx"), sample.image().index().substr(0, sample.index_ends()[51]));
  asked.clear();
  EXPECT_EQ(Refresh(**directory), Change::kGrown);
  for (const auto& one : asked) {
    if (one.name == "md.0") {
      EXPECT_EQ(one.bytes, behind - before);
    }
  }
}

}  // namespace
}  // namespace cairn::bpdir
