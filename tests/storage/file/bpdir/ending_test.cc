// Closed directories that end early: all steps are seen, or something says that they are not.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/file/bpdir/directory.h"
#include "storage/file/bpdir/memory_source.h"
#include "storage/format/bp5/walk.h"
#include "tests/storage/file/bpdir/sample.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::bpdir {
namespace {

using absl::StatusCode;
using testing::SampleDirectory;

constexpr std::size_t kActiveAt = bp5::IndexHeader::kActiveAt;

struct Files {
  std::string index, metadata, formats;
};

absl::StatusOr<std::unique_ptr<Directory>> Open(const Files& files) {
  auto memory = std::make_shared<MemoryDirectory>();
  memory->title = "it";
  memory->held = {{"md.idx", files.index}, {"md.0", files.metadata}, {"mmd.0", files.formats}};
  CAIRN_ASSIGN_OR_RETURN(auto below, CopyFiles(::testing::TempDir()));
  return Directory::Open(FilesInMemory(std::move(memory), std::move(below)));
}

std::string WithU64(std::string bytes, std::size_t at, std::uint64_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

std::uint64_t U64In(const std::string& bytes, std::size_t at) {
  return bp5::U64At(std::as_bytes(std::span(bytes)), at);
}

// What may stand in place of a number: its neighbours, limits, each bit flipped.
std::vector<std::uint64_t> Others(std::uint64_t number) {
  std::vector<std::uint64_t> others = {0,          number - 8, number - 1,       number + 1,
                                       number + 8, 2 * number, ~std::uint64_t{0}};
  for (int bit = 0; bit < 64; ++bit) others.push_back(number ^ std::uint64_t{1} << bit);
  return others;
}

class Sweep {
 public:
  explicit Sweep(Files files) : files_(std::move(files)) {
    const auto whole = Open(files_);
    EXPECT_OK(whole);
    if (!whole.ok()) return;
    EXPECT_OK((*whole)->ending());
    EXPECT_TRUE((*whole)->notes().empty());
    steps_ = (*whole)->metadata().steps();
  }

  void Run() {
    const auto bytes = std::as_bytes(std::span(files_.index)).subspan(bp5::kIndexHeaderBytes);
    std::vector<bp5::IndexRecord> records;
    for (bp5::IndexWalk walk(bytes, bp5::kIndexHeaderBytes); walk.Next();) records.push_back(walk.record());
    for (const bp5::IndexRecord& record : records) {
      CutWithin(record);
      ChangeNumber(record.offset + 1, "length of the record");
      for (std::uint64_t at = 0; at < record.body.size(); at += 8) {
        ChangeNumber(record.body_offset() + at, "number in the record");
        for (const bp5::IndexRecord& other : records) {  // such as the position of another step
          if (at + 8 > other.body.size()) continue;
          Try(WithU64(files_.index, record.body_offset() + at, bp5::U64At(other.body, at)), "another record's number",
              record.body_offset() + at);
        }
      }
    }
    for (std::size_t bytes_left = 0; bytes_left < bp5::kIndexHeaderBytes; ++bytes_left) {
      Try(files_.index.substr(0, bytes_left), "cut in the header", bytes_left);
    }
  }
  std::size_t tried() const { return tried_; }

 private:
  void CutWithin(const bp5::IndexRecord& record) {
    const std::uint64_t bytes = bp5::kIndexRecordHeadBytes + record.body.size();
    for (std::uint64_t left = 0; left < bytes; ++left) {
      Try(files_.index.substr(0, record.offset + left), "cut", record.offset + left);
    }
  }
  void ChangeNumber(std::uint64_t at, const char* what) {
    for (const std::uint64_t other : Others(U64In(files_.index, at))) Try(WithU64(files_.index, at, other), what, at);
  }
  void Try(std::string index, const char* what, std::uint64_t at) {
    ++tried_;
    const auto opened = Open({std::move(index), files_.metadata, files_.formats});
    if (!opened.ok() || !(*opened)->ending().ok()) return;
    EXPECT_EQ((*opened)->metadata().steps(), steps_) << what << " at " << at << " and nothing says so";
  }

  const Files files_;
  std::uint32_t steps_ = 0;
  std::size_t tried_ = 0;
};

Files Sample(std::uint32_t steps, bool active = false) {
  SampleDirectory sample({.active = active});
  for (std::uint32_t step = 0; step < steps; ++step) sample.AddStep();
  return {std::string(sample.image().index()), std::string(sample.image().metadata()),
          std::string(sample.image().formats())};
}

TEST(EndingTest, NoChangeOfARecordDropsAStepInSilence) {
  Sweep sweep(Sample(4));
  sweep.Run();
  EXPECT_GT(sweep.tried(), 2000u);
}

TEST(EndingTest, NoChangeOfARecordThatOthersWroteDropsAStepInSilence) {
  const auto path = testing::VectorsPath("bp5");
  if (!path) return;
  for (const char* const name : {"tiny_w1.bp", "appendafter_w323.bp", "flush_w2.bp", "legacy283_scalars_w2.bp"}) {
    SCOPED_TRACE(name);
    const std::string directory = *path + "/" + name + "/";
    Sweep sweep({testing::ReadVector(directory + "md.idx"), testing::ReadVector(directory + "md.0"),
                 testing::ReadVector(directory + "mmd.0")});
    sweep.Run();
    EXPECT_GT(sweep.tried(), 100u);
  }
}

TEST(EndingTest, EveryClosedDirectoryThatOthersWroteIsWhole) {
  const auto path = testing::VectorsPath("bp5");
  if (!path) return;
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*path)) {
    if (entry.path().extension() != ".bp") continue;
    const auto directory = Directory::Open(entry.path().string());
    ASSERT_OK(directory) << entry.path();
    EXPECT_OK((*directory)->ending());
    EXPECT_TRUE((*directory)->notes().empty()) << entry.path();
    ++seen;
  }
  EXPECT_GT(seen, 40);
}

TEST(EndingTest, WhatIsMissingIsNamed) {
  const Files whole = Sample(2);
  Files cut = whole;
  cut.index.pop_back();
  EXPECT_STATUS(StatusCode::kDataLoss, (*Open(cut))->ending(), "it: md.idx: the record at ");
  EXPECT_EQ((*Open(cut))->metadata().steps(), 1u) << "what is there is shown";
  cut.index = Sample(1).index;
  EXPECT_STATUS(StatusCode::kDataLoss, (*Open(cut))->ending(), "it: md.0: ");
  cut.index.resize(64);
  EXPECT_STATUS(StatusCode::kDataLoss, (*Open(cut))->ending(), " bytes from 0 on are of no step in md.idx");
  cut.index.clear();
  EXPECT_STATUS(StatusCode::kDataLoss, (*Open(cut))->ending(), "md.idx: its 0 bytes are no header, and md.0 has ");
  cut.metadata.clear();
  EXPECT_OK((*Open(cut))->ending()) << "just made";
}

TEST(EndingTest, AnActiveDirectoryMayEndAnywhere) {
  const Files whole = Sample(3, /*active=*/true);
  for (std::size_t left = bp5::kIndexHeaderBytes; left <= whole.index.size(); ++left) {
    ASSERT_OK_AND_ASSIGN(const auto opened, Open({whole.index.substr(0, left), whole.metadata, whole.formats}));
    EXPECT_TRUE(opened->active());
    EXPECT_OK(opened->ending());
    EXPECT_TRUE(opened->notes().empty());
  }
}

TEST(EndingTest, StepsThatLieOverEachOtherAreRefused) {
  Files files = Sample(2);
  const auto bytes = std::as_bytes(std::span(files.index)).subspan(bp5::kIndexHeaderBytes);
  std::uint64_t last = 0;
  for (bp5::IndexWalk walk(bytes, bp5::kIndexHeaderBytes); walk.Next();) last = walk.record().body_offset();
  files.index = WithU64(files.index, last, 0);
  EXPECT_STATUS(StatusCode::kDataLoss, Open(files).status(), "begins at 0 of md.0, where the steps before have all");
}

TEST(EndingTest, AGapBetweenStepsIsNotedAndNoError) {
  Files files = Sample(1);
  const std::uint64_t first = files.metadata.size();
  Files two = Sample(2);
  files.metadata = two.metadata.substr(0, first) + std::string(64, 'x') + two.metadata.substr(first);
  const auto bytes = std::as_bytes(std::span(two.index)).subspan(bp5::kIndexHeaderBytes);
  std::uint64_t last = 0;
  for (bp5::IndexWalk walk(bytes, bp5::kIndexHeaderBytes); walk.Next();) last = walk.record().body_offset();
  ASSERT_OK_AND_ASSIGN(const auto opened, Open({WithU64(two.index, last, first + 64), files.metadata, two.formats}));
  EXPECT_EQ(opened->metadata().steps(), 2u);
  EXPECT_OK(opened->ending());
  ASSERT_EQ(opened->notes().size(), 1u);
  EXPECT_NE(opened->notes()[0].find("md.0: 64 bytes between steps are of no step"), std::string::npos);
}

// A source under which a writer goes on, just when a file's size is asked for.
class WritingMeanwhile final : public FileSource {
 public:
  WritingMeanwhile(std::unique_ptr<FileSource> files, std::string name, std::function<void()> write)
      : files_(std::move(files)), name_(std::move(name)), write_(std::move(write)) {}

  absl::StatusOr<std::uint64_t> Bytes(const std::string& name) override {
    if (name == name_ && write_ != nullptr) std::exchange(write_, nullptr)();
    return files_->Bytes(name);
  }
  absl::Status Read(const std::string& name, std::uint64_t offset, std::span<std::byte> target) override {
    return files_->Read(name, offset, target);
  }
  absl::StatusOr<std::span<const std::byte>> HoldIf(const std::string& name, std::uint64_t offset, std::uint64_t bytes,
                                                    const PrefixCheck& check) override {
    return files_->HoldIf(name, offset, bytes, check);
  }
  void Release(std::span<const std::byte> held) override { files_->Release(held); }
  std::span<const std::byte> InPlace(const std::string&, std::uint64_t, std::uint64_t) override { return {}; }
  std::string NameOf(const std::string& name) const override { return files_->NameOf(name); }
  std::unique_ptr<FileSource> Anew() const override { return files_->Anew(); }

 private:
  const std::unique_ptr<FileSource> files_;
  const std::string name_;
  std::function<void()> write_;
};

TEST(EndingTest, AWriterThatGoesOnJustNowIsNoDamage) {
  const std::string path = ::testing::TempDir() + "ending_test.bp";
  for (const bool closed : {false, true}) {
    std::filesystem::remove_all(path);
    SampleDirectory sample, more({.active = !closed});
    sample.AddStep();
    sample.WriteTo(path);
    for (int step = 0; step < 2; ++step) more.AddStep();
    const std::string longer(more.image().metadata());
    ASSERT_OK_AND_ASSIGN(auto files, CopyFiles(path));
    ASSERT_OK_AND_ASSIGN(const auto opened, Directory::Open(std::make_unique<WritingMeanwhile>(
                                                std::move(files), "md.0", [&] { more.WriteTo(path); })));
    EXPECT_EQ(opened->metadata().steps(), 1u);
    EXPECT_OK(opened->ending());
    ASSERT_OK(opened->Refresh());
    EXPECT_EQ(opened->metadata().steps(), 2u);
    EXPECT_OK(opened->ending());
  }
}

TEST(EndingTest, ARefreshLooksAnew) {
  const std::string path = ::testing::TempDir() + "ending_refresh_test.bp";
  std::filesystem::remove_all(path);
  SampleDirectory sample;
  sample.AddStep();
  sample.WriteTo(path);
  ASSERT_OK_AND_ASSIGN(const auto opened, Directory::Open(path));
  EXPECT_OK(opened->ending());
  const std::string whole(sample.image().metadata());
  testing::WriteFile(path + "/md.0", whole + std::string(8, '\0'));
  ASSERT_OK(opened->Refresh());
  EXPECT_STATUS(StatusCode::kDataLoss, opened->ending(), "8 bytes from");
  testing::WriteFile(path + "/md.0", whole);
  ASSERT_OK(opened->Refresh());
  EXPECT_OK(opened->ending());
}

}  // namespace
}  // namespace cairn::bpdir
