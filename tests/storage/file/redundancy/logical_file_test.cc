// Files end to end, read and written as one.
#include "storage/file/redundancy/logical_file.h"

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "tests/storage/file/redundancy/scr_cache.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn::redundancy {
namespace {

std::string ReadAll(LogicalFile& file, std::uint64_t offset, std::size_t count) {
  std::string bytes(count, '?');
  EXPECT_OK(file.Read(offset, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

TEST(LogicalFileTest, ReadsAcrossItsPartsAlsoEmptyOnesAndBehindAHeader) {
  FakeDisk disk;
  testing::PutBytes(disk, "/a", "one");
  testing::PutBytes(disk, "/b", "");
  testing::PutBytes(disk, "/c", "HEADtwo");
  testing::PutBytes(disk, "/d", "");
  LogicalFile file(disk, {{"/a", 3}, {"/b", 0}, {"/c", 3, 4}, {"/d", 0}});
  ASSERT_EQ(file.bytes(), 6u);
  for (std::size_t from = 0; from <= 6; ++from) {
    for (std::size_t count = 0; from + count <= 6; ++count) {
      EXPECT_EQ(ReadAll(file, from, count), std::string("onetwo").substr(from, count));
    }
  }
  EXPECT_EQ(LogicalFile(disk, {}).bytes(), 0u);
}

TEST(LogicalFileTest, MakesItsPartsInTheirSizesAndWritesAcrossThem) {
  FakeDisk disk;
  LogicalFile file(disk, {{"/a", 3}, {"/b", 0}, {"/c", 5}});
  ASSERT_OK(file.Create(0640));
  const std::string bytes = "12345";
  ASSERT_OK(file.Write(2, std::as_bytes(std::span(bytes))));
  EXPECT_EQ(testing::GetBytes(disk, "/a"), std::string("\0\0"
                                                       "1",
                                                       3));
  EXPECT_EQ(testing::GetBytes(disk, "/b"), "");
  EXPECT_EQ(testing::GetBytes(disk, "/c"), std::string("2345\0", 5));
  EXPECT_EQ(ReadAll(file, 2, 5), bytes);
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists, file.Create(0640), "/a");
}

TEST(LogicalFileTest, AMissingOrShortPartIsNamed) {
  FakeDisk disk;
  testing::PutBytes(disk, "/a", "one");
  LogicalFile file(disk, {{"/a", 4}, {"/b", 3}});
  std::string bytes(2, '?');
  EXPECT_STATUS(absl::StatusCode::kDataLoss, file.Read(2, std::as_writable_bytes(std::span(bytes))), "/a");
  EXPECT_STATUS(absl::StatusCode::kNotFound, file.Read(4, std::as_writable_bytes(std::span(bytes))), "/b");
}

}  // namespace
}  // namespace cairn::redundancy
