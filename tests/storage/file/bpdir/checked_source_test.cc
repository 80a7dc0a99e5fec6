// Files of which catalogues know the checksums, through each kind of file source.
#include "storage/file/bpdir/checked_source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/file/bpdir/directory.h"
#include "storage/io/posix_disk.h"
#include "tests/storage/file/bpdir/sample.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {
namespace {

using absl::StatusCode;
using testing::SampleDirectory;
using testing::WriteFile;

class CheckedSourceTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(path_);
    Write("a", std::string(kCrcBlockBytes, 'a') + std::string(100, 'b'));
    Write("b", "0123456789");
    Write("unknown", "x");
    sums_->erase("unknown");
    files_ = CheckFiles(Below(), sums_);
  }
  std::unique_ptr<FileSource> Below() {
    const std::string way = GetParam();
    if (way == "mapped") return *MapFiles(path_);
    if (way == "copied") return *CopyFiles(path_);
    return ReadFiles(*disk_, path_);
  }
  void Write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(path_);
    WriteFile(path_ + "/" + name, bytes);
    FileSums& sums = (*sums_)[name];
    sums = {.bytes = bytes.size(), .crc32c = {}};
    for (std::size_t at = 0; at < bytes.size(); at += kCrcBlockBytes) {
      const std::string block = bytes.substr(at, kCrcBlockBytes);
      sums.crc32c.push_back(Crc32c(std::as_bytes(std::span(block))));
    }
  }
  void Overwrite(const std::string& name, std::uint64_t at, const std::string& bytes) {
    std::fstream file(path_ + "/" + name, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }
  static std::string TextOf(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  absl::StatusOr<std::string> Read(const std::string& name, std::uint64_t offset, std::size_t bytes) {
    std::vector<std::byte> target(bytes);
    CAIRN_RETURN_IF_ERROR(files_->Read(name, offset, target));
    return TextOf(target);
  }
  bool mapped() const { return GetParam() == std::string("mapped"); }

  const std::string path_ = ::testing::TempDir() + "checked_source_test_" + GetParam();
  const std::unique_ptr<PosixDisk> disk_ = MakePosixDisk({.engine = {.io_uring = false, .threads = 1}});
  const std::shared_ptr<KnownSums> sums_ = std::make_shared<KnownSums>();
  std::unique_ptr<FileSource> files_;
};

INSTANTIATE_TEST_SUITE_P(AllSources, CheckedSourceTest, ::testing::Values("mapped", "copied", "disk"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(CheckedSourceTest, GoodBytesAreReadHeldAndShownInPlace) {
  EXPECT_EQ(*files_->Bytes("a"), kCrcBlockBytes + 100);
  EXPECT_EQ(*Read("a", kCrcBlockBytes - 1, 2), "ab");
  ASSERT_OK_AND_ASSIGN(const auto held, files_->Hold("b", 3, 4));
  EXPECT_EQ(TextOf(held), "3456");
  files_->Release(held);
  EXPECT_EQ(TextOf(files_->InPlace("b", 2, 3)), mapped() ? "234" : "");
  EXPECT_TRUE(files_->InPlace("b", 2, 0).empty());
  EXPECT_TRUE(files_->InPlace("b", 8, 3).empty()) << "the file ends before";
  EXPECT_EQ(files_->NameOf("b"), path_ + "/b");
}

TEST_P(CheckedSourceTest, DamageIsAnErrorAndNotShown) {
  Overwrite("a", 5, "A");
  EXPECT_STATUS(StatusCode::kDataLoss, Read("a", 10, 1).status(), path_ + "/a: offset 0: 1048576 bytes with CRC32C");
  EXPECT_STATUS(StatusCode::kDataLoss, files_->Hold("a", 0, 3).status(), path_ + "/a: offset 0");
  EXPECT_TRUE(files_->InPlace("a", 10, 1).empty());
  EXPECT_EQ(*Read("a", kCrcBlockBytes, 1), "b");
}

TEST_P(CheckedSourceTest, AnotherSizeIsDamage) {
  std::filesystem::resize_file(path_ + "/b", 9);
  EXPECT_STATUS(StatusCode::kDataLoss, files_->Bytes("b").status(), "/b: has 9 bytes, its catalogue says 10");
  EXPECT_STATUS(StatusCode::kDataLoss, Read("b", 0, 1).status(), "/b");
  EXPECT_TRUE(files_->InPlace("b", 0, 1).empty());
}

TEST_P(CheckedSourceTest, FilesThatNoCatalogueKnowsAreNotThere) {
  EXPECT_STATUS(StatusCode::kNotFound, files_->Bytes("unknown").status(), "unknown: not in the catalogues");
  EXPECT_STATUS(StatusCode::kNotFound, Read("unknown", 0, 1).status(), "unknown");
  EXPECT_STATUS(StatusCode::kNotFound, files_->Hold("unknown", 0, 1).status(), "unknown");
  EXPECT_TRUE(files_->InPlace("unknown", 0, 1).empty());
}

TEST_P(CheckedSourceTest, AnotherSourceOfTheFilesChecksThemItself) {
  EXPECT_TRUE(Read("b", 0, 10).ok());
  Overwrite("b", 5, "x");
  files_ = files_->Anew();
  EXPECT_STATUS(StatusCode::kDataLoss, Read("b", 0, 1).status(), "/b");
}

TEST_P(CheckedSourceTest, WithoutChecksumsTheFilesAreAsTheyAre) {
  files_ = CheckFiles(Below(), nullptr);
  Overwrite("b", 5, "x");
  EXPECT_EQ(*Read("b", 0, 10), "01234x6789");
}

TEST_P(CheckedSourceTest, ADirectoryWithDamagedMetadataIsRefused) {
  SampleDirectory sample;
  sample.AddStep();
  Write("data.0", sample.data()[0]);
  Write("data.1", sample.data()[1]);
  Write("md.idx", std::string(sample.image().index()));
  Write("md.0", std::string(sample.image().metadata()));
  Write("mmd.0", std::string(sample.image().formats()));
  EXPECT_EQ((*Directory::Open(path_, sums_))->metadata().steps(), 1u);
  EXPECT_EQ((*Directory::Open(CheckFiles(Below(), sums_)))->metadata().steps(), 1u);
  const std::uint64_t last = sample.image().metadata().size() - 1;
  Overwrite("md.0", last, "\x7f");
  EXPECT_OK(Directory::Open(path_));
  EXPECT_STATUS(StatusCode::kDataLoss, Directory::Open(path_, sums_).status(), "md.0: offset 0");
  EXPECT_STATUS(StatusCode::kDataLoss, Directory::Open(CheckFiles(Below(), sums_)).status(), "md.0: offset 0");
}

}  // namespace
}  // namespace cairn::bpdir
