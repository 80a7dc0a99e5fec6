#include "daemon/config/drains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/config/config.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view toml) {
  const auto folders = ParseDrains("x.toml", toml);
  EXPECT_EQ(folders.status().code(), absl::StatusCode::kInvalidArgument) << toml;
  return std::string(MessageOf(folders.status()));
}

TEST(DrainsTest, EachTableIsAFolder) {
  const auto folders = ParseDrains("x.toml",
                                   "log_level = \"info\"\n"
                                   "[[drain]]\nfrom = \"/bb/%u/\"\nto = \"/pfs/%u/%h\"\n"
                                   "[[drain]]\nfrom = \"/a\"\nto = \"/b\"\nmarker = \"*.done\"\ndelete_source = true\n"
                                   "check = false\nbandwidth = \"1 GB/s\"\nparallel = 8\nlook = \"5s\"\n"
                                   "nice = 0\nio_priority = \"idle\"\n"
                                   "[[drain]]\nfrom = \"/c\"\nto = \"/d\"\nsettle = \"never\"\n");
  ASSERT_TRUE(folders.ok()) << folders.status();
  ASSERT_EQ(folders->size(), 3U);
  const auto all = Resolved(*folders, "me", "n1");
  ASSERT_TRUE(all.ok()) << all.status();
  const std::vector<DrainFolder>& resolved = *all;
  EXPECT_EQ(resolved[0].from, "/bb/me");
  EXPECT_EQ(resolved[0].to, "/pfs/me/n1");
  EXPECT_EQ(resolved[0].settle_ms, 10'000U);
  EXPECT_EQ(resolved[1], (DrainFolder{.from = "/a",
                                      .to = "/b",
                                      .settle_ms = {},
                                      .marker = "*.done",
                                      .delete_source = true,
                                      .check = false,
                                      .bytes_per_s = 1'000'000'000,
                                      .parallel = 8,
                                      .nice = 0,
                                      .io_priority = "idle",
                                      .look_ms = 5000}));
  EXPECT_EQ(resolved[2].settle_ms, std::nullopt);
}

TEST(DrainsTest, OneFolderUnderTwoNamesIsRefusedOnceTheyAreKnown) {
  const std::vector<DrainFolder> folders{{.from = "/bb/%u", .to = "/a"}, {.from = "/bb/alice", .to = "/b"}};
  EXPECT_TRUE(Resolved(folders, "bob", "n1").ok());
  const auto resolved = Resolved(folders, "alice", "n1");
  EXPECT_EQ(resolved.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(MessageOf(resolved.status()).find("/bb/alice"), std::string::npos);
}

TEST(DrainsTest, PrintedFoldersReadBackEqual) {
  const std::vector<DrainFolder> folders{{.from = "/a \"b\"", .to = "/c\\d", .settle_ms = 5000, .marker = "DONE"},
                                         {.from = "/e", .to = "/f", .settle_ms = {}, .marker = "*.ok"}};
  const auto again = ParseDrains("printed", PrintDrains(folders));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, folders);
}

TEST(DrainsTest, TheExampleOfTheSampleFileIsRight) {
  std::string text(DrainsExplained());
  for (std::size_t at = text.find("\n# "); at != std::string::npos; at = text.find("\n# ", at + 1)) {
    const std::string line = text.substr(at + 3, text.find('\n', at + 1) - at - 3);
    if (line.starts_with("[[") || line.find(" = ") != std::string::npos) text.erase(at + 1, 2);
  }
  const auto folders = ParseDrains("sample", text);
  ASSERT_TRUE(folders.ok()) << folders.status();
  ASSERT_EQ(folders->size(), 1U);
  EXPECT_EQ(folders->front(), (DrainFolder{.from = "/bb/%u", .to = "/scratch/%u/drained/%h", .settle_ms = 10'000}));
}

TEST(DrainsTest, WhatIsWrongIsNamedWithItsLineAllAtOnce) {
  EXPECT_EQ(ErrorOf("[[drain]]\nfrom = \"/a\"\n"), "x.toml:1: drain: needs from and to");
  EXPECT_EQ(ErrorOf("drain = 3\n"), "x.toml:1: drain: expected tables, each under [[drain]]");
  const std::string error = ErrorOf(
      "[[drain]]\nfrom = \"a\"\nto = \"/b\"\nmarkre = \"x\"\nparallel = 0\nlook = \"1ms\"\nmarker = \"a/b\"\n"
      "settle = 3\ncheck = \"no\"\nbandwidth = \"fast\"\nnice = 20\nio_priority = \"last\"\n");
  EXPECT_THAT(error, HasSubstr("x.toml:2: drain.from: expected an absolute path"));
  EXPECT_THAT(error, HasSubstr("x.toml:4: drain.markre: unknown key"));
  EXPECT_THAT(error, HasSubstr("x.toml:5: drain.parallel: expected a number in 1..64"));
  EXPECT_THAT(error, HasSubstr("x.toml:6: drain.look: less than 100ms"));
  EXPECT_THAT(error, HasSubstr("x.toml:7: drain.marker"));
  EXPECT_THAT(error, HasSubstr("x.toml:8: drain.settle"));
  EXPECT_THAT(error, HasSubstr("x.toml:9: drain.check: expected true|false"));
  EXPECT_THAT(error, HasSubstr("x.toml:10: drain.bandwidth"));
  EXPECT_THAT(error, HasSubstr("x.toml:11: drain.nice: expected a number in 0..19"));
  EXPECT_THAT(error, HasSubstr("x.toml:12: drain.io_priority: \"last\" is none of none, idle, "));
  EXPECT_THAT(ErrorOf("[[drain]]\nfrom = \"/a\"\nto = \"/b\"\nio_priority = 7\n"),
              HasSubstr("x.toml:4: drain.io_priority: expected an I/O priority such as \"best-effort:7\""));
}

TEST(DrainsTest, FoldersInEachOtherAndTwiceAreRefused) {
  EXPECT_THAT(ErrorOf("[[drain]]\nfrom = \"/a\"\nto = \"/a/b\"\n"), HasSubstr("one lies in the other"));
  EXPECT_THAT(ErrorOf("[[drain]]\nfrom = \"/a\"\nto = \"/b\"\n[[drain]]\nfrom = \"/a\"\nto = \"/c\"\n"),
              HasSubstr("x.toml:4: drain: /a is drained already"));
}

TEST(DrainsTest, TheSettingsFileIsRefusedForThem) {
  EXPECT_TRUE(ParseConfig("x.toml", "[[drain]]\nfrom = \"/a\"\nto = \"/b\"\n", Config()).ok());
  EXPECT_FALSE(ParseConfig("x.toml", "[[drain]]\nfrom = \"/a\"\n", Config()).ok());
}

}  // namespace
}  // namespace cairn
