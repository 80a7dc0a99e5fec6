// The strand and the pools.
#include "daemon/core/loop.h"

#include <absl/status/statusor.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cairn {
namespace {

constexpr std::chrono::seconds kPatience(60);

// Runs `job` on the strand and waits for it.
template <typename Job>
void OnStrand(Loop& loop, Job job) {
  std::promise<void> done;
  loop.Post([&] {
    job();
    done.set_value();
  });
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(LoopTest, RunsInOrderOnOneThreadNeverWithinTheCall) {
  const auto loop = MakeThreadLoop();
  std::vector<int> order;
  std::thread::id thread;
  EXPECT_FALSE(loop->InStrand());
  OnStrand(*loop, [&] {
    thread = std::this_thread::get_id();
    loop->Post([&] { order.push_back(2); });
    order.push_back(1);
    EXPECT_TRUE(loop->InStrand());
  });
  OnStrand(*loop, [&] {
    order.push_back(3);
    EXPECT_EQ(std::this_thread::get_id(), thread);
  });
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(LoopTest, RunReturnsWhenTheJobHasRun) {
  const auto loop = MakeThreadLoop();
  std::vector<int> order;
  loop->Post([&] { order.push_back(1); });
  loop->Run([&] {
    EXPECT_TRUE(loop->InStrand());
    order.push_back(2);
  });
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(LoopTest, WhatThrowsFailsAloneAndTheNextJobRuns) {
  const auto loop = MakeThreadLoop();
  loop->Post([] { throw std::runtime_error("a bad step"); });
  loop->Run([] { throw std::bad_alloc(); });  // it returns
  bool ran = false;
  OnStrand(*loop, [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(PoolTest, WhatThrowsIsAResultThatHasFailed) {
  const auto loop = MakeThreadLoop();
  const auto pool = MakeBlockingPool(1);
  std::promise<absl::Status> result;
  RunBlocking(
      *pool, *loop, []() -> absl::Status { throw std::bad_alloc(); },
      [&](const absl::Status& status) { result.set_value(status); });
  auto answer = result.get_future();
  ASSERT_EQ(answer.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(answer.get().code(), absl::StatusCode::kResourceExhausted);
}

TEST(LoopTest, TimersRunOnceInTheOrderOfTheirTimes) {
  const auto loop = MakeThreadLoop();
  std::vector<int> order;
  std::promise<void> last;
  OnStrand(*loop, [&] {
    const auto begun = std::chrono::steady_clock::now();
    loop->After(std::chrono::milliseconds(20), [&, begun] {
      order.push_back(2);
      EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(20));
      last.set_value();
    });
    loop->After(std::chrono::milliseconds(1), [&] { order.push_back(1); });
  });
  ASSERT_EQ(last.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(LoopTest, ACancelledTimerDoesNotRun) {
  const auto loop = MakeThreadLoop();
  std::promise<void> later;
  OnStrand(*loop, [&] {
    const Loop::TimerId first = loop->After(std::chrono::milliseconds(1), [] { FAIL() << "cancelled"; });
    loop->Cancel(first);
    loop->Cancel(first);
    loop->Cancel(4711);
    loop->After(std::chrono::milliseconds(5), [&] { later.set_value(); });
  });
  ASSERT_EQ(later.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(LoopTest, ATimerRunsAfterWhatWasPostedBeforeItWasDue) {
  const auto loop = MakeThreadLoop();
  std::vector<int> order;
  std::promise<void> last;
  OnStrand(*loop, [&] {
    loop->After(std::chrono::milliseconds(1), [&] {
      order.push_back(2);
      last.set_value();
    });
    loop->Post([&] { order.push_back(1); });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  ASSERT_EQ(last.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(LoopTest, ATimerThatIsDueCanStillBeCancelled) {
  const auto loop = MakeThreadLoop();
  Loop::TimerId timer = 0;
  OnStrand(*loop, [&] {
    timer = loop->After(std::chrono::milliseconds(1), [] { FAIL() << "cancelled"; });
    loop->Post([&] { loop->Cancel(timer); });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  OnStrand(*loop, [] {});
  OnStrand(*loop, [] {});
}

TEST(LoopTest, AfterStopNothingRuns) {
  const auto loop = MakeThreadLoop();
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  loop->Stop();
  loop->Post([held = std::move(held)] { FAIL() << "stopped"; });
  loop->Stop();
  EXPECT_FALSE(watched.expired());
}

TEST(LoopTest, WhatHasNotRunIsLetGoOfAtTheEnd) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  {
    const auto loop = MakeThreadLoop();
    OnStrand(*loop, [&] { loop->After(std::chrono::hours(1), [held = std::move(held)] { FAIL() << "an hour?"; }); });
  }
  EXPECT_TRUE(watched.expired());
}

// Posts itself again as it is let go of, as often as it is told.
class PostsWhenItGoes {
 public:
  PostsWhenItGoes(Loop& loop, int times, int& gone) : loop_(loop), times_(times), gone_(gone) {}
  ~PostsWhenItGoes() {
    ++gone_;
    if (times_ == 0) return;
    auto next = std::make_shared<PostsWhenItGoes>(loop_, times_ - 1, gone_);
    loop_.Post([next = std::move(next)] { FAIL() << "stopped"; });
  }
  PostsWhenItGoes(const PostsWhenItGoes&) = delete;

 private:
  Loop& loop_;
  const int times_;
  int& gone_;
};

TEST(LoopTest, WhatIsPostedWhileTheRestIsLetGoOfGoes) {
  int gone = 0;
  {
    const auto loop = MakeThreadLoop();
    loop->Stop();
    auto first = std::make_shared<PostsWhenItGoes>(*loop, 3, gone);
    loop->Post([first = std::move(first)] { FAIL() << "stopped"; });
  }
  EXPECT_EQ(gone, 4);
}

TEST(BlockingPoolTest, RunsAllThatWasPostedBeforeItEnds) {
  std::atomic<int> ran = 0;
  {
    const auto pool = MakeBlockingPool(3);
    for (int i = 0; i < 100; ++i) pool->Post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

TEST(BlockingPoolTest, AResultComesBackOnTheStrand) {
  const auto loop = MakeThreadLoop();
  const auto pool = MakeBlockingPool(1);
  std::promise<std::string> result;
  RunBlocking(
      *pool, *loop,
      [&]() -> absl::StatusOr<std::unique_ptr<std::string>> {
        EXPECT_FALSE(loop->InStrand());
        return std::make_unique<std::string>("from the pool");
      },
      [&](absl::StatusOr<std::unique_ptr<std::string>> text) {
        EXPECT_TRUE(loop->InStrand());
        result.set_value(**text);
      });
  std::future<std::string> future = result.get_future();
  ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(future.get(), "from the pool");
}

}  // namespace
}  // namespace cairn
