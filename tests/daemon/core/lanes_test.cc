#include "daemon/core/lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace cairn {
namespace {

constexpr std::chrono::seconds kPatience(60);

// Jobs that hang until they are let go.
class Hung {
 public:
  std::function<void()> job() {
    return [state = state_] {
      std::unique_lock lock(state->mutex);
      ++state->begun;
      state->changed.notify_all();
      state->changed.wait(lock, [&] { return state->let_go; });
    };
  }
  bool AwaitBegun(int count) {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, kPatience, [&] { return state_->begun >= count; });
  }
  int begun() {
    const std::lock_guard lock(state_->mutex);
    return state_->begun;
  }
  void LetGo() {
    const std::lock_guard lock(state_->mutex);
    state_->let_go = true;
    state_->changed.notify_all();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int begun = 0;
    bool let_go = false;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

bool RunsIn(Lanes& lanes, const std::string& lane) {
  auto ran = std::make_shared<std::promise<void>>();
  lanes.Post(lane, [ran] { ran->set_value(); });
  return ran->get_future().wait_for(kPatience) == std::future_status::ready;
}

// A job that has told of its end is counted a moment longer.
bool BecomesIdle(const Lanes& lanes, const std::string& lane) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (lanes.BusySince().contains(lane)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(LanesTest, OneThatHangsHoldsUpNoOther) {
  Hung hung;
  const auto lanes = MakeLanes(2, 64);
  for (int i = 0; i < 10; ++i) lanes->Post("/bad", hung.job());
  ASSERT_TRUE(hung.AwaitBegun(2));
  for (const char* lane : {"/good", "/other", "/good"}) EXPECT_TRUE(RunsIn(*lanes, lane));
  EXPECT_EQ(hung.begun(), 2);  // it gets no more threads
  EXPECT_TRUE(lanes->BusySince().contains("/bad"));
  EXPECT_TRUE(BecomesIdle(*lanes, "/other"));
  hung.LetGo();
  EXPECT_TRUE(hung.AwaitBegun(10));
  EXPECT_TRUE(RunsIn(*lanes, "/bad"));
}

TEST(LanesTest, AwaitIdleWaitsForWhatWasPostedAndNamesThoseThatHang) {
  Hung hung;
  const auto lanes = MakeLanes(2, 64);
  EXPECT_EQ(lanes->AwaitIdle(kPatience), std::set<std::string>());
  lanes->Post("/bad", hung.job());
  ASSERT_TRUE(hung.AwaitBegun(1));
  auto ran = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < 100; ++i) lanes->Post("/good", [ran] { ++*ran; });
  EXPECT_EQ(lanes->AwaitIdle(std::chrono::milliseconds(1)), std::set<std::string>{"/bad"});
  hung.LetGo();
  EXPECT_EQ(lanes->AwaitIdle(kPatience), std::set<std::string>());
  EXPECT_EQ(*ran, 100);
}

// Nobody is there to begin what still waits.
TEST(LanesTest, AwaitIdleEndsWhenAllThreadsHang) {
  Hung hung;
  const auto lanes = MakeLanes(2, 2);
  for (const char* lane : {"/a", "/b", "/c"}) lanes->Post(lane, hung.job());
  ASSERT_TRUE(hung.AwaitBegun(2));
  EXPECT_EQ(lanes->AwaitIdle(std::chrono::milliseconds(1)), (std::set<std::string>{"/a", "/b"}));
  hung.LetGo();
}

// A thread that has been woken for one job is not there for the next.
TEST(LanesTest, WhatIsPostedInARowFindsThreads) {
  for (int round = 0; round < 200; ++round) {
    Hung hung;
    const auto lanes = MakeLanes(2, 64);
    EXPECT_TRUE(RunsIn(*lanes, "/first"));  // its thread is idle now, or will be
    lanes->Post("/bad", hung.job());
    EXPECT_TRUE(RunsIn(*lanes, "/good"));
    hung.LetGo();
  }
}

TEST(LanesTest, ThereAreNotMoreThreadsThanAllowed) {
  Hung hung;
  const auto lanes = MakeLanes(2, 3);
  for (const char* lane : {"/a", "/a", "/b", "/b"}) lanes->Post(lane, hung.job());
  ASSERT_TRUE(hung.AwaitBegun(3));
  EXPECT_EQ(hung.begun(), 3);
  hung.LetGo();
  EXPECT_TRUE(hung.AwaitBegun(4));
}

TEST(LanesTest, OneThreadOfALaneKeepsTheOrder) {
  std::vector<int> order;
  {
    const auto lanes = MakeLanes(1, 8);
    for (int i = 0; i < 100; ++i) lanes->Post("/a", [&order, i] { order.push_back(i); });
  }  // it runs what was posted
  std::vector<int> expected(100);
  for (int i = 0; i < 100; ++i) expected[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(order, expected);
}

TEST(LanesTest, WhatThrowsHarmsNothingElse) {
  const auto lanes = MakeLanes(1, 1);
  lanes->Post("/a", [] { throw std::runtime_error("of no use"); });
  EXPECT_TRUE(RunsIn(*lanes, "/a"));
  EXPECT_TRUE(RunsIn(*lanes, "/b"));
}

}  // namespace
}  // namespace cairn
