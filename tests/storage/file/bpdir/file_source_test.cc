#include "storage/file/bpdir/file_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "storage/io/posix_disk.h"
#include "tests/storage/file/bpdir/sample.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::WriteFile;

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class FileSourceTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(path_);
    WriteFile(At("a"), "0123456789");
  }
  std::unique_ptr<FileSource> Files() {
    const std::string way = GetParam();
    if (way == "mapped") return *MapFiles(path_);
    if (way == "held") return *MapHeldFiles(path_);
    if (way == "copied") return *CopyFiles(path_);
    return ReadFiles(*disk_, path_);
  }
  std::string At(const std::string& name) const { return path_ + "/" + name; }
  static std::string Read(FileSource& files, const std::string& name, std::uint64_t offset, std::size_t bytes) {
    std::vector<std::byte> target(bytes);
    const absl::Status read = files.Read(name, offset, target);
    return read.ok() ? TextOf(target) : read.ToString();
  }

  const std::string root_ = ::testing::TempDir() + "/file_source_test_" + GetParam();
  const std::string path_ = root_ + "/ckpt.5.bp";
  const std::unique_ptr<PosixDisk> disk_ = MakePosixDisk({.engine = {.io_uring = false, .threads = 1}});
};

INSTANTIATE_TEST_SUITE_P(AllSources, FileSourceTest, ::testing::Values("mapped", "held", "copied", "disk"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(FileSourceTest, FilesAreReadAndHeld) {
  const auto files = Files();
  EXPECT_EQ(files->Bytes("a").value(), 10u);
  EXPECT_EQ(Read(*files, "a", 3, 4), "3456");
  EXPECT_EQ(Read(*files, "a", 10, 0), "");
  const auto held = files->Hold("a", 2, 8);
  ASSERT_OK(held);
  EXPECT_EQ(TextOf(*held), "23456789");
  EXPECT_TRUE(files->Hold("a", 10, 0)->empty());
  EXPECT_NE(files->NameOf("a").find("ckpt.5.bp/a"), std::string::npos);
}

TEST_P(FileSourceTest, WhatIsNotThereIsAnError) {
  const auto files = Files();
  std::vector<std::byte> target(4);
  EXPECT_STATUS(StatusCode::kNotFound, files->Bytes("none"), "none");
  EXPECT_STATUS(StatusCode::kNotFound, files->Read("none", 0, target), "none");
  EXPECT_STATUS(StatusCode::kNotFound, files->Hold("none", 0, 1), "none");
  EXPECT_STATUS(StatusCode::kDataLoss, files->Read("a", 7, target), "/a");
  EXPECT_STATUS(StatusCode::kDataLoss, files->Read("a", ~std::uint64_t{0} - 1, target), "/a");
  EXPECT_STATUS(StatusCode::kDataLoss, files->Hold("a", 7, 4), "has 10 bytes");
  EXPECT_STATUS(StatusCode::kDataLoss, files->Hold("a", ~std::uint64_t{0}, 4), "has 10 bytes");
  EXPECT_TRUE(files->InPlace("a", 7, 4).empty());
  EXPECT_TRUE(files->InPlace("a", ~std::uint64_t{0}, 4).empty());
  EXPECT_TRUE(files->InPlace("none", 0, 4).empty());
}

TEST_P(FileSourceTest, OnlyRegularFilesAreOpened) {
  ASSERT_EQ(::mkfifo(At("pipe").c_str(), 0600), 0);
  fs::create_directories(At("directory"));
  const auto files = Files();
  std::vector<std::byte> target(4);
  for (const std::string name : {"pipe", "directory"}) {
    const std::string text = name + ": not a regular file";
    EXPECT_STATUS(StatusCode::kDataLoss, files->Bytes(name), text);
    EXPECT_STATUS(StatusCode::kDataLoss, files->Read(name, 0, target), text) << "and nothing waits for it";
    EXPECT_STATUS(StatusCode::kDataLoss, files->Hold(name, 0, 1), text);
  }
}

TEST_P(FileSourceTest, WhatIsHeldStaysInPlaceWhileTheFileGrows) {
  const auto files = Files();
  std::string content = "0123456789";
  std::vector<std::span<const std::byte>> held = {*files->Hold("a", 0, 10)};
  for (int i = 0; i < 200; ++i) {
    const std::string more(3000, static_cast<char>('a' + i % 26));
    content += more;
    WriteFile(At("a"), content);
    const auto tail = files->Hold("a", content.size() - more.size(), more.size());
    ASSERT_OK(tail);
    held.push_back(*tail);
  }
  std::string all;
  for (const auto& part : held) all += TextOf(part);
  EXPECT_EQ(all, content);
}

TEST_P(FileSourceTest, DataIsShownInPlaceOnlyIfMapped) {
  const auto files = Files();
  const bool mapped = std::string(GetParam()) == "mapped";
  EXPECT_EQ(TextOf(files->InPlace("a", 2, 3)), mapped ? "234" : "");
  const auto first = files->InPlace("a", 0, 10);
  std::string content(500000, 'x');
  content.replace(0, 10, "0123456789");
  WriteFile(At("a"), content);
  EXPECT_EQ(files->InPlace("a", 400000, 100000).size(), mapped ? 100000u : 0u);
  EXPECT_TRUE(files->InPlace("a", 400000, 100001).empty());
  EXPECT_EQ(TextOf(first), mapped ? "0123456789" : "") << "and stays";
}

TEST_P(FileSourceTest, AnotherFileUnderTheNameIsFoundByItsSize) {
  const auto files = Files();
  EXPECT_EQ(Read(*files, "a", 0, 3), "012");
  WriteFile(At("b"), "another");
  fs::rename(At("b"), At("a"));
  EXPECT_EQ(files->Bytes("a").value(), 7u);
  EXPECT_EQ(Read(*files, "a", 0, 7), "another");
}

TEST_P(FileSourceTest, LinksOfAViewAreFollowed) {
  fs::create_directories(root_ + "/ckpt.5");
  WriteFile(root_ + "/ckpt.5/Ckpt5-Rank0.fti", "elements");
  fs::create_symlink("../ckpt.5/Ckpt5-Rank0.fti", At("data.0"));
  fs::create_symlink("data.0", At("data.1"));
  const auto files = Files();
  EXPECT_EQ(files->Bytes("data.0").value(), 8u);
  EXPECT_EQ(Read(*files, "data.0", 2, 3), "eme");
  EXPECT_EQ(Read(*files, "data.1", 0, 8), "elements");
}

TEST_P(FileSourceTest, AnewHoldsNothingAndSeesTheFilesAsTheyAre) {
  auto files = Files();
  EXPECT_EQ(Read(*files, "a", 0, 3), "012");
  const auto anew = files->Anew();
  files.reset();
  EXPECT_EQ(Read(*anew, "a", 0, 3), "012");
}

TEST(ReadFilesTest, LinksThatLeadOutAreNotFollowed) {
  FakeDisk disk;
  for (const char* directory : {"/run", "/run/ckpt.5", "/run/ckpt.5.bp", "/runaway"}) {
    ASSERT_OK(disk.MakeDirectory(directory, 0700));
  }
  for (const char* file : {"/run/ckpt.5/f", "/runaway/f"}) {
    const auto opened = disk.Open(file, {.writable = true, .create = true});
    ASSERT_OK(opened);
    ASSERT_OK((*opened)->WriteAt(0, std::as_bytes(std::span("text", 4))));
  }
  ASSERT_OK(disk.Symlink("../ckpt.5/f", "/run/ckpt.5.bp/data.0"));
  ASSERT_OK(disk.Symlink("/run/ckpt.5/f", "/run/ckpt.5.bp/data.1"));
  ASSERT_OK(disk.Symlink("../../runaway/f", "/run/ckpt.5.bp/data.2"));
  ASSERT_OK(disk.Symlink("data.3", "/run/ckpt.5.bp/data.3"));
  ASSERT_OK(disk.Symlink("../none", "/run/ckpt.5.bp/data.4"));
  const auto files = ReadFiles(disk, "/run/ckpt.5.bp/");
  EXPECT_EQ(files->Bytes("data.0").value(), 4u);
  std::vector<std::byte> target(4);
  EXPECT_OK(files->Read("data.0", 0, target));
  EXPECT_STATUS(StatusCode::kPermissionDenied, files->Read("data.1", 0, target), "/run/ckpt.5/f");
  EXPECT_STATUS(StatusCode::kPermissionDenied, files->Read("data.2", 0, target), "runaway");
  EXPECT_STATUS(StatusCode::kPermissionDenied, files->Bytes("data.2"), "runaway");
  EXPECT_STATUS(StatusCode::kPermissionDenied, files->Read("data.3", 0, target), "links");
  EXPECT_STATUS(StatusCode::kNotFound, files->Read("data.4", 0, target), "none");
}

TEST(ReadFilesTest, AFileThatClaimsTooMuchIsNotHeld) {
  const std::string path = ::testing::TempDir() + "/file_source_test_sparse";
  fs::create_directories(path);
  WriteFile(path + "/md.0", "");
  fs::resize_file(path + "/md.0", std::uint64_t{1} << 40);
  EXPECT_STATUS(StatusCode::kResourceExhausted, (*CopyFiles(path))->Hold("md.0", 0, std::uint64_t{1} << 40), "md.0");
  EXPECT_STATUS(StatusCode::kNotFound, MapFiles(path + "/none"), "none");
  EXPECT_STATUS(StatusCode::kNotFound, MapFiles(path + "/md.0"), "md.0");
  fs::remove_all(path);
}

}  // namespace
}  // namespace cairn::bpdir
