#include "storage/job/drain/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace cairn::drain {
namespace {

using Step = Windows::Step;

Step Write(std::size_t window) {
  return {.what = Step::What::kWrite, .window = window};
}
Step ReadBack(std::size_t window) {
  return {.what = Step::What::kReadBack, .window = window};
}

TEST(WindowsTest, APartIsReadBackOnceItIsSyncedWhileTheNextOneIsWritten) {
  Windows windows({.windows = 5, .per_part = 2, .readers_max = 1});
  EXPECT_EQ(windows.parts(), 3U);
  EXPECT_EQ(windows.Next(), Write(0));
  EXPECT_EQ(windows.Next(), Write(1));
  windows.Done(Write(1));
  windows.Done(Write(0));
  EXPECT_TRUE(windows.AwaitWritten(0));
  EXPECT_EQ(windows.Next(), Write(2)) << "written is not synced";
  windows.Synced(0);
  EXPECT_EQ(windows.Next(), ReadBack(0));
  EXPECT_EQ(windows.Next(), Write(3)) << "one reads back, the others write";
  windows.Done(ReadBack(0));
  EXPECT_EQ(windows.Next(), ReadBack(1));
  windows.Done(ReadBack(1));
  EXPECT_EQ(windows.Next(), Write(4)) << "the next part is not synced";
  for (const std::size_t window : {2, 3, 4}) windows.Done(Write(window));
  EXPECT_TRUE(windows.AwaitWritten(1));
  windows.Synced(1);
  EXPECT_TRUE(windows.AwaitWritten(2));
  windows.Synced(2);
  // Nothing is left to write: all read back.
  for (const std::size_t window : {2, 3, 4}) EXPECT_EQ(windows.Next(), ReadBack(window));
  EXPECT_EQ(windows.Next(), std::nullopt);
}

TEST(WindowsTest, WhatIsNotReadBackIsOnlyWritten) {
  Windows windows({.windows = 3, .per_part = 1, .read_back = false});
  for (const std::size_t window : {0, 1, 2}) {
    EXPECT_EQ(windows.Next(), Write(window));
    windows.Done(Write(window));
    EXPECT_TRUE(windows.AwaitWritten(window));
    windows.Synced(window);
  }
  EXPECT_EQ(windows.Next(), std::nullopt);
}

TEST(WindowsTest, AFileWithoutDataHasOnePartWithNothingInIt) {
  Windows windows({.windows = 0, .per_part = 8});
  EXPECT_EQ(windows.parts(), 1U);
  EXPECT_EQ(windows.Next(), std::nullopt);
  EXPECT_TRUE(windows.AwaitWritten(0));
  windows.Synced(0);
  EXPECT_EQ(windows.Next(), std::nullopt);
}

TEST(WindowsTest, NobodyWaitsWhenItIsOverAndNothingIsBegun) {
  Windows windows({.windows = 2, .per_part = 2});
  EXPECT_EQ(windows.Next(), Write(0));
  EXPECT_EQ(windows.Next(), Write(1));
  std::thread worker([&] { EXPECT_EQ(windows.Next(), std::nullopt); });
  std::thread syncer([&] { EXPECT_FALSE(windows.AwaitWritten(0)); });
  while (windows.waiting() < 2) std::this_thread::yield();
  windows.End();
  worker.join();
  syncer.join();
  EXPECT_EQ(windows.Next(), std::nullopt);
  Windows begun({.windows = 2, .per_part = 1});
  begun.End();
  EXPECT_EQ(begun.Next(), std::nullopt) << "though there is something to write";
}

TEST(WindowsTest, AnyNumberOfWorkersWriteAndReadBackEachWindowOnceAndInItsTime) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = random() % 40, per_part = random() % 9 + 1, workers = random() % 5 + 1;
    SCOPED_TRACE(::testing::Message() << count << " windows, " << per_part << " a part, " << workers << " workers");
    Windows windows({.windows = count, .per_part = per_part, .readers_max = std::max<std::size_t>(workers / 2, 1)});
    std::vector<std::atomic<int>> written(count), read(count), synced(windows.parts());
    std::vector<std::thread> threads;
    for (std::size_t worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&] {
        while (const auto step = windows.Next()) {
          const bool writes = step->what == Step::What::kWrite;
          if (!writes) {
            EXPECT_EQ(synced[step->window / per_part], 1);
          }
          ++(writes ? written : read)[step->window];
          windows.Done(*step);
        }
      });
    }
    for (std::size_t part = 0; part < windows.parts(); ++part) {
      EXPECT_TRUE(windows.AwaitWritten(part));
      for (std::size_t at = part * per_part; at < std::min((part + 1) * per_part, count); ++at) {
        EXPECT_EQ(written[at], 1);
      }
      synced[part] = 1;
      windows.Synced(part);
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t at = 0; at < count; ++at) EXPECT_EQ(written[at] + 10 * read[at], 11) << at;
  }
}

}  // namespace
}  // namespace cairn::drain
