// Directories that ranks route together: what is below them is the dataset's.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/daemon/core/fake_client.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

class DirectoriesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }
  std::string Route(FakeClient& client, const std::string& directory) {
    const local::Reply routed = client.RouteFile(directory);
    EXPECT_SAYS(routed, local::OK, "");
    return routed.route_file().path();
  }
  static void Write(const std::string& path, const std::string& bytes) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::string OnPrefix(const std::string& name) {
    return harness_.Read(harness_.prefix_disk(), harness_.prefix() + "/" + name);
  }
  DatasetId Begin(Ranks& ranks, std::uint64_t step = 4) {
    DatasetId id = 0;
    for (auto& client : ranks.clients) {
      const local::Reply begun = client->OutputBegin(step);
      EXPECT_SAYS(begun, local::OK, "");
      id = begun.output_begin().dataset();
    }
    return id;
  }
  // Their files by name.
  std::vector<std::string> FilesOf(DatasetId id, Rank rank) {
    const admin::ShowReply shown = harness_.Show(id);
    if (static_cast<int>(rank) >= shown.ranks_size()) return {};
    return {shown.ranks(static_cast<int>(rank)).files().begin(), shown.ranks(static_cast<int>(rank)).files().end()};
  }

  CoreHarness harness_;
};

TEST_F(DirectoriesTest, WhatIsBelowBelongsToTheLowestRankThatRoutedIt) {
  Ranks ranks(harness_, 3, "job.1");
  const DatasetId id = Begin(ranks);
  const std::string path = Route(ranks[1], "fields.bp/");
  EXPECT_TRUE(path.ends_with("/fields.bp")) << path;
  EXPECT_TRUE(fs::is_directory(path));
  EXPECT_EQ(Route(ranks[2], harness_.prefix() + "/fields.bp//"), path);
  Write(path + "/md.idx", "index");
  Write(path + "/sub/deep/er", "deep");
  Write(Route(ranks[1], "own.txt"), "own");
  for (auto& client : ranks.clients) ASSERT_SAYS(client->OutputEnd(), local::OK, "");
  ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  EXPECT_EQ(OnPrefix("fields.bp/md.idx"), "index");
  EXPECT_EQ(OnPrefix("fields.bp/sub/deep/er"), "deep");
  EXPECT_EQ(OnPrefix("own.txt"), "own");
  EXPECT_EQ(FilesOf(id, 1), (std::vector<std::string>{"fields.bp/md.idx", "fields.bp/sub/deep/er", "own.txt"}));
  EXPECT_TRUE(FilesOf(id, 0).empty());
  EXPECT_TRUE(FilesOf(id, 2).empty());
}

TEST_F(DirectoriesTest, NoRankWaitsForTheLastAndWhatComesUntilThenCounts) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = Begin(ranks);
  const std::string path = Route(ranks[0], "fields.bp/");
  Write(path + "/a", "1");
  ASSERT_SAYS(ranks[0].OutputEnd(), local::OK, "");
  const local::Reply test = ranks[0].Test(id, local::CAPTURED);
  ASSERT_SAYS(test, local::OK, "");
  EXPECT_FALSE(test.test().reached());
  EXPECT_EQ(Route(ranks[1], "fields.bp/"), path);
  Write(path + "/b", "22");
  ASSERT_SAYS(ranks[1].OutputEnd(), local::OK, "");
  ASSERT_SAYS(ranks[1].Wait(id, local::LOCAL), local::OK, "");
  EXPECT_EQ(FilesOf(id, 0), (std::vector<std::string>{"fields.bp/a", "fields.bp/b"}));
  EXPECT_EQ(harness_.Row(id).bytes(), 3u);
}

TEST_F(DirectoriesTest, ARestartIsToldTheDirectory) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = Begin(ranks);
  Write(Route(ranks[0], "out/fields.bp/") + "/data.0", "bytes");
  for (auto& client : ranks.clients) ASSERT_SAYS(client->OutputEnd(), local::OK, "");
  ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  std::vector<Memory> none(2);
  for (const FakeClient::Restored& one : ranks.Restore(id, none)) ASSERT_EQ(one.code, local::OK) << one.message;
  const local::Reply found = ranks[1].RestartFile(id, "out/fields.bp/");
  ASSERT_SAYS(found, local::OK, "");
  EXPECT_EQ(harness_.Read(harness_.cache_disk(), found.restart_file().path() + "/data.0"), "bytes");
  EXPECT_SAYS(ranks[1].RestartFile(id, "out/fields.bp/data.0"), local::OK, "");
  EXPECT_SAYS(ranks[1].RestartFile(id, "out/fields.bp"), local::NOT_FOUND, "");
  EXPECT_SAYS(ranks[1].RestartFile(id, "fields.bp/"), local::NOT_FOUND, "below");
}

TEST_F(DirectoriesTest, LinksInItFailTheDataset) {
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId id = Begin(ranks);
  fs::create_symlink("/etc/passwd", Route(ranks[0], "fields.bp/") + "/data.0");
  EXPECT_SAYS(ranks[0].OutputEnd(), local::FAILED_PRECONDITION, "symbolic link");
  EXPECT_SAYS(ranks[0].Wait(id, local::LOCAL), local::FAILED, "symbolic link");
}

TEST_F(DirectoriesTest, NamesThatCannotBeKeptFailTheDataset) {
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId id = Begin(ranks);
  Write(Route(ranks[0], "fields.bp/") + "/a\nb", "");
  EXPECT_SAYS(ranks[0].OutputEnd(), local::INVALID_ARGUMENT, "control character");
  EXPECT_SAYS(ranks[0].Wait(id, local::LOCAL), local::FAILED, "control character");
}

TEST_F(DirectoriesTest, NothingIsBothAFileAndBelowADirectory) {
  Ranks ranks(harness_, 2, "job.1");
  Begin(ranks);
  Route(ranks[0], "a/b/");
  Route(ranks[0], "f");
  EXPECT_SAYS(ranks[1].RouteFile("a/b/c"), local::INVALID_ARGUMENT, "part of it");
  EXPECT_SAYS(ranks[1].RouteFile("a/b/c/"), local::INVALID_ARGUMENT, "part of it");
  EXPECT_SAYS(ranks[1].RouteFile("a/b"), local::INVALID_ARGUMENT, "is a directory");
  EXPECT_SAYS(ranks[1].RouteFile("a/"), local::INVALID_ARGUMENT, "part of it");
  EXPECT_SAYS(ranks[1].RouteFile("f/"), local::INVALID_ARGUMENT, "is a file");
  EXPECT_SAYS(ranks[1].RouteFile("f/g/"), local::INVALID_ARGUMENT, "cannot be the other's");
  EXPECT_SAYS(ranks[1].RouteFile("../x/"), local::INVALID_ARGUMENT, "");
  EXPECT_SAYS(ranks[1].RouteFile("/"), local::INVALID_ARGUMENT, "");
  EXPECT_SAYS(ranks[1].RouteFile("ckpt.7.bp/"), local::INVALID_ARGUMENT, "kept for checkpoints");
}

TEST_F(DirectoriesTest, ALostRankFailsItForAll) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = Begin(ranks);
  Write(Route(ranks[0], "fields.bp/") + "/a", "1");
  ASSERT_SAYS(ranks[0].OutputEnd(), local::OK, "");
  ranks[1].Drop();
  EXPECT_SAYS(ranks[0].Wait(id, local::LOCAL), local::FAILED, "rank 1 was lost");
  EXPECT_TRUE(harness_.Eventually(
      [&] { return !fs::exists(harness_.CacheFolderPath() + "/scr.dataset." + std::to_string(id)); }));
}

TEST_F(DirectoriesTest, PastTheCacheTheyGoStraightToThePrefix) {
  harness_.Stop();
  harness_.config.cache.bytes_max = 4096;
  ASSERT_TRUE(harness_.Start().ok());
  Ranks ranks(harness_, 1, "job.1");
  std::string path;
  DatasetId id = 0;
  for (std::uint64_t step = 1; step <= 2; ++step) {  // the first tells how large they are
    id = Begin(ranks, step);
    path = Route(ranks[0], "fields.bp/");
    Write(path + "/data.0", std::string(8000, static_cast<char>('a' + step)));
    ASSERT_SAYS(ranks[0].OutputEnd(), local::OK, "");
    ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  }
  EXPECT_TRUE(path.starts_with(harness_.prefix() + "/ckpt.")) << path;
  EXPECT_EQ(OnPrefix("fields.bp/data.0"), std::string(8000, 'c'));
}

}  // namespace
}  // namespace cairn
