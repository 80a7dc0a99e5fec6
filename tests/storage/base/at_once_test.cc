#include "storage/base/at_once.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <latch>
#include <set>
#include <thread>
#include <vector>

namespace cairn {
namespace {

TEST(EachAtOnceTest, EachNumberOnceAndAllHaveEnded) {
  std::vector<std::atomic<int>> calls(100);
  EachAtOnce(calls.size(), 4, [&](std::size_t i) {
    ++calls[i];
    return true;
  });
  for (const auto& count : calls) EXPECT_EQ(count, 1);
}

TEST(EachAtOnceTest, SoManyAtTheSameTimeAndNoMore) {
  std::atomic<int> came{0}, now{0}, most{0};
  std::latch three{3};
  EachAtOnce(30, 3, [&](std::size_t) {
    const int here = ++now;
    for (int seen = most; seen < here && !most.compare_exchange_weak(seen, here);) {
    }
    if (++came <= 3) three.arrive_and_wait();  // for ever, if they came one after the other
    --now;
    return true;
  });
  EXPECT_EQ(most, 3);
}

TEST(EachAtOnceTest, OneAtATimeIsTheCallingThreadInOrder) {
  std::vector<std::size_t> order;
  std::set<std::thread::id> threads;
  EachAtOnce(5, 1, [&](std::size_t i) {
    order.push_back(i);
    threads.insert(std::this_thread::get_id());
    return true;
  });
  EXPECT_EQ(order, std::vector<std::size_t>({0, 1, 2, 3, 4}));
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST(EachAtOnceTest, OnceOneHasSaidNoNoneBegins) {
  std::vector<std::size_t> begun;
  EachAtOnce(5, 1, [&](std::size_t i) {
    begun.push_back(i);
    return i != 2;
  });
  EXPECT_EQ(begun, std::vector<std::size_t>({0, 1, 2}));
}

TEST(EachAtOnceTest, OfNothingNothing) {
  EachAtOnce(0, 4, [](std::size_t) {
    ADD_FAILURE();
    return true;
  });
}

}  // namespace
}  // namespace cairn
