#include "client/library/copiers.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kPassed = 0;

struct Copied {
  explicit Copied(std::size_t pieces) : times(pieces) {}
  std::vector<std::atomic<int>> times;
  std::mutex mutex;
  std::set<pthread_t> threads;
  std::chrono::microseconds each{0};
  bool takes_signals = false;  // some thread but the caller

  lc_pieces Pieces(std::size_t from, std::size_t to, std::int64_t deadline = kNever) {
    return {.copy = &Copied::Copy, .context = this, .from = from, .to = to, .deadline = deadline};
  }
  static void Copy(void* context, std::size_t index) {
    auto& copied = *static_cast<Copied*>(context);
    ++copied.times[index];
    if (copied.each.count() > 0) std::this_thread::sleep_for(copied.each);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    const std::lock_guard lock(copied.mutex);
    copied.threads.insert(pthread_self());
    if (pthread_self() != copied.caller && sigismember(&blocked, SIGUSR1) != 1) copied.takes_signals = true;
  }
  const pthread_t caller = pthread_self();
};

TEST(CopiersTest, EachPieceIsCopiedOnceHoweverManyThreadsThereAre) {
  for (const unsigned threads : {0u, 1u, 2u, 7u, 64u, 1000u}) {
    Copied copied(500);
    const lc_pieces pieces = copied.Pieces(3, 490);
    EXPECT_EQ(lc_copy_pieces(&pieces, threads), 490u);
    for (std::size_t i = 0; i < copied.times.size(); ++i) EXPECT_EQ(copied.times[i], i >= 3 && i < 490 ? 1 : 0) << i;
    EXPECT_TRUE(threads > 1 || copied.threads == std::set<pthread_t>({pthread_self()}));
  }
}

TEST(CopiersTest, SeveralThreadsWorkAtOnceAndLeaveTheApplicationsSignalsAlone) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  Copied copied(12);
  copied.each = std::chrono::milliseconds(20);
  const lc_pieces pieces = copied.Pieces(0, 12);
  EXPECT_EQ(lc_copy_pieces(&pieces, 3), 12u);
  EXPECT_EQ(copied.threads.size(), 3u);
  EXPECT_FALSE(copied.takes_signals);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGUSR1), sigismember(&after, SIGUSR1));
}

TEST(CopiersTest, NothingIsBegunAfterTheDeadlineAndNoGapIsLeft) {
  Copied late(10);
  const lc_pieces none = late.Pieces(4, 10, kPassed);
  EXPECT_EQ(lc_copy_pieces(&none, 4), 4u);
  for (const auto& times : late.times) EXPECT_EQ(times, 0);

  Copied copied(100'000);
  copied.each = std::chrono::milliseconds(1);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const lc_pieces pieces =
      copied.Pieces(0, copied.times.size(), now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec + 50'000'000);
  const std::size_t end = lc_copy_pieces(&pieces, 3);
  EXPECT_LT(end, copied.times.size());
  for (std::size_t i = 0; i < copied.times.size(); ++i) ASSERT_EQ(copied.times[i], i < end ? 1 : 0) << i;
}

}  // namespace
