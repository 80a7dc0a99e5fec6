// What of a capture is written next, where its file is an old one that is written over in full.
#include "daemon/data/write_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "daemon/data/plan.h"
#include "daemon/data/window_table.h"
#include "storage/base/transfer_shape.h"
#include "tests/daemon/data/data_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr TransferShape kSmall{.bytes = TransferShape::kBytesMin, .depth = 4};

// Through a ring of two windows.
class OldFileTest : public testing::Test {
 protected:
  WindowTable TableOf(const Sample& sample) {
    auto plan = MakePlan(sample.layout, sample.variables, 2 * kMiB);
    EXPECT_OK(plan);
    WindowTable table(sample.layout, *plan, 2 * kMiB);
    EXPECT_TRUE(table.ring());
    return table;
  }
  Sample Make(const std::vector<std::uint64_t>& sizes) { return MakeSample(random_, sizes, ftiff::Packing::kAligned); }
  // One that has had content, in containers of its own.
  static void Empty(Sample& sample, std::size_t variable) {
    for (ftiff::Container& container : sample.layout.containers) {
      if (container.id != sample.variables[variable].id) continue;
      container.has_content = false;
      container.chunk_bytes = 0;
    }
    sample.variables[variable].bytes = 0;
    sample.content[variable].clear();
  }
  static std::vector<WriteQueue::Run> TakeAll(WriteQueue& queue) {
    std::vector<WriteQueue::Run> runs;
    while (std::optional<WriteQueue::Run> run = queue.Next()) runs.push_back(*run);
    return runs;
  }

  std::mt19937_64 random_{1};
};

TEST_F(OldFileTest, AWindowOfSeveralWritesIsWrittenWithTheLastOfThem) {
  const Sample sample = Make({3 * kMiB});
  WindowTable table = TableOf(sample);
  WriteQueue queue(table, sample.data.size(), kSmall);
  queue.UseOldFile();
  EXPECT_FALSE(queue.ready());
  queue.Complete(1);
  queue.Complete(0);
  std::vector<WriteQueue::Run> runs = TakeAll(queue);
  ASSERT_EQ(runs.size(), 8u);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].first, i < 4 ? 1u : 0u);
    EXPECT_EQ(runs[i].begins, i % 4 == 0);
    EXPECT_EQ(runs[i].offset, runs[i].first * kMiB + i % 4 * kSmall.bytes);
    EXPECT_EQ(runs[i].bytes, kSmall.bytes);
  }
  std::swap(runs[0], runs[2]);  // in any order
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(table.windows()[1].written, i >= 4) << i;
    EXPECT_FALSE(table.windows()[0].written) << i;
    queue.Written(runs[i]);
  }
  EXPECT_TRUE(table.windows()[0].written);
  EXPECT_FALSE(queue.all_written());
  queue.Complete(2);
  for (const WriteQueue::Run& run : TakeAll(queue)) queue.Written(run);
  EXPECT_TRUE(queue.all_written());
}

// The client waits for what it has filled; the rest holds what the old file held, so that zeros are written there.
TEST_F(OldFileTest, WhatHasNoContentIsWrittenBehindWhatIsComplete) {
  for (const TransferShape& shape : {kSmall, TransferShape{}}) {
    Sample sample = Make({kMiB, 2 * kMiB, kMiB});
    Empty(sample, 1);
    WindowTable table = TableOf(sample);
    std::vector<std::size_t> empty, full;
    for (std::size_t i = 0; i < table.windows().size(); ++i) {
      (table.windows()[i].content == 0 ? empty : full).push_back(i);
    }
    ASSERT_EQ(empty.size(), 2u);
    WriteQueue queue(table, sample.data.size(), shape);
    queue.UseOldFile();
    for (const std::size_t window : full) queue.Complete(window);
    std::vector<std::size_t> order;
    std::uint64_t bytes = 0;
    for (const WriteQueue::Run& run : TakeAll(queue)) {
      if (run.begins) order.push_back(run.first);
      bytes += run.bytes;
      EXPECT_FALSE(queue.all_written());
      queue.Written(run);
    }
    EXPECT_TRUE(queue.all_written());
    EXPECT_EQ(bytes, sample.data.size());
    full.insert(full.end(), empty.begin(), empty.end());
    EXPECT_EQ(order, full);
  }
}

}  // namespace
}  // namespace cairn
