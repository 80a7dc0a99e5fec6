// Datasets that are larger than the whole cache go straight to the prefix.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class BypassTest : public ::testing::Test {
 protected:
  void SetUp() override {
    harness_.config.cache.bytes_max = kMiB;
    ASSERT_TRUE(harness_.Start().ok());
  }
  static Memory MemoryOf(std::uint64_t step, std::uint64_t bytes = 2 * kMiB) {
    return {ValueOf(1, "step", step), PlainOf(2, RandomBytes(step, bytes))};
  }
  std::string DataFolder(DatasetId id) { return harness_.prefix() + "/ckpt." + std::to_string(id); }
  bool IsOnPrefix(const std::string& path) { return harness_.IsThere(prefix_disk_, path); }
  std::string CompleteInIndex(DatasetId id) {
    const auto tree = ReadTree(prefix_disk_, harness_.prefix() + "/.scr/index.scr");
    if (!tree.ok()) return "no index";
    const kvtree::Tree* entry = tree->FindPath({"DSET", std::to_string(id)});
    return entry != nullptr ? std::string(entry->Get("COMPLETE").value_or("none")) : "no entry";
  }
  bool Vanishes(DatasetId id) {
    return harness_.Eventually([&] { return !IsOnPrefix(DataFolder(id)) && CompleteInIndex(id) == "no entry"; });
  }
  // The core resolves links in a prefix with the kernel's help.
  std::string OtherPrefix() {
    const std::string prefix = harness_.prefix() + "2";
    std::filesystem::create_directories(prefix);
    return prefix;
  }
  static void ExpectRestores(FakeClient& client, DatasetId id, const Memory& memory) {
    Memory back = Blank(memory);
    const FakeClient::Restored restored = client.Restore(id, back);
    ASSERT_EQ(restored.code, local::OK) << restored.message;
    for (std::size_t i = 0; i < memory.size(); ++i) EXPECT_TRUE(back[i].bytes == memory[i].bytes) << i;
  }
  // A dataset of one file each; the path where it was written.
  std::string PutFile(FakeClient& client, const std::string& name, const std::string& bytes) {
    const local::Reply routed = client.RouteFile(name);
    EXPECT_SAYS(routed, local::OK, "");
    const std::string path = routed.route_file().path();
    const bool on_prefix = path.starts_with(harness_.prefix() + "/");
    harness_.Write(on_prefix ? prefix_disk_ : harness_.cache_disk(), path, bytes);
    return path;
  }
  DatasetId MakeFile(FakeClient& client, std::uint64_t step, const std::string& name, std::string* path) {
    const local::Reply begun = client.OutputBegin(step, true, true);
    EXPECT_SAYS(begun, local::OK, "");
    *path = PutFile(client, name, RandomBytes(step, 2 * kMiB));
    EXPECT_SAYS(client.OutputEnd(), local::OK, "");
    return begun.output_begin().dataset();
  }

  FakeDisk prefix_disk_;
  CoreHarness harness_{nullptr, &prefix_disk_};
};

TEST_F(BypassTest, ALargeCheckpointIsOnThePrefixAtOnceAndRestoredFromThere) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply done = client.Checkpoint(1, MemoryOf(1));
  ASSERT_SAYS(done, local::OK, "");
  const DatasetId id = done.committed().dataset();
  EXPECT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");  // a stronger copy will do
  EXPECT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
  EXPECT_TRUE(harness_.Row(id).in_prefix());
  EXPECT_FALSE(harness_.Row(id).in_cache());
  EXPECT_EQ(harness_.Row(id).state(), "whole");
  EXPECT_EQ(harness_.Status().cache_bytes_used(), 0u);
  EXPECT_EQ(CompleteInIndex(id), "1");
  ExpectRestores(client, id, MemoryOf(1));

  client.Drop();
  harness_.Restart();
  FakeClient next(harness_);
  ASSERT_SAYS(next.Open({.key = "job.2"}), local::OK, "");
  ASSERT_EQ(next.Latest().latest().dataset(), id);
  Memory back = Blank(MemoryOf(1));
  const FakeClient::Restored restored = next.Restore(id, back);
  ASSERT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_PREFIX);
  EXPECT_TRUE(back[1].bytes == MemoryOf(1)[1].bytes);
}

TEST_F(BypassTest, ASmallOneStillGoesToTheCache) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ASSERT_SAYS(client.Checkpoint(1, MemoryOf(1)), local::OK, "");
  const local::Reply done = client.Checkpoint(2, MemoryOf(2, 1000));
  ASSERT_SAYS(done, local::OK, "");
  EXPECT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
  EXPECT_TRUE(harness_.Row(done.committed().dataset()).in_cache());
}

TEST_F(BypassTest, WithoutItALargeOneIsRefused) {
  harness_.config.cache.bypass = false;
  harness_.Restart();
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_SAYS(client.Begin(1, MemoryOf(1)), local::RESOURCE_EXHAUSTED, "is full");
}

TEST_F(BypassTest, UntilItIsCommittedItHasOnlyBeenCaptured) {
  Gate gate(FakeOp::kLink, "commit.cairn");
  prefix_disk_.SetHook(gate.hook());
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply done = client.Checkpoint(1, MemoryOf(1));
  ASSERT_SAYS(done, local::OK, "");
  const DatasetId id = done.committed().dataset();
  gate.AwaitArrival();
  EXPECT_TRUE(client.Test(id, local::CAPTURED).test().reached());
  EXPECT_FALSE(client.Test(id, local::LOCAL).test().reached());
  EXPECT_FALSE(client.Test(id, local::PREFIX).test().reached());
  EXPECT_EQ(harness_.Row(id).state(), "writing");
  EXPECT_EQ(CompleteInIndex(id), "0");
  EXPECT_EQ(harness_.Status().cache_bytes_used(), 0u);
  const std::uint64_t waiting = client.SendWait(id, local::PREFIX);
  gate.Open();
  EXPECT_SAYS(client.Next(waiting), local::OK, "");
}

TEST_F(BypassTest, AFailureTakesAwayWhatWasBegunAndTheNextOneWorks) {
  prefix_disk_.FailOn({.op = FakeOp::kWrite,
                       .path_part = "ckpt.1/",
                       .times = UINT64_MAX,
                       .status = absl::ResourceExhaustedError("the quota is used up")});
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply done = client.Checkpoint(1, MemoryOf(1));
  EXPECT_SAYS(client.Wait(1, local::LOCAL), local::FAILED, "the quota is used up");
  EXPECT_TRUE(Vanishes(1));
  const local::Reply next = client.Checkpoint(2, MemoryOf(2));
  ASSERT_SAYS(next, local::OK, "");
  EXPECT_SAYS(client.Wait(next.committed().dataset(), local::PREFIX), local::OK, "");
}

TEST_F(BypassTest, WhatADaemonLeavesUnfinishedTheNextOneTakesAway) {
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    const Memory memory = MemoryOf(1);
    ASSERT_SAYS(client.Begin(1, memory), local::OK, "");
    ASSERT_TRUE(harness_.Eventually([&] { return CompleteInIndex(1) == "0" && IsOnPrefix(DataFolder(1)); }));
    prefix_disk_.CrashAt(1);
    harness_.Stop();
  }
  prefix_disk_.Restart(1);
  EXPECT_TRUE(IsOnPrefix(DataFolder(1)));
  ASSERT_TRUE(harness_.Start().ok());
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  EXPECT_SAYS(client.Latest(), local::NOT_FOUND, "no checkpoint");
  EXPECT_TRUE(Vanishes(1));
}

TEST_F(BypassTest, RanksOfDifferentSizesBypassFromTheSecondTimeOn) {
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_SAYS(ranks[0].Begin(1, MemoryOf(1, 1000)), local::OK, "");
  EXPECT_SAYS(ranks[1].Begin(1, MemoryOf(1)), local::RESOURCE_EXHAUSTED, "is full");
  const DatasetId id = ranks.Checkpoint(2, {MemoryOf(1, 1000), MemoryOf(2)});
  ASSERT_NE(id, 0u);
  EXPECT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  EXPECT_FALSE(harness_.Row(id).in_cache());
}

TEST_F(BypassTest, ItIsNotFlushedNorWrittenOver) {
  harness_.config.flush.every = 1;
  harness_.config.cache.keep = 0;
  harness_.Restart();
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  DatasetId last = 0;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const local::Reply done = client.Checkpoint(step, MemoryOf(step));
    ASSERT_SAYS(done, local::OK, "");
    last = done.committed().dataset();
    EXPECT_SAYS(client.Wait(last, local::PREFIX), local::OK, "");
    EXPECT_EQ(harness_.Status().runs(0).flushes_size(), 0);
  }
  for (DatasetId id = 1; id <= last; ++id) EXPECT_TRUE(harness_.Row(id).in_prefix()) << id;
  for (DatasetId id = 1; id <= last; ++id) ExpectRestores(client, id, MemoryOf(id));
}

TEST_F(BypassTest, APowerFailureAnywhereLeavesAWholeDatasetOrNone) {
  for (std::uint64_t n = 1; n <= 120; n += 7) {
    const std::string key = "job." + std::to_string(n);
    DatasetId id = 0;
    {
      FakeClient client(harness_);
      ASSERT_SAYS(client.Open({.key = key}), local::OK, "");
      prefix_disk_.CrashAt(n);
      const local::Reply done = client.Checkpoint(n, MemoryOf(n));
      if (CodeOfReply(done) == local::OK) {
        id = done.committed().dataset();
        client.Wait(id, local::PREFIX);
      }
      harness_.Stop();
    }
    prefix_disk_.Restart(n);
    ASSERT_TRUE(harness_.Start().ok());
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = key + ".again"}), local::OK, "") << n;
    const local::Reply latest = client.Latest();
    if (CodeOfReply(latest) == local::OK) {
      ExpectRestores(client, latest.latest().dataset(), MemoryOf(latest.latest().step()));
    } else {
      EXPECT_SAYS(latest, local::NOT_FOUND, "") << n;
    }
  }
}

// --- The application's own files ---

TEST_F(BypassTest, FilesBypassWhenTheLastOnesWereTooLarge) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  std::string path;
  const DatasetId first = MakeFile(client, 1, "out/a", &path);
  EXPECT_TRUE(path.starts_with(harness_.config.cache.path)) << path;
  EXPECT_SAYS(client.Wait(first, local::PREFIX), local::OK, "");
  const DatasetId second = MakeFile(client, 2, "out/b", &path);
  EXPECT_EQ(path, DataFolder(second) + "/files/out/b");
  EXPECT_SAYS(client.Wait(second, local::PREFIX), local::OK, "");
  EXPECT_TRUE(harness_.Row(first).in_prefix());
  EXPECT_FALSE(harness_.Row(second).in_cache());
  client.Drop();

  FakeClient next(harness_);
  ASSERT_SAYS(next.Open({.key = "job.2"}), local::OK, "");
  ASSERT_EQ(next.Latest().latest().dataset(), second);
  Memory none;
  const FakeClient::Restored restored = next.Restore(second, none);
  ASSERT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_PREFIX);
  const local::Reply file = next.RestartFile(second, "out/b");
  ASSERT_SAYS(file, local::OK, "");
  EXPECT_EQ(file.restart_file().path(), harness_.prefix() + "/out/b");
  EXPECT_TRUE(harness_.Read(prefix_disk_, file.restart_file().path()) == RandomBytes(2, 2 * kMiB));
}

TEST_F(BypassTest, FilesBypassACacheThatOthersHaveFilled) {
  FakeClient first(harness_), second(harness_);
  ASSERT_SAYS(first.Open({}), local::OK, "");
  std::string path;
  const DatasetId held = MakeFile(first, 1, "a", &path);
  ASSERT_SAYS(first.Wait(held, local::PREFIX), local::OK, "");
  ASSERT_EQ(harness_.Pin(held, true).code(), local::OK);  // else it would give way
  EXPECT_GT(harness_.Status().cache_bytes_used(), kMiB);
  const std::string prefix = OtherPrefix();
  ASSERT_SAYS(second.Open({.key = "other", .prefix = prefix}), local::OK, "");
  const local::Reply begun = second.OutputBegin(1, true, true);
  ASSERT_SAYS(begun, local::OK, "");
  const DatasetId id = begun.output_begin().dataset();
  const local::Reply routed = second.RouteFile("b");
  ASSERT_SAYS(routed, local::OK, "");
  ASSERT_TRUE(routed.route_file().path().starts_with(prefix + "/")) << routed.route_file().path();
  harness_.Write(prefix_disk_, routed.route_file().path(), RandomBytes(5, 1000));
  ASSERT_SAYS(second.OutputEnd(), local::OK, "");
  ASSERT_SAYS(second.Wait(id, local::PREFIX), local::OK, "");
  ASSERT_SAYS(second.Close(), local::OK, "");

  FakeClient next(harness_);  // nor is there room to fetch them
  ASSERT_SAYS(next.Open({.key = "other.2", .prefix = prefix}), local::OK, "");
  ASSERT_EQ(next.Latest().latest().dataset(), id);
  Memory none;
  const FakeClient::Restored restored = next.Restore(id, none);
  ASSERT_EQ(restored.code, local::OK) << restored.message;
  const local::Reply file = next.RestartFile(id, "b");
  ASSERT_SAYS(file, local::OK, "");
  EXPECT_EQ(file.restart_file().path(), prefix + "/b");
}

TEST_F(BypassTest, WithoutItFilesAreRefusedWhenOthersHaveFilledTheCache) {
  harness_.config.cache.bypass = false;
  harness_.Restart();
  FakeClient first(harness_), second(harness_);
  ASSERT_SAYS(first.Open({}), local::OK, "");
  std::string path;
  MakeFile(first, 1, "a", &path);
  ASSERT_SAYS(second.Open({.key = "other", .prefix = OtherPrefix()}), local::OK, "");
  EXPECT_SAYS(second.OutputBegin(1, true, true), local::RESOURCE_EXHAUSTED, "is full");
}

TEST_F(BypassTest, FilesDamagedOnThePrefixAreNotGivenBack) {
  DatasetId first = 0, second = 0;
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    std::string path;
    first = MakeFile(client, 1, "a", &path);
    EXPECT_SAYS(client.Wait(first, local::PREFIX), local::OK, "");
    second = MakeFile(client, 2, "b", &path);
    EXPECT_SAYS(client.Wait(second, local::PREFIX), local::OK, "");
  }
  prefix_disk_.FlipBit(harness_.prefix() + "/b", 8 * 1234);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  ASSERT_EQ(client.Latest().latest().dataset(), second);
  Memory none;
  EXPECT_EQ(client.Restore(second, none).code, local::RETRY);
  EXPECT_EQ(client.Latest().latest().dataset(), first);
}

TEST_F(BypassTest, FilesWithOldNamesTakeTheirPlacesWhenTheDatasetIsComplete) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  std::string path;
  const DatasetId first = MakeFile(client, 1, "out/a", &path);
  EXPECT_SAYS(client.Wait(first, local::PREFIX), local::OK, "");
  const local::Reply begun = client.OutputBegin(2, true, true);
  ASSERT_SAYS(begun, local::OK, "");
  const DatasetId second = begun.output_begin().dataset();
  path = PutFile(client, "out/a", RandomBytes(2, 2 * kMiB));
  EXPECT_EQ(path, DataFolder(second) + "/files/out/a");
  EXPECT_TRUE(harness_.Read(prefix_disk_, harness_.prefix() + "/out/a") == RandomBytes(1, 2 * kMiB));
  EXPECT_EQ(CompleteInIndex(first), "1");
  ASSERT_EQ(client.RouteFile("out/a").route_file().path(), path);  // asked again
  ASSERT_SAYS(client.OutputEnd(), local::OK, "");
  EXPECT_SAYS(client.Wait(second, local::PREFIX), local::OK, "");
  EXPECT_TRUE(harness_.Read(prefix_disk_, harness_.prefix() + "/out/a") == RandomBytes(2, 2 * kMiB));
  EXPECT_FALSE(IsOnPrefix(DataFolder(second) + "/files"));
  EXPECT_EQ(CompleteInIndex(first), "no entry");
  EXPECT_SAYS(client.Test(first, local::PREFIX), local::SUPERSEDED, "");
}

TEST_F(BypassTest, WhatCannotBeRemovedOfAnOutputThatGaveWayIsAWarning) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  std::string path;
  const DatasetId first = MakeFile(client, 1, "out/a", &path);
  EXPECT_SAYS(client.Wait(first, local::PREFIX), local::OK, "");
  prefix_disk_.FailOn({.op = FakeOp::kRemove, .path_part = fmt::format("/ckpt.{}/rank_0.cat", first)});
  const DatasetId second = MakeFile(client, 2, "out/a", &path);
  EXPECT_EQ(path, DataFolder(second) + "/files/out/a");
  EXPECT_SAYS(client.Wait(second, local::PREFIX), local::OK, "");
  const admin::StatusReply status = harness_.Status();
  EXPECT_TRUE(std::any_of(status.warnings().begin(), status.warnings().end(), [&](const std::string& warning) {
    return warning.find(fmt::format("dataset {}: ", first)) != std::string::npos &&
           warning.find("injected") != std::string::npos;
  }));
}

TEST_F(BypassTest, AnApplicationThatDiesWhileItWritesFilesLosesNoOlderOnes) {
  DatasetId first = 0, second = 0, third = 0;
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    std::string path;
    first = MakeFile(client, 1, "out/a", &path);
    EXPECT_SAYS(client.Wait(first, local::PREFIX), local::OK, "");
    second = MakeFile(client, 2, "out/a", &path);
    EXPECT_SAYS(client.Wait(second, local::PREFIX), local::OK, "");
    const local::Reply begun = client.OutputBegin(3, true, true);
    ASSERT_SAYS(begun, local::OK, "");
    third = begun.output_begin().dataset();
    PutFile(client, "out/a", "half of it");
    client.Drop();
  }
  FakeClient next(harness_);
  ASSERT_SAYS(next.Open({.key = "job.2"}), local::OK, "");
  ASSERT_EQ(next.Latest().latest().dataset(), second);
  EXPECT_TRUE(Vanishes(third));
  EXPECT_TRUE(harness_.Read(prefix_disk_, harness_.prefix() + "/out/a") == RandomBytes(2, 2 * kMiB));
}

TEST_F(BypassTest, APowerFailureWhileFilesArePutInPlaceLeavesAWholeDatasetOrNone) {
  for (std::uint64_t n = 1; n <= 90; n += 8) {
    const std::string key = "job." + std::to_string(n);
    {
      FakeClient client(harness_);
      ASSERT_SAYS(client.Open({.key = key}), local::OK, "") << n;
      std::string path;
      client.Wait(MakeFile(client, n, "out/a", &path), local::PREFIX);
      const local::Reply begun = client.OutputBegin(n + 1, true, true);
      ASSERT_SAYS(begun, local::OK, "") << n;
      PutFile(client, "out/a", RandomBytes(n + 1, 2 * kMiB));
      prefix_disk_.CrashAt(n);
      client.OutputEnd();
      client.Wait(begun.output_begin().dataset(), local::PREFIX);
      harness_.Stop();
    }
    prefix_disk_.Restart(n);
    ASSERT_TRUE(harness_.Start().ok());
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = key + ".again"}), local::OK, "") << n;
    const local::Reply latest = client.Latest();
    if (CodeOfReply(latest) != local::OK) continue;
    Memory none;
    const FakeClient::Restored restored = client.Restore(latest.latest().dataset(), none);
    ASSERT_EQ(restored.code, local::OK) << n << ": " << restored.message;
    const std::string path = client.RestartFile(latest.latest().dataset(), "out/a").restart_file().path();
    Disk& disk = path.starts_with(harness_.prefix() + "/") ? prefix_disk_ : harness_.cache_disk();
    EXPECT_TRUE(harness_.Read(disk, path) == RandomBytes(latest.latest().step(), 2 * kMiB)) << n;
  }
}

TEST_F(BypassTest, FilesThatTheApplicationGivesUpAreTakenAway) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  std::string path;
  MakeFile(client, 1, "a", &path);
  const local::Reply begun = client.OutputBegin(2, true, true);
  ASSERT_SAYS(begun, local::OK, "");
  path = PutFile(client, "b", "half of it");
  ASSERT_TRUE(IsOnPrefix(path));
  EXPECT_SAYS(client.OutputEnd(/*valid=*/false), local::OK, "");
  EXPECT_TRUE(Vanishes(begun.output_begin().dataset()));
}

}  // namespace
}  // namespace cairn
