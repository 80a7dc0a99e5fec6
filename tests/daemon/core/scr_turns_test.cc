// SCR goes on with a run of Cairn's, in Cairn's cache or from the prefix, and then Cairn again: what SCR has committed
// last is restored, or a restart is refused; never is an older dataset given as if nothing was there.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "storage/job/adopt/adopt_scr.h"
#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/scr_session.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class ScrTurnsTest : public ::testing::Test {
 protected:
  ScrTurnsTest() {
    harness_.clocks.wall = [this] { return Wall(); };
  }
  void SetUp() override { ASSERT_OK(harness_.Start()); }

  std::unique_ptr<FakeClient> Launch() {
    ++now_s_;
    auto client = std::make_unique<FakeClient>(harness_);
    EXPECT_SAYS(client->Open({.key = "job." + std::to_string(++launches_)}), local::OK, "");
    return client;
  }
  static Memory MemoryOf(std::uint64_t step) { return {PlainOf(1, RandomBytes(step, 1000))}; }
  DatasetId Checkpoint(FakeClient& client, std::uint64_t step, bool flush) {
    ++now_s_;
    const local::Reply done = client.Checkpoint(step, MemoryOf(step));
    EXPECT_SAYS(done, local::OK, "");
    const DatasetId id = done.committed().dataset();
    EXPECT_SAYS(client.Wait(id, flush ? local::PREFIX : local::LOCAL), local::OK, "");
    return id;
  }
  // Steps 1 to `count`, each on the prefix; the daemon stays.
  void MakeCheckpoints(std::uint64_t count) {
    const auto client = Launch();
    for (std::uint64_t step = 1; step <= count; ++step) Checkpoint(*client, step, /*flush=*/true);
    folder_ = harness_.CacheFolderPath();
    client->Close();
  }
  ScrSession InCache() {
    return ScrSession(
        {.prefix_disk = disk(), .prefix = harness_.prefix(), .cache_disk = &harness_.cache_disk(), .folder = folder_});
  }
  ScrSession OnPrefix() { return ScrSession({.prefix_disk = disk(), .prefix = harness_.prefix()}); }
  DatasetId ScrCheckpoint(ScrSession& session, std::uint64_t step, bool flush) {
    ++now_s_;
    return session.Checkpoint(step, RandomBytes(step, 500), Now(), flush);
  }
  std::chrono::system_clock::time_point Wall() const {
    return std::chrono::system_clock::time_point(std::chrono::seconds(now_s_));
  }
  std::int64_t Now() const { return now_s_ * 1'000'000; }
  // A restart of Cairn's gets step `step` of SCR's.
  void ExpectScrs(FakeClient& client, DatasetId id, std::uint64_t step) {
    const local::Reply latest = client.Latest();
    ASSERT_SAYS(latest, local::OK, "");
    ASSERT_EQ(latest.latest().dataset(), id);
    EXPECT_TRUE(latest.latest().files());
    Memory none;
    const FakeClient::Restored restored = client.Restore(id, none);
    ASSERT_EQ(restored.code, local::OK) << restored.message;
    const local::Reply file = client.RestartFile(id, "step_" + std::to_string(step) + ".dat");
    ASSERT_SAYS(file, local::OK, "");
    EXPECT_TRUE(harness_.Read(disk(), file.restart_file().path()) == RandomBytes(step, 500));
  }
  void ExpectOwn(FakeClient& client, DatasetId id, std::uint64_t step) {
    const local::Reply latest = client.Latest();
    ASSERT_SAYS(latest, local::OK, "");
    ASSERT_EQ(latest.latest().dataset(), id);
    Memory back = Blank(MemoryOf(step));
    const FakeClient::Restored restored = client.Restore(id, back);
    ASSERT_EQ(restored.code, local::OK) << restored.message;
    EXPECT_TRUE(back[0].bytes == RandomBytes(step, 1000));
  }
  void Adopt() {
    ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk(), harness_.prefix()));
    ASSERT_OK_AND_ASSIGN(const ScrCache cache, FindScrCache(harness_.cache_disk(), {folder_}, ""));
    AdoptScrRequest request;
    request.unverified = true;  // one copy, which nothing verifies
    request.note = [](const std::string&) {};
    ASSERT_OK(AdoptScr(disk(), *prefix, cache, request).status());
  }
  bool IsThere(const std::string& name) { return harness_.IsThere(harness_.cache_disk(), folder_ + "/" + name); }
  Disk& disk() { return harness_.prefix_disk(); }

  std::atomic<std::int64_t> now_s_ = 1'700'000'000;  // the daemon asks, too
  CoreHarness harness_;
  std::string folder_;
  int launches_ = 0;
};

TEST_F(ScrTurnsTest, WhatScrHasFlushedFromThisCacheIsRestored) {
  MakeCheckpoints(2);
  harness_.Stop();
  ScrSession scr = InCache();
  ASSERT_EQ(scr.Restart(), 2u);
  ASSERT_EQ(ScrCheckpoint(scr, 3, /*flush=*/true), 3u);
  ASSERT_OK(harness_.Start());
  for (int i = 0; i < 2; ++i) {
    ExpectScrs(*Launch(), 3, 3);
    EXPECT_TRUE(IsThere("scr.dataset.3/step_3.dat"));  // SCR's own copy is left to SCR
    EXPECT_FALSE(IsThere("damaged.3.1"));
    harness_.Restart();
  }
  // And what Cairn makes then is newer.
  const auto client = Launch();
  ExpectScrs(*client, 3, 3);
  const DatasetId own = Checkpoint(*client, 4, /*flush=*/false);
  EXPECT_GT(own, 3u);
  client->Close();
  ExpectOwn(*Launch(), own, 4);
}

TEST_F(ScrTurnsTest, WhatScrHasOnlyInThisCacheIsRefusedUntilItIsAdopted) {
  MakeCheckpoints(2);
  harness_.Stop();
  ScrSession scr = InCache();
  ASSERT_EQ(scr.Restart(), 2u);
  ASSERT_EQ(ScrCheckpoint(scr, 3, /*flush=*/false), 3u);
  ASSERT_OK(harness_.Start());
  EXPECT_SAYS(Launch()->Latest(), local::FAILED_PRECONDITION, "dataset 3 (step_3)");
  EXPECT_SAYS(Launch()->Latest(), local::FAILED_PRECONDITION, "cairn adopt " + harness_.prefix() + " --scr " + folder_);
  Adopt();
  const auto client = Launch();
  ExpectScrs(*client, client->Latest().latest().dataset(), 3);
  EXPECT_TRUE(IsThere("scr.dataset.3/step_3.dat"));
}

TEST_F(ScrTurnsTest, ItIsPassedOverWhenTheUserSaysSo) {
  MakeCheckpoints(2);
  harness_.Stop();
  ScrSession scr = InCache();
  ASSERT_EQ(scr.Restart(), 2u);
  ScrCheckpoint(scr, 3, /*flush=*/false);
  ASSERT_OK(harness_.Start());
  EXPECT_SAYS(Launch()->Latest(), local::FAILED_PRECONDITION, "cairn index current");
  ASSERT_OK(SetIndexCurrent(disk(), harness_.prefix(), "ckpt.2"));
  ExpectOwn(*Launch(), 2, 2);
}

TEST_F(ScrTurnsTest, AnObserverIsToldTheSame) {
  MakeCheckpoints(2);
  harness_.Stop();
  ScrSession scr = InCache();
  ASSERT_EQ(scr.Restart(), 2u);
  ScrCheckpoint(scr, 3, /*flush=*/false);
  ASSERT_OK(harness_.Start());
  FakeClient observer(harness_);
  ASSERT_SAYS(observer.Open({.observer = true}), local::OK, "");
  EXPECT_SAYS(observer.Latest(), local::FAILED_PRECONDITION, "dataset 3 (step_3)");
}

TEST_F(ScrTurnsTest, WhatWasTakenOutOfTheIndexIsNotAskedForInTheCache) {
  MakeCheckpoints(2);
  harness_.Stop();
  ScrSession scr = InCache();
  ASSERT_EQ(scr.Restart(), 2u);
  ScrCheckpoint(scr, 3, /*flush=*/true);
  ASSERT_OK(DropFromIndex(disk(), harness_.prefix(), "step_3"));
  ASSERT_OK(harness_.Start());
  ExpectOwn(*Launch(), 2, 2);
  ASSERT_OK(AddToIndex(disk(), harness_.prefix(), "3"));
  ExpectScrs(*Launch(), 3, 3);
}

TEST_F(ScrTurnsTest, OneThatIsNotWholeIsPassedOver) {
  MakeCheckpoints(2);
  harness_.Stop();
  ScrSession scr = InCache();
  ASSERT_EQ(scr.Restart(), 2u);
  ScrCheckpoint(scr, 3, /*flush=*/false);
  ASSERT_OK(harness_.cache_disk().Remove(folder_ + "/scr.dataset.3/step_3.dat"));
  ASSERT_OK(harness_.Start());
  ExpectOwn(*Launch(), 2, 2);
}

class ScrTakesANumber : public ScrTurnsTest, public ::testing::WithParamInterface<bool> {
 protected:
  // SCR works on the prefix, beside a daemon or not.
  void Meanwhile(const std::function<void()>& work) {
    if (!GetParam()) harness_.Stop();
    work();
    if (!GetParam()) {
      ASSERT_OK(harness_.Start());
    }
  }
};
INSTANTIATE_TEST_SUITE_P(ADaemonRuns, ScrTakesANumber, ::testing::Bool());

TEST_P(ScrTakesANumber, WhatScrCommittedUnderItIsRestored) {
  MakeCheckpoints(3);
  Meanwhile([&] {
    ASSERT_OK(SetIndexCurrent(disk(), harness_.prefix(), "ckpt.2"));
    ScrSession scr = OnPrefix();
    ASSERT_EQ(scr.Restart(), 2u);
    ASSERT_EQ(ScrCheckpoint(scr, 30, /*flush=*/true), 3u);
  });
  for (int i = 0; i < 2; ++i) {
    ExpectScrs(*Launch(), 3, 30);
    harness_.Restart();
  }
  // Cairn's own of that number is kept, where neither Cairn nor SCR takes it for dataset 3.
  EXPECT_TRUE(harness_.Eventually([&] { return IsThere("taken.3.1/rank_0.cat"); }));
  EXPECT_TRUE(harness_.Warned("taken.3.1"));
  ScrSession scr = InCache();
  EXPECT_EQ(scr.Restart(), 3u);  // the copy that was fetched
  EXPECT_TRUE(harness_.Read(disk(), harness_.prefix() + "/step_30.dat") == RandomBytes(30, 500));
}

TEST_P(ScrTakesANumber, AnUnflushedOneIsNotFlushedUnderIt) {
  MakeCheckpoints(1);
  {
    const auto client = Launch();
    EXPECT_EQ(Checkpoint(*client, 2, /*flush=*/false), 2u);
    client->Close();
  }
  Meanwhile([&] {
    ScrSession scr = OnPrefix();
    ASSERT_EQ(scr.Restart(), 1u);
    ASSERT_EQ(ScrCheckpoint(scr, 20, /*flush=*/true), 2u);
  });
  if (GetParam()) {  // nobody has looked since
    EXPECT_EQ(harness_.Flush(2).code(), local::OK);
    const admin::WaitReply waited = harness_.Wait(2, local::PREFIX);
    EXPECT_EQ(waited.status().code(), local::FAILED) << waited.status().message();
    EXPECT_NE(waited.status().message().find("step_20"), std::string::npos) << waited.status().message();
  }
  ExpectScrs(*Launch(), 2, 20);
  EXPECT_TRUE(harness_.Eventually([&] { return IsThere("taken.2.1/rank_0.cat"); }));
}

TEST_P(ScrTakesANumber, AnOlderOneOfCairnsWithAHigherNumberDoesNotCountMore) {
  MakeCheckpoints(1);
  {
    const auto client = Launch();
    EXPECT_EQ(Checkpoint(*client, 2, /*flush=*/false), 2u);
    EXPECT_EQ(Checkpoint(*client, 3, /*flush=*/false), 3u);
    client->Close();
  }
  Meanwhile([&] {
    ScrSession scr = OnPrefix();
    ASSERT_EQ(scr.Restart(), 1u);
    ASSERT_EQ(ScrCheckpoint(scr, 20, /*flush=*/true), 2u);
  });
  ExpectScrs(*Launch(), 2, 20);
}

}  // namespace
}  // namespace cairn
