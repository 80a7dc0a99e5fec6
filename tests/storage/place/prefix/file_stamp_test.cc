#include "storage/place/prefix/file_stamp.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

FileInfo Shown() {
  FileInfo info;
  info.bytes = 100;
  info.inode = 7;
  info.mtime = info.ctime = {.tv_sec = 50, .tv_nsec = 9};
  return info;
}

constexpr FileStamp::Time At(int seconds) {
  return FileStamp::Time(std::chrono::seconds(seconds));
}

TEST(FileStampTest, WhatWasReadOnceProvesNothing) {
  FileStamp stamp;
  EXPECT_FALSE(stamp.Proves(Shown()));
  EXPECT_FALSE(stamp.Proves(std::nullopt));
  stamp.WasRead(Shown(), At(0));
  EXPECT_FALSE(stamp.Proves(Shown()));
}

TEST(FileStampTest, ItProvesOnceItWasReadAgainATickLater) {
  FileStamp stamp;
  stamp.WasRead(Shown(), At(10));
  stamp.WasRead(Shown(), At(12));
  EXPECT_FALSE(stamp.Proves(Shown())) << "a change at 11 might have left the same times";
  stamp.WasRead(Shown(), At(13));
  EXPECT_TRUE(stamp.Proves(Shown()));
  EXPECT_FALSE(stamp.Proves(std::nullopt));
}

TEST(FileStampTest, AnyOtherStampBeginsAnew) {
  const std::vector<std::pair<std::string, std::function<void(FileInfo&)>>> changes = {
      {"size", [](FileInfo& info) { ++info.bytes; }},
      {"inode", [](FileInfo& info) { ++info.inode; }},
      {"device", [](FileInfo& info) { ++info.device; }},
      {"mtime, seconds", [](FileInfo& info) { ++info.mtime.tv_sec; }},
      {"mtime, nanoseconds", [](FileInfo& info) { --info.mtime.tv_nsec; }},
      {"ctime, seconds", [](FileInfo& info) { ++info.ctime.tv_sec; }},
      {"ctime, nanoseconds", [](FileInfo& info) { --info.ctime.tv_nsec; }},
  };
  for (const auto& [name, change] : changes) {
    FileStamp stamp;
    stamp.WasRead(Shown(), At(0));
    stamp.WasRead(Shown(), At(5));
    FileInfo other = Shown();
    change(other);
    EXPECT_FALSE(stamp.Proves(other)) << name;
    stamp.WasRead(other, At(20));
    EXPECT_FALSE(stamp.Proves(other)) << name << ": read once";
    EXPECT_FALSE(stamp.Proves(Shown())) << name;
    stamp.WasRead(other, At(23));
    EXPECT_TRUE(stamp.Proves(other)) << name;
  }
}

TEST(FileStampTest, AFileThatCannotBeAskedProvesNothing) {
  FakeDisk disk;
  EXPECT_FALSE(FileStamp::Look(disk, "/nothing").has_value());
  ASSERT_OK(disk.Open("/file", {.writable = true, .create = true}).status());
  const std::optional<FileInfo> shows = FileStamp::Look(disk, "/file");
  ASSERT_TRUE(shows.has_value());
  FileStamp stamp;
  stamp.WasRead(std::nullopt, At(0));
  stamp.WasRead(std::nullopt, At(9));
  EXPECT_FALSE(stamp.Proves(shows));
  EXPECT_FALSE(stamp.Proves(std::nullopt));
}

}  // namespace
}  // namespace cairn
