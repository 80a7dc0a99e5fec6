// By what the supervisor is told that a worker is needed.
#include "daemon/worker_link.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {
namespace {

admin::StatusReply Idle() {
  admin::StatusReply status;
  status.set_cache_bytes_used(5 << 20);
  status.set_cache_bytes_max(9 << 20);
  status.add_runs();
  status.add_runs()->set_newest_step(7);
  return status;
}

TEST(CountersOfTest, AWorkerWhoseCacheOnlyHasWhatIsElsewhereIsIdle) {
  for (const bool linked : {false, true}) {
    const WorkerCounters counters = CountersOf(Idle(), /*connections=*/0, linked);
    EXPECT_EQ(counters.busy, 0u) << linked;
    EXPECT_EQ(counters.runs, 2u);
    EXPECT_EQ(counters.cache_bytes_used, 5u << 20);
  }
}

TEST(CountersOfTest, WhatIsOnlyHereIsNeededByThoseWhoCanReachIt) {
  admin::StatusReply status = Idle();
  status.mutable_runs(1)->set_only_here(1);
  EXPECT_EQ(CountersOf(status, 0, /*linked=*/true).busy, 1u);
  EXPECT_EQ(CountersOf(status, 0, /*linked=*/false).busy, 0u);
}

TEST(CountersOfTest, AllThatIsUnderWayIsNeeded) {
  using Change = std::function<void(admin::StatusReply&)>;
  const std::vector<std::pair<std::string, Change>> all = {
      {"a session", [](auto& status) { status.mutable_runs(0)->set_sessions(1); }},
      {"a flush", [](auto& status) { status.mutable_runs(0)->add_flushes(); }},
      {"an output that grows", [](auto& status) { status.mutable_runs(0)->add_growing(); }},
      {"redundancy", [](auto& status) { status.mutable_runs(0)->set_at_work(1); }},
      {"a prefix that hangs", [](auto& status) { status.add_hung(); }},
      {"its end", [](auto& status) { status.set_quiescing(true); }},
      {"a drain that brings", [](auto& status) { status.add_drains()->set_state("bringing"); }},
      {"the first look", [](auto& status) { status.add_drains()->set_state("looking"); }},
      {"files that settle", [](auto& status) { status.add_drains()->set_state("settling"); }},
  };
  for (const auto& [what, change] : all) {
    admin::StatusReply status = Idle();
    change(status);
    EXPECT_EQ(CountersOf(status, 0, /*linked=*/false).busy, 1u) << what;
  }
  EXPECT_EQ(CountersOf(Idle(), /*connections=*/1, false).busy, 1u);
}

TEST(CountersOfTest, DrainsAreCountedAndOneThatCannotGoOnHoldsNoWorker) {
  admin::StatusReply status = Idle();
  for (const char* state : {"starting", "looking", "waiting", "idle", "ending", "failed", "ended"}) {
    admin::DrainStatus& drain = *status.add_drains();
    drain.set_state(state);
    drain.set_trouble("no news, only looks");
    drain.set_bytes_left(5);
    drain.set_passed_us(1);
  }
  WorkerCounters counters = CountersOf(status, 0, false);
  EXPECT_EQ(counters.busy, 0u);
  EXPECT_EQ(counters.drains, 7u);
  EXPECT_EQ(counters.drains_failing, 2u);
  EXPECT_EQ(counters.drain_bytes_left, 35u);
  status.mutable_drains(3)->set_failed(1);
  counters = CountersOf(status, 0, false);
  EXPECT_EQ(counters.drains_failing, 3u);
}

}  // namespace
}  // namespace cairn
