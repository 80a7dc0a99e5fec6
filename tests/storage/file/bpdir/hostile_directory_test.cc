// Directories whose files claim to be far larger than what they have: what is read and held until they are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "storage/file/bpdir/directory.h"
#include "storage/file/bpdir/file_source.h"
#include "storage/file/bpdir/held_bytes.h"
#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/image.h"
#include "tests/storage/file/bpdir/sample.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {
namespace {

using absl::StatusCode;

// Files with zeros behind what they have, as sparse ones.
struct SparseFile {
  std::string begin;
  std::uint64_t bytes = 0;
};
struct Counts {
  std::uint64_t read = 0, reads = 0;  // bytes; pieces of what is held
};

class SparseFiles final : public FileSource {
 public:
  SparseFiles(const std::map<std::string, SparseFile>& files, Counts& counts) : files_(files), counts_(counts) {}

  absl::StatusOr<std::uint64_t> Bytes(const std::string& name) override {
    const auto found = files_.find(name);
    if (found == files_.end()) return absl::NotFoundError(name);
    return found->second.bytes;
  }
  absl::Status Read(const std::string& name, std::uint64_t offset, std::span<std::byte> target) override {
    counts_.read += target.size();
    const SparseFile& file = files_.at(name);
    if (offset > file.bytes || target.size() > file.bytes - offset) return absl::DataLossError("ends before");
    std::fill(target.begin(), target.end(), std::byte{0});
    if (offset < file.begin.size()) {
      std::memcpy(target.data(), file.begin.data() + offset,
                  std::min<std::uint64_t>(target.size(), file.begin.size() - offset));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::span<const std::byte>> HoldIf(const std::string& name, std::uint64_t offset, std::uint64_t bytes,
                                                    const PrefixCheck& check) override {
    return held_.Hold(NameOf(name), bytes, check, [&](std::uint64_t at, std::span<std::byte> target) {
      ++counts_.reads;
      return Read(name, offset + at, target);
    });
  }
  void Release(std::span<const std::byte> held) override { held_.Release(held); }
  std::span<const std::byte> InPlace(const std::string&, std::uint64_t, std::uint64_t) override { return {}; }
  std::string NameOf(const std::string& name) const override { return "there/" + name; }
  std::unique_ptr<FileSource> Anew() const override { return std::make_unique<SparseFiles>(files_, counts_); }

 private:
  const std::map<std::string, SparseFile>& files_;
  Counts& counts_;
  HeldBytes held_;
};

class HostileDirectoryTest : public ::testing::Test {
 protected:
  HostileDirectoryTest() {
    testing::SampleDirectory sample;
    sample.AddStep();
    first_step_ = sample.index_ends().back();
    sample.AddStep();
    const auto file = [](const std::string& bytes) { return SparseFile{bytes, bytes.size()}; };
    files_ = {{"md.idx", file(sample.image().index())},
              {"md.0", file(sample.image().metadata())},
              {"mmd.0", file(sample.image().formats())}};
  }
  // Of the second step's record: its place 0, its size 8 in md.0.
  std::uint64_t OfStep(std::size_t place) const {
    std::uint64_t number = 0;
    std::memcpy(&number, files_.at("md.idx").begin.data() + first_step_ + 9 + place, sizeof number);
    return number;
  }
  void SetOfStep(std::size_t place, std::uint64_t number) {
    std::memcpy(files_["md.idx"].begin.data() + first_step_ + 9 + place, &number, sizeof number);
  }
  void SetInMetadata(std::uint64_t place, std::uint64_t number) {
    std::memcpy(files_["md.0"].begin.data() + place, &number, sizeof number);
  }
  absl::Status Open() { return Directory::Open(std::make_unique<SparseFiles>(files_, counts_)).status(); }

  std::map<std::string, SparseFile> files_;
  std::size_t first_step_ = 0;
  Counts counts_;
};

constexpr std::uint64_t kClaimed = std::uint64_t{1900} << 20, kBytesMax = 1 << 20;

TEST_F(HostileDirectoryTest, TheSampleIsTaken) {
  EXPECT_OK(Open());
}

TEST_F(HostileDirectoryTest, AStepThatClaimsGigabytesIsRefusedByItsLength) {
  files_["md.0"].bytes = OfStep(0) + kClaimed;
  SetOfStep(8, kClaimed);
  EXPECT_STATUS(StatusCode::kDataLoss, Open(), "by md.idx");
  EXPECT_LT(counts_.read, kBytesMax);
}

TEST_F(HostileDirectoryTest, AStepThatClaimsGigabytesIsRefusedByItsSlots) {
  const std::uint64_t begin = OfStep(0);
  files_["md.0"].bytes = begin + kClaimed;
  SetOfStep(8, kClaimed);
  SetInMetadata(begin, kClaimed - 8);
  EXPECT_STATUS(StatusCode::kDataLoss, Open(), "behind the slots");
  // The last of the four slots takes all: its format is none.
  std::uint64_t before = 0;
  for (int slot = 0; slot < 3; ++slot) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, files_["md.0"].begin.data() + begin + 8 + 8 * slot, sizeof bytes);
    before += bytes;
  }
  SetInMetadata(begin + 8 + 24, kClaimed - 40 - before);
  const std::uint64_t last = begin + 40 + before;
  files_["md.0"].begin.resize(std::min<std::uint64_t>(files_["md.0"].begin.size(), last));
  EXPECT_STATUS(StatusCode::kDataLoss, Open(), "its format is not in mmd.0");
  EXPECT_LT(counts_.read, kBytesMax);
}

// A step of many records, larger than what is read without a look at it.
TEST_F(HostileDirectoryTest, ALargeStepIsReadInPiecesAndNotRecordByRecord) {
  constexpr std::size_t kWriters = 600, kBlocks = 400;
  bp5::Put put;
  put.name = "parts";
  put.kind = bp5::Kind::kLocalArray;
  put.type = bp5::Type::kDouble;
  put.blocks.resize(kBlocks);
  for (auto& block : put.blocks) block.box.count = {1};
  bpdir::Image image({});
  image.Append(std::vector(kWriters, *bp5::WriterEncoder().Encode({&put, 1}, 8 * kBlocks)),
               std::vector<bp5::WriterData>(kWriters), std::vector<std::uint32_t>(kWriters));
  ASSERT_GT(image.metadata().size(), std::size_t{4} << 20);
  files_["md.idx"] = {image.index(), image.index().size()};
  files_["md.0"] = {image.metadata(), image.metadata().size()};
  files_["mmd.0"] = {image.formats(), image.formats().size()};
  EXPECT_OK(Open());
  EXPECT_LT(counts_.reads, 12u);
  EXPECT_LT(counts_.read, image.metadata().size() + kBytesMax) << "each byte once";
  // A slot whose format is none: nothing is read behind the piece where it begins.
  std::uint64_t slot = 0;
  std::memcpy(&slot, image.metadata().data() + 8 + 8 * 5, sizeof slot);
  SetInMetadata(8 + 16 * kWriters + 5 * slot, 7);
  counts_ = {};
  EXPECT_STATUS(StatusCode::kDataLoss, Open(), "slot 5 at ");
  EXPECT_LT(counts_.read, kBytesMax);
}

TEST_F(HostileDirectoryTest, WhatLiesBetweenStepsIsNotHeld) {
  const std::string step = files_["md.0"].begin.substr(OfStep(0), OfStep(8));
  const std::uint64_t far = std::uint64_t{1} << 40;
  SparseFile& metadata = files_["md.0"];
  metadata.bytes = far + step.size();
  SetOfStep(0, far);
  // Nothing is there but zeros.
  EXPECT_STATUS(StatusCode::kDataLoss, Open(), "by md.idx");
  EXPECT_LT(counts_.read, kBytesMax);
}

TEST_F(HostileDirectoryTest, ErrorsNameTheDirectory) {
  const std::string folder = ::testing::TempDir() + "/sparse.bp";
  testing::SampleDirectory sample;
  sample.AddStep();
  sample.WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const auto files, CopyFiles(folder));
  EXPECT_EQ(files->NameOf(""), folder);
  EXPECT_EQ(files->NameOf("md.0"), folder + "/md.0");
}

}  // namespace
}  // namespace cairn::bpdir
