// A directory whose metadata is in memory, and whose data is in files.
#include "storage/file/bpdir/memory_source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "storage/io/posix_disk.h"
#include "tests/storage/file/bpdir/sample.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {
namespace {

using absl::StatusCode;

class MemorySourceTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ + "/ckpt.5");
    testing::WriteFile(root_ + "/ckpt.5/rank", "0123456789");
    auto directory = std::make_shared<MemoryDirectory>();
    directory->title = "dataset 5";
    directory->held["md.0"] = "metadata";
    directory->data["data.0"] = "ckpt.5/rank";
    directory->data["data.1"] = "ckpt.5/none";
    files_ = FilesInMemory(directory, GetParam() ? *MapFiles(root_) : ReadFiles(*disk_, root_));
  }
  static std::string Read(FileSource& files, const std::string& name, std::uint64_t offset, std::size_t bytes) {
    std::vector<std::byte> target(bytes);
    const absl::Status read = files.Read(name, offset, target);
    return read.ok() ? TextOf(target) : read.ToString();
  }
  static std::string TextOf(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  const std::string root_ = ::testing::TempDir() + "memory_source_test";
  const std::unique_ptr<PosixDisk> disk_ = MakePosixDisk({.engine = {.io_uring = false, .threads = 1}});
  std::unique_ptr<FileSource> files_;
};

INSTANTIATE_TEST_SUITE_P(MappedOrRead, MemorySourceTest, ::testing::Bool());

TEST_P(MemorySourceTest, MetadataComesFromMemoryAndDataFromItsFile) {
  EXPECT_EQ(files_->Bytes("md.0").value(), 8u);
  EXPECT_EQ(Read(*files_, "md.0", 4, 4), "data");
  EXPECT_EQ(files_->Bytes("data.0").value(), 10u);
  EXPECT_EQ(Read(*files_, "data.0", 3, 4), "3456");
  ASSERT_OK_AND_ASSIGN(const auto held, files_->Hold("md.0", 0, 8));
  files_->Release(held);
  EXPECT_EQ(TextOf(held), "metadata") << "it stays as long as the directory";
}

TEST_P(MemorySourceTest, DataIsShownInPlaceIfTheFilesAreMapped) {
  EXPECT_EQ(TextOf(files_->InPlace("data.0", 2, 3)), GetParam() ? "234" : "");
  EXPECT_TRUE(files_->InPlace("md.0", 0, 1).empty());
}

TEST_P(MemorySourceTest, WhatIsNotThereIsAnErrorThatNamesIt) {
  EXPECT_STATUS(StatusCode::kNotFound, files_->Bytes("data.7").status(), "dataset 5: data.7");
  EXPECT_STATUS(StatusCode::kNotFound, files_->Bytes("data.1").status(), "ckpt.5/none");
  EXPECT_STATUS(StatusCode::kDataLoss, files_->Hold("md.0", 5, 4).status(), "dataset 5: md.0: has 8 bytes");
  EXPECT_STATUS(StatusCode::kDataLoss, files_->Hold("md.0", ~std::uint64_t{0}, 2).status(), "md.0");
  EXPECT_EQ(files_->NameOf("data.0"), root_ + "/ckpt.5/rank");
  EXPECT_EQ(files_->NameOf(""), "dataset 5");
}

TEST_P(MemorySourceTest, AnewIsAnotherOfTheSame) {
  const auto other = files_->Anew();
  files_.reset();
  EXPECT_EQ(Read(*other, "md.0", 0, 4), "meta");
  EXPECT_EQ(Read(*other, "data.0", 9, 1), "9");
}

}  // namespace
}  // namespace cairn::bpdir
