#include "daemon/data/work_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace cairn {
namespace {

int PolicyOfNextJob(WorkPool& pool) {
  std::promise<int> policy;
  pool.Post([&policy] { policy.set_value(sched_getscheduler(0)); });
  return policy.get_future().get();
}

TEST(WorkPoolTest, OnlyIdleThreadsTakeJobsWhileAClientCopies) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(2);
  WorkPool& pool = *owned;
  EXPECT_EQ(PolicyOfNextJob(pool), SCHED_OTHER);
  {
    const WorkPool::Hold hold = pool.HoldForClient();
    EXPECT_EQ(PolicyOfNextJob(pool), SCHED_IDLE);
    std::optional<WorkPool::Hold> second(pool.HoldForClient());
    WorkPool::Hold third(std::move(*second));
    second.reset();  // moved from: lets go of nothing
    EXPECT_EQ(PolicyOfNextJob(pool), SCHED_IDLE);
  }
  EXPECT_EQ(PolicyOfNextJob(pool), SCHED_OTHER);
}

TEST(WorkPoolTest, WhatIsNotUrgentGivesWayToAClientUntilItHasCopied) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(1);
  WorkPool& pool = *owned;
  std::atomic<bool> hurry(false);
  std::chrono::milliseconds patience = std::chrono::hours(1);
  pool.GiveWayToClients(hurry, patience);  // nobody copies
  EXPECT_EQ(patience, std::chrono::hours(1));
  std::optional<WorkPool::Hold> hold(pool.HoldForClient());
  std::chrono::milliseconds little(30);
  pool.GiveWayToClients(hurry, little);
  EXPECT_LE(little.count(), 0) << "it has waited for as long as it may";
  std::promise<void> begun, first;
  std::future<void> first_on = first.get_future();
  pool.PostWaiting([&] {
    begun.set_value();
    pool.GiveWayToClients(hurry, patience);
    first.set_value();
  });
  begun.get_future().wait();
  EXPECT_EQ(first_on.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  hurry = true;  // somebody waits for it
  first_on.wait();
  EXPECT_LT(patience, std::chrono::hours(1));
  hurry = false;
  std::promise<void> second;
  pool.PostWaiting([&] {
    pool.GiveWayToClients(hurry, patience);
    second.set_value();
  });
  hold.reset();
  second.get_future().wait();
}

TEST(WorkPoolTest, AJobThatThrowsEndsNoThread) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(1);
  WorkPool& pool = *owned;
  pool.Post([] { throw std::bad_alloc(); });
  EXPECT_EQ(PolicyOfNextJob(pool), SCHED_OTHER);
  for (std::size_t i = 0; i < WorkPool::kWaitersMax; ++i) pool.PostWaiting([] { throw std::runtime_error("a disk"); });
  std::promise<void> ran;
  pool.PostWaiting([&ran] { ran.set_value(); });
  ran.get_future().wait();
}

TEST(WorkPoolTest, AJobThatWaitedForTheClientRunsAtOrdinaryPriorityOnceItHasCopied) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(1);
  WorkPool& pool = *owned;
  std::optional<WorkPool::Hold> hold(pool.HoldForClient());
  std::latch blocking(1);
  std::promise<void> begun;
  pool.Post([&] {
    begun.set_value();
    blocking.wait();
  });
  begun.get_future().wait();  // the one idle thread is taken
  std::promise<int> policy;
  pool.Post([&policy] { policy.set_value(sched_getscheduler(0)); });
  hold.reset();
  EXPECT_EQ(policy.get_future().get(), SCHED_OTHER);
  blocking.count_down();
}

TEST(WorkPoolTest, AJobThatIsOnAnIdleThreadWhenTheClientHasCopiedIsRescued) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(1);
  WorkPool& pool = *owned;
  std::latch blocking(1);
  std::promise<void> begun;
  std::promise<int> rescued;
  {
    const WorkPool::Hold hold = pool.HoldForClient();
    pool.Post(
        [&] {
          begun.set_value();
          blocking.wait();
        },
        [&rescued] { rescued.set_value(sched_getscheduler(0)); });
    begun.get_future().wait();
    const WorkPool::Hold second = pool.HoldForClient();
  }
  EXPECT_EQ(rescued.get_future().get(), SCHED_OTHER);
  blocking.count_down();
}

TEST(WorkPoolTest, AJobThatHasEndedOrRunsAtOrdinaryPriorityNeedsNoRescue) {
  std::atomic<int> rescues{0};
  {
    const std::unique_ptr<WorkPool> owned = MakeWorkPool(1);
    WorkPool& pool = *owned;
    std::latch blocking(1);
    std::promise<void> begun;
    pool.Post(
        [&] {
          begun.set_value();
          blocking.wait();
        },
        [&rescues] { ++rescues; });
    begun.get_future().wait();
    {
      const WorkPool::Hold hold = pool.HoldForClient();
      std::promise<void> ended;
      pool.Post([&ended] { ended.set_value(); }, [&rescues] { ++rescues; });
      ended.get_future().wait();
      PolicyOfNextJob(pool);  // the one idle thread has done with the job before
    }
    blocking.count_down();
  }
  EXPECT_EQ(rescues, 0);
}

TEST(WorkPoolTest, TheDestructorRunsWhatWasPostedAndWhatThatPosts) {
  std::atomic<int> ran{0};
  {
    const std::unique_ptr<WorkPool> owned = MakeWorkPool(2);
    WorkPool& pool = *owned;
    for (int i = 0; i < 100; ++i) {
      pool.Post([&pool, &ran] {
        ++ran;
        pool.PostWaiting([&pool, &ran] {
          ++ran;
          pool.Post([&ran] { ++ran; });
        });
      });
    }
  }
  EXPECT_EQ(ran, 300);
}

TEST(WorkPoolTest, JobsThatWaitForADiskKeepNoneFromHashing) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(1);
  WorkPool& pool = *owned;
  std::latch disk(1);
  std::atomic<std::size_t> waiting{0}, most{0};
  for (std::size_t i = 0; i < 2 * WorkPool::kWaitersMax; ++i) {
    pool.PostWaiting([&] {
      const std::size_t now = ++waiting;
      for (std::size_t before = most; before < now && !most.compare_exchange_weak(before, now);) {
      }
      disk.wait();
      --waiting;
    });
  }
  EXPECT_EQ(PolicyOfNextJob(pool), SCHED_OTHER);
  {
    const WorkPool::Hold hold = pool.HoldForClient();
    EXPECT_EQ(PolicyOfNextJob(pool), SCHED_IDLE);
    std::promise<int> policy;
    disk.count_down();
    pool.PostWaiting([&policy] { policy.set_value(sched_getscheduler(0)); });
    EXPECT_EQ(policy.get_future().get(), SCHED_OTHER) << "waiting costs a client nothing";
  }
  EXPECT_LE(most, WorkPool::kWaitersMax);
}

TEST(WorkPoolTest, HasAtLeastOneThreadOfEachKind) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(0);
  WorkPool& pool = *owned;
  EXPECT_EQ(pool.threads(), 1u);
  EXPECT_EQ(PolicyOfNextJob(pool), SCHED_OTHER);
}

}  // namespace
}  // namespace cairn
