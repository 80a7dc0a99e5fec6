// Copies that nobody waits for have one budget together while a checkpoint is captured, and none when it has ended. The
// time is simulated: it only goes on for what waits. And they have an I/O priority. config.h, Background.
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/core/core.h"
#include "proto/admin.pb.h"
#include "storage/base/ids.h"
#include "storage/io/io_priority.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/simulated_daemon.h"
#include "tests/support/fake_disk.h"
#include "tests/support/io_priorities.h"

namespace cairn {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t kBytes = 16 << 20, kRate = 1 << 20;
constexpr seconds kAtRate(kBytes / kRate);
// So much may be ahead: what was begun before the limit counted, and the last piece.
constexpr seconds kAhead(5);

class BackgroundTest : public ::testing::Test {
 protected:
  BackgroundTest() {
    daemon_.config = harness_.config;
    daemon_.config.background.beside_captures = kRate;
    EXPECT_TRUE(daemon_.Start().ok());
  }
  ~BackgroundTest() override {
    clients_.clear();
    EXPECT_TRUE(daemon_.StopCleanly());
  }

  // Of a run of its own.
  FakeClient& Client(const std::string& run, const std::string& key = "job.1") {
    clients_.push_back(std::make_unique<FakeClient>(daemon_));
    EXPECT_SAYS(clients_.back()->Open({.key = key, .prefix = harness_.prefix() + run}), local::OK, "");
    return *clients_.back();
  }
  static DatasetId Make(FakeClient& client, std::uint64_t step, const Memory& memory) {
    const local::Reply done = client.Checkpoint(step, memory);
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    return done.committed().dataset();
  }
  void Flush(FakeClient& client, DatasetId id) {
    admin::FlushRequest request;
    request.set_dataset(id);
    request.set_run(client.run());
    const auto reply =
        daemon_.Answered<admin::FlushReply>([&](auto done) { daemon_.core().Flush(request, std::move(done)); });
    EXPECT_EQ(reply.status().code(), local::OK) << reply.status().message();
    EXPECT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
  }
  admin::DatasetRow Row(const std::string& run, DatasetId id) {
    admin::ListRequest request;
    request.set_run(run);
    const auto list = daemon_.Answered<absl::StatusOr<admin::ListReply>>(
        [&](auto done) { daemon_.core().List(request, std::move(done)); });
    EXPECT_TRUE(list.ok()) << list.status();
    if (!list.ok()) return {};
    for (const admin::DatasetRow& row : list->datasets()) {
      if (row.dataset() == id) return row;
    }
    return {};
  }
  // The rank's file in the one run's folder in the cache.
  std::string CachedFile(DatasetId id) {
    const std::string user = daemon_.config.cache.path + "/" + daemon_.user;
    const auto names = disk_.List(user);
    EXPECT_TRUE(names.ok()) << names.status();
    for (const std::string& name : names.value_or(std::vector<std::string>())) {
      const std::string path = fmt::format("{0}/{1}/scr.dataset.{2}/Ckpt{2}-Rank0.fti", user, name, id);
      if (disk_.Info(path).ok()) return path;
    }
    ADD_FAILURE() << "dataset " << id << " is not in the cache";
    return "";
  }
  // Of a checkpoint that has begun the folder is made, some ms after the answer: the daemon waits for the client's
  // bytes.
  void AwaitBytes() {
    daemon_.stepper().Turn(std::chrono::milliseconds(6));
    daemon_.stepper().Run();
  }
  std::chrono::nanoseconds TimeOf(const std::function<void()>& work) {
    const Stepper::Time begin = daemon_.stepper().now();
    work();
    return daemon_.stepper().now() - begin;
  }

  const Memory memory_ = {PlainOf(1, RandomBytes(1, kBytes))};
  const Memory small_ = {PlainOf(1, RandomBytes(2, 10'000))};
  CoreHarness harness_;  // settings and folders
  FakeDisk disk_;
  SimulatedDaemon daemon_{7, disk_, disk_};
  std::vector<std::unique_ptr<FakeClient>> clients_;
};

TEST_F(BackgroundTest, AFlushHasItsBudgetAsLongAsACheckpointIsCaptured) {
  FakeClient& client = Client("");
  const DatasetId first = Make(client, 1, memory_), second = Make(client, 2, memory_), third = Make(client, 3, memory_);
  EXPECT_LT(TimeOf([&] { Flush(client, first); }), seconds(1)) << "nothing is captured";
  ASSERT_SAYS(client.Begin(4, small_), local::OK, "");
  AwaitBytes();
  const auto beside = TimeOf([&] { Flush(client, second); });
  EXPECT_GE(beside, kAtRate - kAhead);
  EXPECT_LE(beside, kAtRate + kAhead);
  EXPECT_TRUE(client.Fill(small_));
  const local::Reply done = client.Commit();
  ASSERT_SAYS(done, local::OK, "");
  ASSERT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
  EXPECT_LT(TimeOf([&] { Flush(client, third); }), seconds(1)) << "it has ended";
}

// An application waits for its restore, but nobody for what that leads to.
TEST_F(BackgroundTest, WhatIsMadeAnewInTheCacheHasItToo) {
  FakeClient& first = Client("");
  const std::string run = first.run();
  const DatasetId id = Make(first, 1, memory_);
  Flush(first, id);
  clients_.clear();
  ASSERT_TRUE(daemon_.StopCleanly());  // with its images
  disk_.FlipBit(CachedFile(id), 8 * (kBytes / 2));
  ASSERT_TRUE(daemon_.Start().ok());
  FakeClient& other = Client("/other");
  ASSERT_SAYS(other.Begin(1, small_), local::OK, "");
  AwaitBytes();
  FakeClient& again = Client("", "job.2");
  Memory back = Blank(memory_);
  EXPECT_EQ(again.Latest().latest().dataset(), id);
  FakeClient::Restored restored;
  EXPECT_LT(TimeOf([&] { restored = again.Restore(id, back); }), seconds(1));
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_PREFIX);
  EXPECT_TRUE(back[0].bytes == memory_[0].bytes);
  EXPECT_FALSE(Row(run, id).in_cache());
  const auto beside = TimeOf([&] { EXPECT_TRUE(daemon_.AdvanceUntil([&] { return Row(run, id).in_cache(); })); });
  EXPECT_GE(beside, kAtRate - kAhead);
  EXPECT_LE(beside, kAtRate + kAhead);
}

// Of files there is no other way to give them back than to fetch them first.
TEST_F(BackgroundTest, AFetchThatARestoreWaitsForHasNoLimit) {
  FakeClient& first = Client("");
  const local::Reply begun = first.OutputBegin(1);
  ASSERT_SAYS(begun, local::OK, "");
  const DatasetId id = begun.output_begin().dataset();
  const local::Reply routed = first.RouteFile("file");
  ASSERT_SAYS(routed, local::OK, "");
  const std::string path = routed.route_file().path();
  {
    const auto file = disk_.Open(path, {.writable = true, .create = true});
    ASSERT_TRUE(file.ok()) << file.status();
    const std::string bytes = RandomBytes(3, kBytes);
    ASSERT_TRUE((*file)->WriteAt(0, std::as_bytes(std::span(bytes))).ok());
  }
  ASSERT_SAYS(first.OutputEnd(), local::OK, "");
  ASSERT_SAYS(first.Wait(id, local::LOCAL), local::OK, "");
  Flush(first, id);
  disk_.FlipBit(path, 8 * (kBytes / 2));
  FakeClient& other = Client("/other");
  ASSERT_SAYS(other.Begin(1, small_), local::OK, "");
  daemon_.stepper().Run();
  EXPECT_SAYS(first.Close(), local::OK, "");
  FakeClient& again = Client("", "job.2");
  EXPECT_EQ(again.Latest().latest().dataset(), id);
  Memory none;
  FakeClient::Restored restored;
  EXPECT_LT(TimeOf([&] { restored = again.Restore(id, none); }), seconds(1));
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_PREFIX);
}

TEST(BackgroundPriorityTest, FlushesHaveItAndCapturesDoNot) {
  if (!MaySetIoPriority()) GTEST_SKIP() << "ioprio_set is refused here";
  FakeDisk cache, prefix;
  CoreHarness harness(&cache, &prefix);
  absl::Mutex mutex;
  std::set<std::uint16_t> of_cache, of_prefix;
  const auto note = [&mutex](std::set<std::uint16_t>& seen) {
    return [&](FakeOp op, const std::string& path) {
      const absl::MutexLock lock(&mutex);
      if (op == FakeOp::kWrite && path.find(".fti") != path.npos) seen.insert(IoPriority::OfThisThread().number());
    };
  };
  cache.SetHook(note(of_cache));
  prefix.SetHook(note(of_prefix));
  harness.config.background.io_priority = "idle";
  ASSERT_TRUE(harness.Start().ok());
  EXPECT_EQ(harness.Status().mechanisms().background_io_priority(), "idle");
  EXPECT_EQ(harness.Status().mechanisms().background_bytes_per_s(), 100'000'000u);
  {
    FakeClient client(harness);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    const local::Reply done = client.Checkpoint(1, {PlainOf(1, RandomBytes(1, kBytes))});
    ASSERT_SAYS(done, local::OK, "");
    ASSERT_EQ(harness.Flush(done.committed().dataset()).code(), local::OK);
    ASSERT_SAYS(client.Wait(done.committed().dataset(), local::PREFIX), local::OK, "");
  }
  harness.Stop();
  cache.SetHook(nullptr);
  prefix.SetHook(nullptr);
  EXPECT_EQ(of_cache, std::set<std::uint16_t>{0});
  EXPECT_EQ(of_prefix, std::set<std::uint16_t>{IoPriority::Idle().number()});
}

}  // namespace
}  // namespace cairn
