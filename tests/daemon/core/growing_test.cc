// Outputs whose BP5 directories go to the prefix while they grow.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"
#include "tests/support/growing_bp5.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class GrowingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    harness_.config.flush.follow_ms = 5;
    ASSERT_TRUE(harness_.Start().ok());
  }
  void Restart() {
    harness_.Stop();
    ASSERT_TRUE(harness_.Start().ok());
  }
  DatasetId Begin(Ranks& ranks, std::uint64_t step = 4) {
    DatasetId id = 0;
    for (auto& client : ranks.clients) {
      const local::Reply begun = client->OutputBegin(step, /*checkpoint=*/false, /*output=*/true, /*growing=*/true);
      EXPECT_SAYS(begun, local::OK, "");
      id = begun.output_begin().dataset();
    }
    return id;
  }
  // Its path in the cache.
  std::string Route(FakeClient& client, const std::string& name) {
    const local::Reply routed = client.RouteFile(name);
    EXPECT_SAYS(routed, local::OK, "");
    return routed.route_file().path();
  }
  std::unique_ptr<GrowingBp5> Job(const std::string& path, std::uint64_t seed = 1) {
    auto job = std::make_unique<GrowingBp5>(cache_disk_, path, seed);
    EXPECT_OK(job->Create(static_cast<std::uint32_t>(seed)));
    return job;
  }
  static void Write(GrowingBp5& job, std::uint32_t steps) {
    for (std::uint32_t i = 0; i < steps; ++i) ASSERT_OK(job.Step());
  }
  std::string There(const std::string& name) { return harness_.prefix() + "/" + name; }
  // Who reads on while steps are cut has those of the old md.idx: looked at again.
  std::uint32_t Shown(const std::string& name) {
    const auto index = [&] { return ReadWhole(prefix_disk_, There(name) + "/md.idx", 1 << 20).value_or(""); };
    std::string before = index();
    auto steps = WholeSteps(prefix_disk_, There(name));
    while (!steps.ok() && before != index()) {
      before = index();
      steps = WholeSteps(prefix_disk_, There(name));
    }
    EXPECT_TRUE(steps.ok() || absl::IsNotFound(steps.status())) << steps.status();
    return steps.value_or(0);
  }
  bool Shows(const std::string& name, std::uint32_t steps) {
    return harness_.Eventually([&] { return Shown(name) == steps; });
  }
  bool IsClosed(const std::string& name, std::uint32_t steps) {
    return harness_.Eventually(
        [&] { return Shown(name) == steps && steps > 0 && !IsActive(prefix_disk_, There(name)); });
  }
  void End(Ranks& ranks, bool valid = true) {
    for (auto& client : ranks.clients) EXPECT_SAYS(client->OutputEnd(valid), local::OK, "");
  }
  bool IsCommitted(DatasetId id) {
    return harness_.IsThere(prefix_disk_, There(".scr/scr.dataset." + std::to_string(id) + "/commit.cairn"));
  }

  FakeDisk cache_disk_, prefix_disk_;
  CoreHarness harness_{&cache_disk_, &prefix_disk_};
};

TEST_F(GrowingTest, StepsComeWhileItGrowsAndTheEndCommits) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = Begin(ranks);
  const std::string path = Route(ranks[0], "fields.bp/");
  Route(ranks[1], "fields.bp/");
  const auto job = Job(path);
  Write(*job, 2);
  EXPECT_TRUE(Shows("fields.bp", 2));
  EXPECT_TRUE(IsActive(prefix_disk_, There("fields.bp")));
  EXPECT_FALSE(IsCommitted(id));
  EXPECT_EQ(harness_.Row(id).level(), local::NONE);
  Write(*job, 1);
  EXPECT_TRUE(Shows("fields.bp", 3));
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.Row(id).growing_size() == 1; }));
  const admin::GrowingDirectory row = harness_.Row(id).growing(0);
  EXPECT_EQ(row.name(), "fields.bp");
  EXPECT_TRUE(harness_.Eventually([&] {
    const admin::DatasetRow now = harness_.Row(id);
    return now.growing_size() == 1 && now.growing(0).steps_complete() == 3 && now.growing(0).steps_flushed() == 3;
  }));
  const auto inode = prefix_disk_.Info(There("fields.bp/md.idx"))->inode;
  Write(*job, 1);
  ASSERT_OK(job->Close());
  End(ranks);
  ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  EXPECT_TRUE(IsClosed("fields.bp", 4));
  EXPECT_TRUE(IsCommitted(id));
  EXPECT_EQ(prefix_disk_.Info(There("fields.bp/md.idx"))->inode, inode);
  EXPECT_EQ(harness_.Row(id).growing_size(), 0);
  EXPECT_TRUE(harness_.Row(id).in_prefix());
}

TEST_F(GrowingTest, RoutedFilesAreADirectoryToo) {
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId id = Begin(ranks);
  std::string path;
  for (const char* name : {"md.idx", "md.0", "mmd.0", "data.0", "data.1"}) {
    path = ParentOf(Route(ranks[0], std::string("out/fields.bp/") + name));
  }
  const auto job = Job(path);
  Write(*job, 2);
  EXPECT_TRUE(Shows("out/fields.bp", 2));
  ASSERT_OK(job->Close());
  End(ranks);
  ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  EXPECT_TRUE(IsClosed("out/fields.bp", 2));
}

TEST_F(GrowingTest, DirectoriesBelowARoutedOneAreFollowedEach) {
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId id = Begin(ranks);
  const std::string path = Route(ranks[0], "out/");
  const auto a = Job(path + "/a.bp"), b = Job(path + "/sub/b.bp", 2);
  Write(*a, 1);
  Write(*b, 2);
  EXPECT_TRUE(Shows("out/a.bp", 1));
  EXPECT_TRUE(Shows("out/sub/b.bp", 2));
  End(ranks);
  ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
}

TEST_F(GrowingTest, AnOutputThatIsGivenUpLeavesItsStepsClosed) {
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId id = Begin(ranks);
  const auto job = Job(Route(ranks[0], "fields.bp/"));
  Write(*job, 3);
  EXPECT_TRUE(Shows("fields.bp", 3));
  End(ranks, /*valid=*/false);
  EXPECT_TRUE(IsClosed("fields.bp", 3));
  EXPECT_SAYS(ranks[0].Wait(id, local::LOCAL), local::FAILED, "");
  EXPECT_FALSE(IsCommitted(id));
  // The next one may have the place.
  const DatasetId next = Begin(ranks, 5);
  const auto again = Job(Route(ranks[0], "fields.bp/"), 2);
  Write(*again, 1);
  EXPECT_TRUE(harness_.Eventually([&] { return TagOf(prefix_disk_, There("fields.bp"), 0) == 2001; }));
  End(ranks);
  EXPECT_SAYS(ranks[0].Wait(next, local::PREFIX), local::OK, "");
}

TEST_F(GrowingTest, ALostRankLeavesTheStepsClosed) {
  Ranks ranks(harness_, 2, "job.1");
  Begin(ranks);
  const auto job = Job(Route(ranks[0], "fields.bp/"));
  Write(*job, 2);
  EXPECT_TRUE(Shows("fields.bp", 2));
  ranks[1].Drop();
  EXPECT_TRUE(IsClosed("fields.bp", 2));
}

TEST_F(GrowingTest, ADaemonThatStartsAnewClosesWhatTheOneBeforeHasLeft) {
  {
    Ranks ranks(harness_, 1, "job.1");
    Begin(ranks);
    const auto job = Job(Route(ranks[0], "fields.bp/"));
    Write(*job, 2);
    EXPECT_TRUE(Shows("fields.bp", 2));
    harness_.Stop();
  }
  EXPECT_TRUE(IsActive(prefix_disk_, There("fields.bp")));
  ASSERT_TRUE(harness_.Start().ok());
  EXPECT_TRUE(IsClosed("fields.bp", 2));
}

TEST_F(GrowingTest, WhatWasWholeInTheCacheIsFinishedByTheNextDaemon) {
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 1, "job.1");
    id = Begin(ranks);
    const auto job = Job(Route(ranks[0], "fields.bp/"));
    Write(*job, 2);
    EXPECT_TRUE(Shows("fields.bp", 2));
    Write(*job, 1);
    ASSERT_OK(job->Close());
    prefix_disk_.FailOn(
        {.op = FakeOp::kAny, .times = UINT64_MAX, .status = absl::UnavailableError("the prefix is out")});
    End(ranks);
    ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  }
  harness_.Stop();
  prefix_disk_.ClearFaults();
  const auto inode = prefix_disk_.Info(There("fields.bp/data.0"))->inode;
  ASSERT_TRUE(harness_.Start().ok());
  EXPECT_EQ(harness_.Wait(id, local::PREFIX).status().code(), local::OK);
  EXPECT_TRUE(IsClosed("fields.bp", 3));
  EXPECT_EQ(prefix_disk_.Info(There("fields.bp/data.0"))->inode, inode);
}

TEST_F(GrowingTest, AnOlderDatasetUnderTheNamesGivesWayBeforeTheFirstByte) {
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId old = Begin(ranks);
  const auto first = Job(Route(ranks[0], "fields.bp/"));
  Write(*first, 3);
  ASSERT_OK(first->Close());
  End(ranks);
  ASSERT_SAYS(ranks[0].Wait(old, local::PREFIX), local::OK, "");
  Begin(ranks, 5);
  const auto job = Job(Route(ranks[0], "fields.bp/"), 2);
  Write(*job, 1);
  EXPECT_TRUE(harness_.Eventually([&] { return TagOf(prefix_disk_, There("fields.bp"), 0) == 2001; }));
  EXPECT_FALSE(IsCommitted(old));
  EXPECT_TRUE(Shows("fields.bp", 1));
  EXPECT_TRUE(harness_.Warned("has replaced files of dataset"));
}

TEST_F(GrowingTest, NobodyGivesWayToADirectoryWithoutAStep) {
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId old = Begin(ranks);
  const auto first = Job(Route(ranks[0], "fields.bp/"));
  Write(*first, 3);
  ASSERT_OK(first->Close());
  End(ranks);
  ASSERT_SAYS(ranks[0].Wait(old, local::PREFIX), local::OK, "");
  const DatasetId failed = Begin(ranks, 5);
  const auto job = Job(Route(ranks[0], "fields.bp/"), 2);  // an index without a step
  const auto other = Job(Route(ranks[0], "other.bp/"), 3);
  Write(*other, 1);
  EXPECT_TRUE(Shows("other.bp", 1));  // so the daemon has looked
  EXPECT_TRUE(IsCommitted(old));
  End(ranks, /*valid=*/false);
  EXPECT_TRUE(IsClosed("other.bp", 1));
  EXPECT_TRUE(IsCommitted(old));
  EXPECT_FALSE(IsCommitted(failed));
  EXPECT_EQ(Shown("fields.bp"), 3);
}

// One dataset is whole in the cache, and its flush fails for once; before the next try a newer dataset has the name.
TEST_F(GrowingTest, ARetryTakesNothingThatANewerDatasetHasNow) {
  harness_.config.flush.retry_ms_min = harness_.config.flush.retry_ms_max = 1000;
  Restart();
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId one = Begin(ranks);
  const auto a = Job(Route(ranks[0], "a.bp/")), b = Job(Route(ranks[0], "b.bp/"), 2);
  const std::string gone = Route(ranks[0], "gone.bp/");
  const auto c = Job(gone, 3);
  for (GrowingBp5* job : {a.get(), b.get(), c.get()}) Write(*job, 2);
  for (const char* name : {"a.bp", "b.bp", "gone.bp"}) EXPECT_TRUE(Shows(name, 2));
  for (GrowingBp5* job : {a.get(), b.get(), c.get()}) ASSERT_OK(job->Close());
  for (const char* name : {"md.idx", "md.0", "mmd.0", "data.0", "data.1"}) {
    ASSERT_OK(cache_disk_.Remove(gone + "/" + name));
  }
  prefix_disk_.FailOn({.op = FakeOp::kAny, .path_part = "index.scr", .times = 1, .status = Unavailable("injected")});
  End(ranks);
  ASSERT_SAYS(ranks[0].Wait(one, local::LOCAL), local::OK, "");
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.Warned("failed, next try"); }));
  const DatasetId two = ranks[0].OutputBegin(5, /*checkpoint=*/false, /*output=*/true).output_begin().dataset();
  for (const auto& [name, seed] : {std::pair("a.bp/", 4), std::pair("gone.bp/", 5)}) {
    const auto job = Job(Route(ranks[0], name), static_cast<std::uint64_t>(seed));
    Write(*job, 3);
    ASSERT_OK(job->Close());
  }
  End(ranks);
  ASSERT_SAYS(ranks[0].Wait(two, local::PREFIX), local::OK, "");
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Warned("given up"); }));
  EXPECT_TRUE(IsClosed("b.bp", 2)) << "nobody else has it: its steps stay, closed";
  EXPECT_TRUE(IsCommitted(two));
  EXPECT_FALSE(IsCommitted(one));
  for (const char* name : {"a.bp", "gone.bp"}) EXPECT_EQ(Shown(name), 3u) << name;
}

// What is completed in place hangs: a newer dataset with files there waits for it, however long, and others do not.
TEST_F(GrowingTest, WhatIsCompletedInPlaceIsWaitedForByWhoHasFilesThere) {
  harness_.config.flush.stalled_ms = 200;
  harness_.config.flush.parallel = 3;
  Restart();
  const auto state_of = [this](DatasetId id) -> std::string {
    const admin::StatusReply status = harness_.Status();
    for (const admin::FlushStatus& flush : status.runs(0).flushes()) {
      if (flush.dataset() == id) return flush.state();
    }
    return "";
  };
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId first = Begin(ranks);
  const auto job = Job(Route(ranks[0], "fields.bp/"));
  Write(*job, 2);
  EXPECT_TRUE(Shows("fields.bp", 2));
  ASSERT_OK(job->Close());
  Gate gate(FakeOp::kSync, "fields.bp/");
  prefix_disk_.SetHook([pass = gate.hook(), at = There("fields.bp/data.0")](FakeOp op, const std::string& path) {
    if (path == at) pass(op, path);  // and not where others' files wait
  });
  End(ranks);
  gate.AwaitArrival();
  std::vector<DatasetId> later;
  for (const char* name : {"fields.bp/", "other.bp/"}) {
    later.push_back(ranks[0].OutputBegin(5 + later.size(), false, /*output=*/true).output_begin().dataset());
    const auto another = Job(Route(ranks[0], name), 4);
    Write(*another, 3);
    ASSERT_OK(another->Close());
    if (name == std::string("other.bp/")) {
      EXPECT_TRUE(harness_.Eventually([&] { return state_of(later[0]) == "copied"; }));
    }
    End(ranks);
  }
  EXPECT_SAYS(ranks[0].Wait(later[1], local::PREFIX), local::OK, "");
  EXPECT_EQ(state_of(first), "running");
  EXPECT_EQ(state_of(later[0]), "copied");
  EXPECT_FALSE(IsCommitted(later[0]));
  gate.Open();
  EXPECT_SAYS(ranks[0].Wait(later[0], local::PREFIX), local::OK, "");
  EXPECT_TRUE(IsCommitted(later[0]));
  EXPECT_EQ(Shown("fields.bp"), 3u);
}

TEST_F(GrowingTest, StepsThatTheApplicationCutsGoFromThePrefix) {
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId id = Begin(ranks);
  const auto job = Job(Route(ranks[0], "fields.bp/"));
  Write(*job, 5);
  EXPECT_TRUE(Shows("fields.bp", 5));
  ASSERT_OK(job->CutTo(2, /*seed=*/7));
  EXPECT_TRUE(Shows("fields.bp", 2));
  Write(*job, 1);
  EXPECT_TRUE(Shows("fields.bp", 3));
  EXPECT_EQ(TagOf(prefix_disk_, There("fields.bp"), 2), 7003u);
  ASSERT_OK(job->Close());
  End(ranks);
  ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  EXPECT_TRUE(IsClosed("fields.bp", 3));
}

TEST_F(GrowingTest, APrefixThatHangsHoldsUpNothingElse) {
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId id = Begin(ranks);
  const auto job = Job(Route(ranks[0], "fields.bp/"));
  Write(*job, 1);
  EXPECT_TRUE(Shows("fields.bp", 1));
  Gate gate(FakeOp::kAny, "fields.bp");
  prefix_disk_.SetHook(gate.hook());
  Write(*job, 1);
  gate.AwaitArrival();
  End(ranks);
  EXPECT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  const Memory memory = {PlainOf(2, RandomBytes(2, 100'000))};
  const local::Reply done = ranks[0].Checkpoint(6, memory);
  EXPECT_SAYS(done, local::OK, "");
  EXPECT_EQ(harness_.Flush(done.committed().dataset()).code(), local::OK);
  EXPECT_SAYS(ranks[0].Wait(done.committed().dataset(), local::PREFIX), local::OK, "");
  gate.Open();
  EXPECT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
}

TEST_F(GrowingTest, AFullPrefixIsToldOnceAndGrowsOnWhenThereIsRoom) {
  Ranks ranks(harness_, 1, "job.1");
  const DatasetId id = Begin(ranks);
  const auto job = Job(Route(ranks[0], "fields.bp/"));
  Write(*job, 1);
  EXPECT_TRUE(Shows("fields.bp", 1));
  prefix_disk_.FailOn({.op = FakeOp::kWrite,
                       .path_part = "fields.bp/data",
                       .times = UINT64_MAX,
                       .status = absl::ResourceExhaustedError("the disk is full")});
  Write(*job, 2);
  EXPECT_TRUE(harness_.Eventually([&] {
    const admin::DatasetRow row = harness_.Row(id);
    return row.growing_size() == 1 && row.growing(0).error().find("full") != std::string::npos;
  }));
  EXPECT_EQ(Shown("fields.bp"), 1u);
  prefix_disk_.ClearFaults();
  EXPECT_TRUE(Shows("fields.bp", 3));
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Row(id).growing(0).error().empty(); }));
}

TEST_F(GrowingTest, WithoutTheFlagNothingIsSeenBeforeTheEnd) {
  Ranks ranks(harness_, 1, "job.1");
  const local::Reply begun = ranks[0].OutputBegin(1, false, true);
  ASSERT_SAYS(begun, local::OK, "");
  const auto job = Job(Route(ranks[0], "fields.bp/"));
  Write(*job, 2);
  const DatasetId id = begun.output_begin().dataset();
  EXPECT_EQ(harness_.Row(id).growing_size(), 0);
  ASSERT_OK(job->Close());
  EXPECT_EQ(Shown("fields.bp"), 0u);
  End(ranks);
  EXPECT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  EXPECT_TRUE(IsClosed("fields.bp", 2));
}

}  // namespace
}  // namespace cairn
