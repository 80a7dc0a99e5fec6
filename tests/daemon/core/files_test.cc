// Datasets of the application's own files. design.md, "Files, too".
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "tests/daemon/core/fake_client.h"

namespace cairn {
namespace {

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }

  // Routed, written by the application, ended.
  void Put(FakeClient& client, const std::string& file, const std::string& bytes) {
    const local::Reply routed = client.RouteFile(file);
    ASSERT_SAYS(routed, local::OK, "");
    harness_.Write(harness_.cache_disk(), routed.route_file().path(), bytes);
  }
  DatasetId Make(Ranks& ranks, std::uint64_t step, local::Level level) {
    DatasetId id = 0;
    for (Rank rank = 0; rank < ranks.clients.size(); ++rank) {
      const local::Reply begun = ranks[rank].OutputBegin(step);
      EXPECT_SAYS(begun, local::OK, "");
      id = begun.output_begin().dataset();
      Put(ranks[rank], NameOf(rank), BytesOf(step, rank));
      EXPECT_SAYS(ranks[rank].OutputEnd(), local::OK, "");
    }
    EXPECT_SAYS(ranks[0].Wait(id, level), local::OK, "");
    return id;
  }
  static std::string NameOf(Rank rank) { return "out/rank" + std::to_string(rank) + ".dat"; }
  static std::string BytesOf(std::uint64_t step, Rank rank) { return RandomBytes(step * 100 + rank, 1'500'000 + rank); }

  static std::vector<FakeClient::Restored> Restore(Ranks& ranks, DatasetId id) {
    std::vector<Memory> none(ranks.clients.size());
    return ranks.Restore(id, none);
  }
  void ExpectRestores(Ranks& ranks, DatasetId id, std::uint64_t step, local::Tier tier) {
    for (const FakeClient::Restored& one : Restore(ranks, id)) {
      ASSERT_EQ(one.code, local::OK) << one.message;
      EXPECT_EQ(one.tier, tier) << local::Tier_Name(one.tier);
    }
    for (Rank rank = 0; rank < ranks.clients.size(); ++rank) {
      const local::Reply path = ranks[rank].RestartFile(id, NameOf(rank));
      ASSERT_SAYS(path, local::OK, "");
      EXPECT_TRUE(harness_.Read(harness_.cache_disk(), path.restart_file().path()) == BytesOf(step, rank));
    }
  }

  CoreHarness harness_;
};

TEST_F(FilesTest, AreTakenUpTheLadderAndGivenBack) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = Make(ranks, 4, local::PREFIX);
  for (Rank rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(harness_.Read(harness_.prefix_disk(), harness_.prefix() + "/" + NameOf(rank)) == BytesOf(4, rank));
  }
  const local::Reply latest = ranks[0].Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), id);
  EXPECT_TRUE(latest.latest().files());
  ExpectRestores(ranks, id, 4, local::TIER_CACHE);
}

TEST_F(FilesTest, ANameThatWasRefusedIsFreeForAnotherRank) {
  Ranks ranks(harness_, 2, "job.1");
  std::filesystem::create_directory_symlink(harness_.root(), harness_.prefix() + "/sub");
  for (Rank rank = 0; rank < 2; ++rank) ASSERT_SAYS(ranks[rank].OutputBegin(1), local::OK, "");
  EXPECT_SAYS(ranks[0].RouteFile("sub/x"), local::FAILED_PRECONDITION, "");
  std::filesystem::remove(harness_.prefix() + "/sub");
  EXPECT_SAYS(ranks[1].RouteFile("sub/x"), local::OK, "");
  EXPECT_SAYS(ranks[0].RouteFile("sub/x"), local::INVALID_ARGUMENT, "rank 1's file");
}

TEST_F(FilesTest, ARestartFileIsOnlyToldAfterTheRestore) {
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    id = Make(ranks, 4, local::LOCAL);
  }
  Ranks ranks(harness_, 2, "job.2");
  EXPECT_SAYS(ranks[0].RestartFile(id, NameOf(0)), local::FAILED_PRECONDITION, "restored before");
  ExpectRestores(ranks, id, 4, local::TIER_CACHE);
  EXPECT_SAYS(ranks[0].RestartFile(id, harness_.prefix() + "/" + NameOf(1)), local::OK, "");
  EXPECT_SAYS(ranks[0].RestartFile(id, "out/none"), local::NOT_FOUND, "out/none");
  EXPECT_SAYS(ranks[0].RestartFile(id + 1, NameOf(0)), local::NOT_FOUND, "");
  EXPECT_SAYS(ranks[0].RestartFile(id, "../../etc/passwd"), local::INVALID_ARGUMENT, "");
}

TEST_F(FilesTest, AnotherNumberOfRanksIsRefused) {
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    id = Make(ranks, 4, local::LOCAL);
  }
  Ranks ranks(harness_, 3, "job.2");
  for (const FakeClient::Restored& one : Restore(ranks, id)) {
    EXPECT_EQ(one.code, local::FAILED_PRECONDITION) << one.message;
    EXPECT_NE(one.message.find("2 ranks"), std::string::npos) << one.message;
  }
}

TEST_F(FilesTest, NamesThatLeadElsewhereAreRefused) {
  Ranks ranks(harness_, 1, "job.1");
  EXPECT_SAYS(ranks[0].RouteFile("a"), local::FAILED_PRECONDITION, "no output is begun");
  ASSERT_SAYS(ranks[0].OutputBegin(1), local::OK, "");
  for (const char* name : {"../x", "/etc/passwd", "a/../../x", "", ".scr/x", ".cairn/run", "rank_0.cat", "a\nb"}) {
    EXPECT_SAYS(ranks[0].RouteFile(name), local::INVALID_ARGUMENT, "file name") << name;
  }
  EXPECT_SAYS(ranks[0].RouteFile(std::string(5000, 'x')), local::INVALID_ARGUMENT, "");
  const local::Reply routed = ranks[0].RouteFile(harness_.prefix() + "/a/./b//c");
  ASSERT_SAYS(routed, local::OK, "");
  EXPECT_TRUE(routed.route_file().path().ends_with("/a/b/c")) << routed.route_file().path();
  EXPECT_TRUE(routed.route_file().path().starts_with(harness_.config.cache.path));
}

TEST_F(FilesTest, OneFileBelongsToOneRank) {
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_SAYS(ranks[0].OutputBegin(1), local::OK, "");
  ASSERT_SAYS(ranks[1].OutputBegin(1), local::OK, "");
  ASSERT_SAYS(ranks[0].RouteFile("a"), local::OK, "");
  ASSERT_SAYS(ranks[0].RouteFile("./a"), local::OK, "");
  EXPECT_SAYS(ranks[1].RouteFile("b/../a"), local::INVALID_ARGUMENT, "rank 0's file");
}

TEST_F(FilesTest, AFileIsNoDirectoryOfAnother) {
  Ranks ranks(harness_, 2, "job.1");
  for (Rank rank = 0; rank < 2; ++rank) ASSERT_SAYS(ranks[rank].OutputBegin(1), local::OK, "");
  Put(ranks[0], "a/b", "1");
  EXPECT_SAYS(ranks[0].RouteFile("a"), local::INVALID_ARGUMENT, "a/b");
  EXPECT_SAYS(ranks[1].RouteFile("a"), local::INVALID_ARGUMENT, "a/b");
  EXPECT_SAYS(ranks[1].RouteFile("a/b/c"), local::INVALID_ARGUMENT, "directory");
  Put(ranks[1], "a.b", "2");
  Put(ranks[1], "a/c", "3");
  for (Rank rank = 0; rank < 2; ++rank) EXPECT_SAYS(ranks[rank].OutputEnd(), local::OK, "");
}

TEST_F(FilesTest, AFileThatIsNotThereFailsTheDataset) {
  Ranks ranks(harness_, 1, "job.1");
  const local::Reply begun = ranks[0].OutputBegin(1);
  ASSERT_SAYS(begun, local::OK, "");
  ASSERT_SAYS(ranks[0].RouteFile("never_written"), local::OK, "");
  EXPECT_SAYS(ranks[0].OutputEnd(), local::NOT_FOUND, "never_written");
  EXPECT_SAYS(ranks[0].Wait(begun.output_begin().dataset(), local::LOCAL), local::FAILED, "never_written");
  Make(ranks, 2, local::LOCAL);  // the next one works
}

TEST_F(FilesTest, AFolderOrALinkInAFilesPlaceFailsTheDataset) {
  Ranks ranks(harness_, 1, "job.1");
  for (const bool link : {false, true}) {
    const local::Reply begun = ranks[0].OutputBegin(1);
    ASSERT_SAYS(begun, local::OK, "");
    const local::Reply routed = ranks[0].RouteFile("odd");
    ASSERT_SAYS(routed, local::OK, "");
    if (link) {
      std::filesystem::create_symlink("/etc/passwd", routed.route_file().path());
    } else {
      std::filesystem::create_directory(routed.route_file().path());
    }
    EXPECT_SAYS(ranks[0].OutputEnd(), local::FAILED_PRECONDITION, "not a regular file");
    EXPECT_SAYS(ranks[0].Test(begun.output_begin().dataset(), local::CAPTURED), local::FAILED, "odd");
  }
}

TEST_F(FilesTest, WhatTheApplicationCallsInvalidIsNoDataset) {
  Ranks ranks(harness_, 2, "job.1");
  const local::Reply begun = ranks[0].OutputBegin(1);
  ASSERT_SAYS(begun, local::OK, "");
  ASSERT_SAYS(ranks[1].OutputBegin(1), local::OK, "");
  const std::uint64_t waiting = ranks[1].SendWait(begun.output_begin().dataset(), local::LOCAL);
  EXPECT_SAYS(ranks[0].OutputEnd(/*valid=*/false), local::OK, "");
  EXPECT_SAYS(ranks[1].Next(waiting), local::FAILED, "rank 0 could not write");
  EXPECT_SAYS(ranks[1].OutputEnd(), local::FAILED, "rank 0 could not write");
}

TEST_F(FilesTest, AFileChangedAfterTheEndFailsTheDatasetOrWasTakenBefore) {
  Ranks ranks(harness_, 1, "job.1");
  const local::Reply begun = ranks[0].OutputBegin(1);
  ASSERT_SAYS(begun, local::OK, "");
  const local::Reply routed = ranks[0].RouteFile("a");
  ASSERT_SAYS(routed, local::OK, "");
  const std::string& path = routed.route_file().path();
  harness_.Write(harness_.cache_disk(), path, RandomBytes(1, 8 << 20));
  ASSERT_SAYS(ranks[0].OutputEnd(), local::OK, "");
  harness_.Truncate(harness_.cache_disk(), path, 5);
  const DatasetId id = begun.output_begin().dataset();
  const local::Reply waited = ranks[0].Wait(id, local::LOCAL);
  if (CodeOfReply(waited) == local::OK) {  // it had been summed up: then a restore finds it
    for (const FakeClient::Restored& one : Restore(ranks, id)) EXPECT_EQ(one.code, local::RETRY) << one.message;
  } else {
    EXPECT_SAYS(waited, local::FAILED, path);
  }
}

TEST_F(FilesTest, ALostRankFailsTheDataset) {
  Ranks ranks(harness_, 2, "job.1");
  const local::Reply begun = ranks[0].OutputBegin(1);
  ASSERT_SAYS(begun, local::OK, "");
  ASSERT_SAYS(ranks[1].OutputBegin(1), local::OK, "");
  const std::uint64_t waiting = ranks[0].SendWait(begun.output_begin().dataset(), local::LOCAL);
  ranks[1].Drop();
  EXPECT_SAYS(ranks[0].Next(waiting), local::FAILED, "rank 1 was lost");
  EXPECT_SAYS(ranks[0].OutputEnd(), local::FAILED, "rank 1 was lost");
  EXPECT_TRUE(harness_.Eventually([&] {
    return !harness_.IsThere(harness_.cache_disk(), harness_.CacheFolderPath() + "/scr.dataset." +
                                                        std::to_string(begun.output_begin().dataset()));
  }));
}

TEST_F(FilesTest, MemoryAndFilesDoNotMixInOneSession) {
  Ranks ranks(harness_, 1, "job.1");
  ASSERT_SAYS(ranks[0].OutputBegin(1), local::OK, "");
  EXPECT_SAYS(ranks[0].Begin(2, {PlainOf(1, "abc")}), local::FAILED_PRECONDITION, "do not mix");
  EXPECT_SAYS(ranks[0].OutputBegin(3), local::FAILED_PRECONDITION, "not ended");
  ASSERT_SAYS(ranks[0].OutputEnd(), local::OK, "");
  ASSERT_SAYS(ranks[0].Begin(4, {PlainOf(1, "abc")}), local::OK, "");
  EXPECT_SAYS(ranks[0].OutputBegin(5), local::FAILED_PRECONDITION, "not ended");
}

TEST_F(FilesTest, AnOutputThatIsNothingIsRefused) {
  Ranks ranks(harness_, 1, "job.1");
  EXPECT_SAYS(ranks[0].OutputBegin(1, /*checkpoint=*/false, /*output=*/false), local::INVALID_ARGUMENT, "CAIRN_OUTPUT");
  EXPECT_SAYS(ranks[0].OutputEnd(), local::FAILED_PRECONDITION, "no output is begun");
}

TEST_F(FilesTest, ComeFromThePrefixWhenTheCacheIsGone) {
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    id = Make(ranks, 4, local::PREFIX);
  }
  harness_.Stop();
  harness_.config.cache.path = harness_.root() + "/another_node";
  ASSERT_TRUE(harness_.Start().ok());
  Ranks ranks(harness_, 2, "job.2");
  ASSERT_EQ(ranks[0].Latest().latest().dataset(), id);
  ExpectRestores(ranks, id, 4, local::TIER_PREFIX);
  ExpectRestores(ranks, id, 4, local::TIER_CACHE);  // it is whole there now
}

class DamagedFilesTest : public FilesTest {
 protected:
  // On the prefix, and in the cache with a bad byte of rank 1's.
  void MakeDamaged() {
    {
      Ranks ranks(harness_, 2, "job.1");
      id_ = Make(ranks, 4, local::PREFIX);
    }
    harness_.Flip(harness_.cache_disk(), PathOf("scr.dataset.", ""), 1234);
  }
  std::string PathOf(const std::string& stem, const std::string& suffix) {
    return harness_.CacheFolderPath() + "/" + stem + std::to_string(id_) + suffix + "/" + NameOf(1);
  }
  bool LiesAside() { return harness_.IsThere(harness_.cache_disk(), PathOf("damaged.", ".1")); }

  DatasetId id_ = 0;
};

TEST_F(DamagedFilesTest, GoAsideAndAreFetchedAnew) {
  MakeDamaged();
  Ranks ranks(harness_, 2, "job.2");
  ExpectRestores(ranks, id_, 4, local::TIER_PREFIX);
  EXPECT_TRUE(harness_.Warned("the copy of rank 1 in the cache is bad"));
  EXPECT_TRUE(LiesAside());
  EXPECT_TRUE(harness_.Read(harness_.cache_disk(), PathOf("damaged.", ".1")) != BytesOf(4, 1));
  ExpectRestores(ranks, id_, 4, local::TIER_CACHE);
  EXPECT_TRUE(harness_.Row(id_).in_prefix());  // that copy is none the worse
}

TEST_F(DamagedFilesTest, GiveTheirRoomIfThereIsNoneForBoth) {
  harness_.config.cache.bytes_max = 5 << 20;  // not twice 3 MB
  harness_.Restart();
  MakeDamaged();
  Ranks ranks(harness_, 2, "job.2");
  ExpectRestores(ranks, id_, 4, local::TIER_PREFIX);
  EXPECT_FALSE(LiesAside());
  EXPECT_LE(harness_.Status().cache_bytes_used(), 5u << 20);
  ExpectRestores(ranks, id_, 4, local::TIER_CACHE);
}

// With another cache.bytes_max than before.
TEST_F(DamagedFilesTest, WhichTheCacheHasNoRoomForGoAsideAndAreReadOnThePrefix) {
  MakeDamaged();
  harness_.Stop();
  harness_.config.cache.bytes_max = 2 << 20;
  harness_.config.cache.bypass = true;
  ASSERT_TRUE(harness_.Start().ok());
  Ranks ranks(harness_, 2, "job.2");
  ExpectRestores(ranks, id_, 4, local::TIER_PREFIX);
  EXPECT_TRUE(harness_.Eventually([&] { return LiesAside(); }));
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Status().runs(0).aside().damaged_bytes() > 3'000'000; }));
  EXPECT_FALSE(harness_.Row(id_).in_cache());
}

TEST_F(FilesTest, DamagedInBothAllRanksRetry) {
  DatasetId old = 0, young = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    old = Make(ranks, 4, local::LOCAL);
    young = Make(ranks, 5, local::PREFIX);
  }
  const std::string folder = harness_.CacheFolderPath() + "/scr.dataset." + std::to_string(young);
  harness_.Flip(harness_.cache_disk(), folder + "/" + NameOf(0), 1234);
  harness_.Flip(harness_.prefix_disk(), harness_.prefix() + "/" + NameOf(0), 4321);
  Ranks ranks(harness_, 2, "job.2");
  ASSERT_EQ(ranks[1].Latest().latest().dataset(), young);
  for (const FakeClient::Restored& one : Restore(ranks, young)) EXPECT_EQ(one.code, local::RETRY) << one.message;
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), old);
  EXPECT_SAYS(ranks[0].RestartFile(young, NameOf(0)), local::FAILED_PRECONDITION, "");
  ExpectRestores(ranks, old, 4, local::TIER_CACHE);
}

TEST_F(FilesTest, StayWhileTheLaunchThatRestoredThemReadsThem) {
  harness_.config.cache.keep = 0;
  harness_.Restart();
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 1, "job.1");
    id = Make(ranks, 4, local::PREFIX);
    Make(ranks, 5, local::LOCAL);  // the newest is never evicted, the other at once
  }
  for (int round = 0; round < 5; ++round) {
    Ranks ranks(harness_, 1, "job.2." + std::to_string(round));
    // The copy of the round before may just be on its way out.
    ExpectRestores(ranks, id, 4, local::TIER_PREFIX);
    ExpectRestores(ranks, id, 4, local::TIER_CACHE);
  }
  EXPECT_TRUE(harness_.Eventually([&] { return !harness_.Row(id).in_cache(); }));
}

TEST_F(FilesTest, ADirectoryThatALinkLeadsOutOfThePrefixIsRefused) {
  const std::string& prefix = harness_.prefix();
  std::filesystem::create_directories(harness_.root() + "/elsewhere");
  std::filesystem::create_directories(prefix + "/inside");
  std::filesystem::create_directory_symlink(harness_.root() + "/elsewhere", prefix + "/out");
  std::filesystem::create_directory_symlink(prefix + "/inside", prefix + "/within");
  std::filesystem::create_symlink(prefix + "/nothing", prefix + "/dangling");
  harness_.Write(harness_.prefix_disk(), prefix + "/plain", "a file");
  Ranks ranks(harness_, 1, "job.1");
  const local::Reply begun = ranks[0].OutputBegin(1);
  ASSERT_SAYS(begun, local::OK, "");
  EXPECT_SAYS(ranks[0].RouteFile("out/a"), local::FAILED_PRECONDITION, "outside the prefix");
  EXPECT_SAYS(ranks[0].RouteFile("dangling/a"), local::FAILED_PRECONDITION, "leads nowhere");
  EXPECT_SAYS(ranks[0].RouteFile("plain/a"), local::FAILED_PRECONDITION, "plain: in the way");
  Put(ranks[0], "within/deep/a", "kept inside");
  ASSERT_SAYS(ranks[0].OutputEnd(), local::OK, "");
  EXPECT_SAYS(ranks[0].Wait(begun.output_begin().dataset(), local::PREFIX), local::OK, "");
  EXPECT_EQ(harness_.Read(harness_.prefix_disk(), prefix + "/inside/deep/a"), "kept inside");
  EXPECT_TRUE(std::filesystem::is_empty(harness_.root() + "/elsewhere"));
}

TEST_F(FilesTest, ALinkInPlaceOfADirectoryInTheCacheFailsTheDataset) {
  Ranks ranks(harness_, 1, "job.1");
  const local::Reply begun = ranks[0].OutputBegin(1);
  ASSERT_SAYS(begun, local::OK, "");
  const local::Reply routed = ranks[0].RouteFile("dir/sub/a");
  ASSERT_SAYS(routed, local::OK, "");
  const std::filesystem::path folder = std::filesystem::path(routed.route_file().path()).parent_path();
  const std::string elsewhere = harness_.root() + "/elsewhere";
  std::filesystem::create_directories(elsewhere);
  std::filesystem::remove(folder);
  std::filesystem::create_directory_symlink(elsewhere, folder);
  harness_.Write(harness_.cache_disk(), elsewhere + "/a", "not in the cache");
  EXPECT_SAYS(ranks[0].OutputEnd(), local::FAILED_PRECONDITION, "dir/sub is not a directory");
}

TEST_F(FilesTest, EqualNamesInDifferentDirectoriesAndTheirModesAndTimesAreKept) {
  DatasetId id = 0;
  std::filesystem::file_time_type written;
  constexpr auto kMode = std::filesystem::perms::owner_read | std::filesystem::perms::group_read;
  {
    Ranks ranks(harness_, 1, "job.1");
    const local::Reply begun = ranks[0].OutputBegin(1);
    ASSERT_SAYS(begun, local::OK, "");
    id = begun.output_begin().dataset();
    for (const char* name : {"a/data", "b/data", "data"}) Put(ranks[0], name, std::string("of ") + name);
    const std::string path = ranks[0].RouteFile("b/data").route_file().path();
    written = std::filesystem::last_write_time(path) - std::chrono::hours(1000);
    std::filesystem::last_write_time(path, written);
    std::filesystem::permissions(path, kMode);
    ASSERT_SAYS(ranks[0].OutputEnd(), local::OK, "");
    ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  }
  auto expect_kept = [&](const std::string& path) {
    EXPECT_EQ(harness_.Read(harness_.cache_disk(), path), "of b/data");
    EXPECT_EQ(std::filesystem::last_write_time(path), written) << path;
    EXPECT_EQ(std::filesystem::status(path).permissions(), kMode) << path;
  };
  expect_kept(harness_.prefix() + "/b/data");
  EXPECT_EQ(harness_.Read(harness_.prefix_disk(), harness_.prefix() + "/a/data"), "of a/data");
  EXPECT_EQ(harness_.Read(harness_.prefix_disk(), harness_.prefix() + "/data"), "of data");
  harness_.Stop();
  harness_.config.cache.path = harness_.root() + "/another_node";
  ASSERT_TRUE(harness_.Start().ok());
  Ranks ranks(harness_, 1, "job.2");
  for (const FakeClient::Restored& one : Restore(ranks, id)) ASSERT_EQ(one.code, local::OK) << one.message;
  expect_kept(ranks[0].RestartFile(id, "b/data").restart_file().path());
}

TEST_F(FilesTest, AnOutputWhoseNamesANewerOneHasTakenIsNotFlushedAgainAndMayLeaveTheCache) {
  harness_.config.cache.bytes_max = 5 << 20;
  harness_.Restart();
  Ranks ranks(harness_, 1, "job.1");
  DatasetId last = 0;
  for (std::uint64_t step = 1; step <= 8; ++step) {  // more than the cache can hold
    const local::Reply begun = ranks[0].OutputBegin(step, /*checkpoint=*/false, /*output=*/true);
    ASSERT_SAYS(begun, local::OK, "");
    Put(ranks[0], "latest.dat", BytesOf(step, 0));
    ASSERT_SAYS(ranks[0].OutputEnd(), local::OK, "");
    last = begun.output_begin().dataset();
    ASSERT_SAYS(ranks[0].Wait(last, local::PREFIX), local::OK, "");
    EXPECT_TRUE(harness_.Read(harness_.prefix_disk(), harness_.prefix() + "/latest.dat") == BytesOf(step, 0));
  }
  EXPECT_TRUE(harness_.Row(last).in_prefix());
  EXPECT_SAYS(ranks[0].Test(1, local::PREFIX), local::SUPERSEDED, "");
  EXPECT_LE(harness_.Status().cache_bytes_used(), 5u << 20);
  // Also after a restart of the daemon, which reads it from its record.
  ranks[0].Drop();
  harness_.Restart();
  Ranks next(harness_, 1, "job.2");
  EXPECT_SAYS(next[0].Test(last, local::PREFIX), local::OK, "");
  EXPECT_EQ(harness_.Status().runs(0).flushes_size(), 0);
  EXPECT_TRUE(harness_.Read(harness_.prefix_disk(), harness_.prefix() + "/latest.dat") == BytesOf(8, 0));
}

TEST_F(FilesTest, DamageThatTheFlushFindsIsToldToWhoWaitsNamingTheFile) {
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId id = Make(ranks, 4, local::LOCAL);
  const std::string folder = harness_.CacheFolderPath() + "/scr.dataset." + std::to_string(id);
  harness_.Flip(harness_.cache_disk(), folder + "/" + NameOf(0), 1234);
  EXPECT_SAYS(ranks[0].Wait(id, local::PREFIX), local::DATA_LOSS, NameOf(0));
  EXPECT_FALSE(harness_.IsThere(harness_.prefix_disk(), harness_.prefix() + "/" + NameOf(0)));
}

}  // namespace
}  // namespace cairn
