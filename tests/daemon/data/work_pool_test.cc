#include "daemon/data/work_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

void AwaitAJob(WorkPool& pool) {
  std::promise<void> ran;
  pool.Post([&ran] { ran.set_value(); });
  ran.get_future().wait();
}

std::future<Clock::time_point> WhenAJobBegins(WorkPool& pool) {
  auto begun = std::make_shared<std::promise<Clock::time_point>>();
  pool.Post([begun] { begun->set_value(Clock::now()); });
  return begun->get_future();
}

TEST(WorkPoolTest, NoJobBeginsOnACoreOnWhichAClientCopies) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(2, 2);
  WorkPool& pool = *owned;
  const Clock::time_point held = Clock::now();
  std::optional<WorkPool::Hold> first(pool.HoldForClient());
  std::optional<WorkPool::Hold> second(pool.HoldForClient());
  WorkPool::Hold third(std::move(*second));
  second.reset();  // moved from: lets go of nothing
  std::future<Clock::time_point> begins = WhenAJobBegins(pool);
  begins.wait_for(std::chrono::milliseconds(50));
  const Clock::time_point released = Clock::now();
  first.reset();
  EXPECT_GE(begins.get(), std::min(released, held + WorkPool::kHoldsBackFor));
}

TEST(WorkPoolTest, AJobBeginsAsSoonAsTheClientHasCopied) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(1, 1);
  int at_once = 0;
  for (int i = 0; i < 10; ++i) {
    std::optional<WorkPool::Hold> hold(owned->HoldForClient());
    std::future<Clock::time_point> begins = WhenAJobBegins(*owned);
    const Clock::time_point posted = Clock::now();
    begins.wait_for(WorkPool::kHoldsBackFor / 4);  // until the thread waits
    hold.reset();
    if (begins.get() < posted + WorkPool::kHoldsBackFor * 3 / 4) ++at_once;
  }
  EXPECT_GT(at_once, 0);
}

TEST(WorkPoolTest, JobsHaveTheCoresOnWhichNobodyCopies) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(2, 2);
  WorkPool& pool = *owned;
  std::latch blocking(1);
  const Clock::time_point held = Clock::now();
  std::optional<WorkPool::Hold> hold(pool.HoldForClient());
  std::promise<void> begun;
  pool.Post([&] {
    begun.set_value();
    blocking.wait();
  });
  begun.get_future().wait();
  std::future<Clock::time_point> begins = WhenAJobBegins(pool);
  begins.wait_for(std::chrono::milliseconds(50));
  const Clock::time_point released = Clock::now();
  hold.reset();
  EXPECT_GE(begins.get(), std::min(released, held + WorkPool::kHoldsBackFor));
  blocking.count_down();
}

// One hold is alive at all times, and none is old.
class Clients {
 public:
  explicit Clients(WorkPool& pool)
      : holds_(pool.HoldForClient()), thread_([this, &pool] {
          while (!ended_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            std::optional<WorkPool::Hold> next(pool.HoldForClient());
            holds_.reset();
            holds_.emplace(std::move(*next));
          }
        }) {}
  ~Clients() {
    ended_ = true;
    thread_.join();
  }

 private:
  std::optional<WorkPool::Hold> holds_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

TEST(WorkPoolTest, ClientsThatFollowEachOtherHoldAJobBackForAMomentOnly) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(1, 1);
  const Clients clients(*owned);
  for (int i = 0; i < 3; ++i) AwaitAJob(*owned);  // else this never ends
}

TEST(WorkPoolTest, OneClientHoldsNothingBackWhereThereAreMoreCores) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(2, 4);
  const Clients clients(*owned);  // one or two at a time
  int at_once = 0;
  for (int i = 0; i < 10; ++i) {
    const Clock::time_point before = Clock::now();
    if (WhenAJobBegins(*owned).get() < before + WorkPool::kHoldsBackFor) ++at_once;
  }
  EXPECT_GT(at_once, 0);
}

TEST(WorkPoolTest, AClientThatHasStoppedKeepsJobsForAMomentOnly) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(1, 1);
  WorkPool& pool = *owned;
  const Clock::time_point before = Clock::now();
  const WorkPool::Hold stopped = pool.HoldForClient();
  EXPECT_GE(WhenAJobBegins(pool).get(), before + WorkPool::kHoldsBackFor);
  AwaitAJob(pool);
  {
    const Clock::time_point again = Clock::now();
    const WorkPool::Hold another = pool.HoldForClient();
    EXPECT_GE(WhenAJobBegins(pool).get(), again + WorkPool::kHoldsBackFor) << "one beside it has its own moment";
  }
}

// Behind an application that computes on all cores such a thread stops, with whatever it holds.
TEST(WorkPoolTest, NoThreadIsOfIdlePriority) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(1, 1);
  WorkPool& pool = *owned;
  const WorkPool::Hold hold = pool.HoldForClient();
  std::promise<int> of_job, of_waiting;
  pool.Post([&of_job] { of_job.set_value(sched_getscheduler(0)); });
  pool.PostWaiting([&of_waiting] { of_waiting.set_value(sched_getscheduler(0)); });
  EXPECT_EQ(of_waiting.get_future().get(), SCHED_OTHER);
  EXPECT_EQ(of_job.get_future().get(), SCHED_OTHER);
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
  AwaitAJob(pool);
  for (std::size_t i = 0; i < WorkPool::kWaitersMax; ++i) pool.PostWaiting([] { throw std::runtime_error("a disk"); });
  std::promise<void> ran;
  pool.PostWaiting([&ran] { ran.set_value(); });
  ran.get_future().wait();
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
  AwaitAJob(pool);
  {
    const WorkPool::Hold hold = pool.HoldForClient();
    std::promise<void> waited;
    disk.count_down();
    pool.PostWaiting([&waited] { waited.set_value(); });
    waited.get_future().wait();  // it costs a client nothing
  }
  EXPECT_LE(most, WorkPool::kWaitersMax);
}

TEST(WorkPoolTest, HasAtLeastOneThreadOfEachKind) {
  const std::unique_ptr<WorkPool> owned = MakeWorkPool(0);
  WorkPool& pool = *owned;
  EXPECT_EQ(pool.threads(), 1u);
  AwaitAJob(pool);
}

}  // namespace
}  // namespace cairn
