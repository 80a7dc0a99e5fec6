#include "storage/io/file_tree.h"
#include "storage/base/path.h"
#include "storage/io/create_once.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class FileTreeTest : public ::testing::Test {
 protected:
  void Put(const std::string& path) {
    ASSERT_OK(MakeDirectories(disk_, ParentOf(path)));
    ASSERT_OK(CreateFileOnce(disk_, path, path));
  }
  static std::vector<std::string> NamesOf(const std::map<std::string, FileInfo>& files) {
    std::vector<std::string> names;
    for (const auto& [name, info] : files) names.push_back(name);
    return names;
  }
  FakeDisk disk_;
};

TEST_F(FileTreeTest, FilesAreListedByTheirPathsBelow) {
  Put("/r/b");
  Put("/r/a/x/y");
  Put("/r/a.c");
  ASSERT_OK(MakeDirectories(disk_, "/r/empty/er"));
  ASSERT_OK_AND_ASSIGN(const auto files, ListFilesBelow(disk_, "/r"));
  EXPECT_EQ(NamesOf(files), (std::vector<std::string>{"a.c", "a/x/y", "b"}));
  EXPECT_EQ(files.at("b").bytes, 4u);
}

TEST_F(FileTreeTest, WhatIsNoDirectoryOrNotThereIsSaid) {
  Put("/r/b");
  EXPECT_STATUS(absl::StatusCode::kNotFound, ListFilesBelow(disk_, "/none"), "");
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, ListFilesBelow(disk_, "/r/b"), "not a directory");
}

TEST_F(FileTreeTest, BytesAreThoseOfAllFilesThatCanBeSeen) {
  Put("/r/b");
  Put("/r/a/x/yz");
  ASSERT_OK(disk_.Symlink("/r", "/r/a/link"));
  EXPECT_EQ(BytesBelow(disk_, "/r"), 4u + 9u);
  EXPECT_EQ(BytesBelow(disk_, "/r/b"), 4u);
  EXPECT_EQ(BytesBelow(disk_, "/none"), 0u);
  disk_.FailOn({.op = FakeOp::kList, .path_part = "/r/a/x"});
  EXPECT_EQ(BytesBelow(disk_, "/r"), 4u);
}

TEST_F(FileTreeTest, LinksAreRefused) {
  Put("/r/a/b");
  ASSERT_OK(disk_.Symlink("/etc", "/r/a/link"));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, ListFilesBelow(disk_, "/r"), "/r/a/link is a symbolic link");
}

TEST_F(FileTreeTest, BoundsHold) {
  Put("/r/1/2/3/f");
  EXPECT_OK(ListFilesBelow(disk_, "/r", {.entries_max = 4, .depth_max = 3}));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, ListFilesBelow(disk_, "/r", {.entries_max = 9, .depth_max = 2}),
                "deeper");
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, ListFilesBelow(disk_, "/r", {.entries_max = 3, .depth_max = 9}),
                "entries");
}

TEST_F(FileTreeTest, DirectoriesAreFoundByAFileInThem) {
  Put("/r/md.idx");
  EXPECT_EQ(FindDirectoriesWith(disk_, "/r", "md.idx"), std::vector<std::string>{""});
  Put("/s/a.bp/md.idx");
  Put("/s/a.bp/below/md.idx");  // not looked for
  Put("/s/deep/er/b.bp/md.idx");
  Put("/s/c/none");
  ASSERT_OK(disk_.Symlink("a.bp", "/s/link.bp"));
  EXPECT_EQ(FindDirectoriesWith(disk_, "/s", "md.idx"), (std::vector<std::string>{"a.bp", "deep/er/b.bp"}));
  EXPECT_EQ(FindDirectoriesWith(disk_, "/s", "md.idx", {.entries_max = 100, .depth_max = 2}),
            std::vector<std::string>{"a.bp"});
  EXPECT_TRUE(FindDirectoriesWith(disk_, "/none", "md.idx").empty());
}

TEST_F(FileTreeTest, EmptyFoldersGoWithTheirParentsUpToTheRoot) {
  Put("/r/kept/file");
  Put("/r/odd");
  for (const char* folder : {"/r/a/b/c", "/r/a/b/d", "/r/kept/empty", "/r/not/asked/for", "/s/below"}) {
    ASSERT_OK(MakeDirectories(disk_, folder));
  }
  ASSERT_OK(disk_.Symlink("a", "/r/link"));
  RemoveEmptyFolders(disk_, "/r",
                     {"/r", "/r/a/b/c", "/r/a/b/d", "/r/kept/empty", "/r/link", "/r/none", "/r/odd", "/s/below"});
  for (const char* gone : {"/r/a", "/r/kept/empty"}) {
    EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(gone), "") << gone;
  }
  for (const char* there : {"/r", "/r/kept/file", "/r/link", "/r/odd", "/r/not/asked/for", "/s/below"}) {
    EXPECT_OK(disk_.Info(there)) << there;
  }
}

}  // namespace
}  // namespace cairn
