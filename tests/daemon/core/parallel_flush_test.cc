// Several flushes of a run at once: who waits for whom, what is seen meanwhile, and what a stop in between leaves.
#include <gtest/gtest.h>

#include <mutex>

#include "storage/base/path.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/flush_fixture.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

class ParallelFlushTest : public FlushFixture {
 protected:
  void StartWith(std::uint32_t parallel) {
    harness_.config.flush.every = 1;
    harness_.config.flush.superseded = true;
    harness_.config.flush.parallel = parallel;
    Start();
  }
  std::string StateOf(DatasetId id) {
    const admin::StatusReply status = harness_.Status();
    for (const admin::FlushStatus& flush : status.runs(0).flushes()) {
      if (flush.dataset() == id) return flush.state();
    }
    return "";
  }
  bool Reaches(DatasetId id, const std::string& state) {
    return harness_.Eventually([&] { return StateOf(id) == state; });
  }
  // The first of two waits at the gate while it is copied, the second is copied and waits for its turn.
  std::pair<DatasetId, DatasetId> CopiedBehind(Gate& gate) {
    const DatasetId first = Make(1);
    gate.AwaitArrival();
    const DatasetId second = Make(2);
    EXPECT_TRUE(Reaches(second, "copied"));
    return {first, second};
  }
  std::string CompleteInIndex(DatasetId id) {
    const auto tree = ReadTree(prefix_disk_, harness_.prefix() + "/.scr/index.scr");
    if (!tree.ok()) return "no index";
    const kvtree::Tree* entry = tree->FindPath({"DSET", std::to_string(id)});
    return entry != nullptr ? std::string(entry->Get("COMPLETE").value_or("none")) : "no entry";
  }
  std::string Places(DatasetId id) {
    const auto tree = ReadTree(prefix_disk_, harness_.prefix() + "/.scr/flush.scr");
    const auto entries =
        tree.ok() ? scr::GetFlushEntries(*tree) : absl::StatusOr<std::map<DatasetId, scr::FlushEntry>>(tree.status());
    if (!entries.ok() || !entries->contains(id)) return "none";
    const scr::FlushEntry& entry = entries->at(id);
    return std::string(entry.in_cache ? "CACHE " : "") + (entry.flushing ? "FLUSHING " : "") +
           (entry.in_prefix ? "PFS " : "");
  }
  bool FlushFileSays(DatasetId id, const std::string& places) {
    return harness_.Eventually([&] { return Places(id) == places; });
  }
  std::string DataFolder(DatasetId id) { return harness_.prefix() + "/ckpt." + std::to_string(id); }
};

TEST_F(ParallelFlushTest, AYoungerOneIsCopiedMeanwhileAndCommitsAfterTheOlder) {
  Gate gate(FakeOp::kWrite, "ckpt.1/");
  std::mutex mutex;
  std::vector<std::string> commits;
  prefix_disk_.SetHook([&, pass = gate.hook()](FakeOp op, const std::string& path) {
    if (op == FakeOp::kLink && path.find("commit.cairn") != std::string::npos) {
      const std::lock_guard lock(mutex);
      commits.push_back(path);
    }
    pass(op, path);
  });
  StartWith(2);
  const DatasetId first = Make(1);
  ASSERT_EQ(first, 1u);
  gate.AwaitArrival();
  const DatasetId second = Make(2), third = Make(3);
  EXPECT_TRUE(Reaches(second, "copied"));
  EXPECT_EQ(StateOf(first), "running");
  EXPECT_EQ(StateOf(third), "");  // two are in flight
  EXPECT_FALSE(harness_.Row(second).in_prefix());
  EXPECT_SAYS(client_->Test(second, local::PREFIX), local::OK, "");
  EXPECT_FALSE(client_->Test(second, local::PREFIX).test().reached());
  gate.Open();
  for (DatasetId id : {first, second, third}) EXPECT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
  const std::lock_guard lock(mutex);
  ASSERT_GE(commits.size(), 3u);
  std::vector<std::string> order;
  for (const std::string& path : commits) {
    const std::size_t at = path.find("scr.dataset.");
    const std::string name = path.substr(at, path.find('/', at) - at);
    if (order.empty() || order.back() != name) order.push_back(name);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"scr.dataset.1", "scr.dataset.2", "scr.dataset.3"}));
}

TEST_F(ParallelFlushTest, OneThatPausesAfterAFailureIsNotWaitedFor) {
  harness_.config.flush.retry_ms_min = 60'000;
  harness_.config.flush.retry_ms_max = 120'000;
  prefix_disk_.FailOn({.op = FakeOp::kWrite, .path_part = "ckpt.1/", .times = UINT64_MAX});
  StartWith(2);
  const DatasetId first = Make(1), second = Make(2);
  EXPECT_SAYS(client_->Wait(second, local::PREFIX), local::OK, "");
  EXPECT_TRUE(Reaches(first, "backing off"));
  EXPECT_FALSE(harness_.Row(first).in_prefix());
}

// As when the file system that it is read from does. What hangs has no work of another's under it, and ends when it
// goes on.
class HangingCopyTest : public ParallelFlushTest, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(HangingCopyTest, IsNotWaitedForForLong) {
  Gate gate(FakeOp::kWrite, "ckpt.1/");
  prefix_disk_.SetHook(gate.hook());
  harness_.config.flush.stalled_ms = 300;
  StartWith(GetParam());
  const DatasetId first = Make(1);
  gate.AwaitArrival();
  const DatasetId second = Make(2), third = Make(3);
  for (const DatasetId id : {second, third}) EXPECT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
  EXPECT_EQ(StateOf(first), "running");
  EXPECT_EQ(CompleteInIndex(first), "0");
  gate.Open();
  EXPECT_SAYS(client_->Wait(first, local::PREFIX), local::OK, "");
  EXPECT_EQ(CompleteInIndex(first), "1");
  const auto index = ReadTree(prefix_disk_, harness_.prefix() + "/.scr/index.scr");
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->Get("CURRENT"), "ckpt." + std::to_string(third));
  EXPECT_EQ(client_->Latest().latest().dataset(), third);
}

INSTANTIATE_TEST_SUITE_P(Parallel, HangingCopyTest, ::testing::Values(1, 2));

TEST_F(ParallelFlushTest, WhatIsInFlightIsInTheIndexAndRestoredByNobody) {
  Gate gate(FakeOp::kWrite, "ckpt.1/");
  prefix_disk_.SetHook(gate.hook());
  StartWith(2);
  const DatasetId first = Make(1);
  gate.AwaitArrival();
  EXPECT_EQ(CompleteInIndex(first), "0");
  EXPECT_EQ(Places(first), "CACHE FLUSHING ");
  auto reader = Prefix::OpenReadOnly(prefix_disk_, harness_.prefix());
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE((*reader)->Committed()->empty());
  gate.Open();
  EXPECT_SAYS(client_->Wait(first, local::PREFIX), local::OK, "");
  EXPECT_EQ(CompleteInIndex(first), "1");
  EXPECT_EQ(Places(first), "CACHE PFS ");
}

TEST_F(ParallelFlushTest, AStopBetweenCopyAndCommitCopiesNothingTwice) {
  prefix_disk_.FailOn({.op = FakeOp::kRename, .path_part = "Ckpt1-Rank0.fti", .times = UINT64_MAX});
  StartWith(2);
  const DatasetId id = Make(1);
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Warned("next try in"); }));
  client_ = nullptr;
  harness_.Stop();
  prefix_disk_.ClearFaults();
  prefix_disk_.SetHook([](FakeOp op, const std::string& path) {
    EXPECT_FALSE(op == FakeOp::kWrite && path.find("Ckpt1-Rank0.fti") != std::string::npos) << path;
  });
  ASSERT_TRUE(harness_.Start().ok());
  EXPECT_EQ(harness_.Wait(id, local::PREFIX).status().code(), local::OK);
}

TEST_F(ParallelFlushTest, OneThatIsCopiedCanBeRemovedAndLeavesNothing) {
  Gate gate(FakeOp::kWrite, "ckpt.1/");
  prefix_disk_.SetHook(gate.hook());
  StartWith(2);
  const auto [first, second] = CopiedBehind(gate);
  EXPECT_TRUE(harness_.IsThere(prefix_disk_, DataFolder(second)));
  EXPECT_EQ(harness_.Remove(second).code(), local::OK);
  EXPECT_TRUE(harness_.Eventually([&] { return !harness_.IsThere(prefix_disk_, DataFolder(second)); }));
  EXPECT_TRUE(harness_.Eventually([&] { return CompleteInIndex(second) == "no entry"; }));
  gate.Open();
  EXPECT_SAYS(client_->Wait(first, local::PREFIX), local::OK, "");
  EXPECT_SAYS(client_->Test(second, local::LOCAL), local::NOT_FOUND, "removed");
}

TEST_F(ParallelFlushTest, DamageOfTheCachedCopyIsToldToWhoWaitsAndLeavesNothing) {
  prefix_disk_.FailOn({.op = FakeOp::kWrite, .path_part = "ckpt.1/", .times = 1});
  harness_.config.flush.retry_ms_min = 60'000;
  harness_.config.flush.retry_ms_max = 120'000;
  StartWith(2);
  const DatasetId id = Make(1);
  ASSERT_TRUE(Reaches(id, "backing off"));
  harness_.Flip(harness_.cache_disk(), harness_.CachedFile(id, 0), 70'000);
  client_ = nullptr;
  harness_.Restart();
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  EXPECT_SAYS(client.Wait(id, local::PREFIX), local::DATA_LOSS, "Ckpt1-Rank0.fti");
  EXPECT_TRUE(harness_.Eventually([&] { return !harness_.IsThere(prefix_disk_, DataFolder(id)); }));
}

TEST_F(ParallelFlushTest, AQuiesceDoesNotWaitForTheTurnOfWhatIsCopied) {
  Gate gate(FakeOp::kWrite, "ckpt.1/");
  prefix_disk_.SetHook(gate.hook());
  StartWith(2);
  const auto [first, second] = CopiedBehind(gate);
  gate.Open();
  EXPECT_TRUE(harness_.Quiesce());
  client_ = nullptr;
  harness_.Restart();
  for (DatasetId id : {first, second}) EXPECT_EQ(harness_.Wait(id, local::PREFIX).status().code(), local::OK);
}

// --- flush.scr ---

TEST_F(ParallelFlushTest, TheFlushFileFollowsADatasetThroughItsLife) {
  harness_.config.cache.keep = 0;
  harness_.config.ftiff.differential = false;
  StartWith(1);
  prefix_disk_.FailOn({.op = FakeOp::kWrite, .path_part = "ckpt.1/", .times = UINT64_MAX});
  const DatasetId first = Make(1);
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Warned("next try in"); }));
  prefix_disk_.ClearFaults();
  ASSERT_SAYS(client_->Wait(first, local::PREFIX), local::OK, "");
  EXPECT_TRUE(FlushFileSays(first, "CACHE PFS "));
  const DatasetId second = Make(2);
  ASSERT_SAYS(client_->Wait(second, local::PREFIX), local::OK, "");
  EXPECT_TRUE(FlushFileSays(first, "none"));  // it has left the cache
  EXPECT_TRUE(FlushFileSays(second, "CACHE PFS "));
}

TEST_F(ParallelFlushTest, WhatIsOnlyInTheCacheIsInTheFlushFileToo) {
  harness_.config.flush.superseded = false;
  StartWith(1);
  Config config = harness_.config;
  config.flush.every = 0;
  harness_.core().Reload(config);
  const DatasetId id = Make(1);
  EXPECT_TRUE(FlushFileSays(id, "CACHE "));
}

// As SCR's descriptors: whose it is, of which job, and the files that SCR would count.
TEST_F(ParallelFlushTest, IndexAndFlushFileDescribeADatasetAlike) {
  StartWith(1);
  const DatasetId id = Make(1);
  ASSERT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
  EXPECT_TRUE(FlushFileSays(id, "CACHE PFS "));
  const auto flush = ReadTree(prefix_disk_, harness_.prefix() + "/.scr/flush.scr");
  const auto index = ReadTree(prefix_disk_, harness_.prefix() + "/.scr/index.scr");
  ASSERT_TRUE(flush.ok() && index.ok());
  const auto flushed = scr::GetFlushEntries(*flush);
  const auto indexed = scr::GetIndex(*index);
  ASSERT_TRUE(flushed.ok() && indexed.ok());
  ASSERT_TRUE(flushed->at(id).descriptor.has_value());
  const scr::Descriptor& first = *flushed->at(id).descriptor;
  const scr::Descriptor& second = indexed->datasets.at(id).descriptor;
  EXPECT_EQ(first.files, second.files);
  EXPECT_EQ(first.bytes, second.bytes);
  EXPECT_EQ(first.user, second.user);
  EXPECT_EQ(first.job_id, second.job_id);
  EXPECT_FALSE(second.user.empty());
  EXPECT_TRUE(second.job_id.starts_with(BaseOf(harness_.prefix()) + "-")) << second.job_id;
}

TEST_F(ParallelFlushTest, AFlushFileThatCannotBeWrittenHoldsUpNothingLocal) {
  StartWith(1);
  Config config = harness_.config;
  config.flush.every = 0;
  harness_.core().Reload(config);
  prefix_disk_.FailOn({.op = FakeOp::kAny, .path_part = "flush.scr", .times = UINT64_MAX});
  Make(1);
  Make(2);
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Warned("flush.scr"); }));
  prefix_disk_.ClearFaults();
  const DatasetId third = Make(3);
  for (DatasetId id = 1; id <= third; ++id) EXPECT_TRUE(FlushFileSays(id, "CACHE ")) << id;
}

}  // namespace
}  // namespace cairn
