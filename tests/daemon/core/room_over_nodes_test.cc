// A launch over nodes whose caches are small: who waits for room, and who does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/launch_over_nodes.h"
#include "tests/daemon/core/simulated_nodes.h"

namespace cairn {
namespace {

constexpr std::uint64_t kOneAndAHalf = 45'000;  // bytes of a node's parts of so many datasets

using RoomOverNodesTest = LaunchOverNodesTest;

// Each cache has room for its parts of one dataset and a half.
TEST_F(RoomOverNodesTest, ABeginWaitsForTheRoomThatAFlushMakes) {
  for (int node : {0, 1}) {
    nodes[node].Kill();
    nodes[node].config.cache.bytes_max = kOneAndAHalf;
    nodes[node].config.flush.every = 1;
    nodes[node].Start();
  }
  std::uint64_t step = 0;
  for (const char* const key : {"job.1", "job.2"}) {  // the second finds parts of the first in its caches
    ASSERT_NO_FATAL_FAILURE(Open(key));
    for (const std::uint64_t last = step + 4; step < last;) {
      const DatasetId id = Checkpoint(++step);
      ASSERT_NE(id, 0u) << step;
      EXPECT_EQ(CodeOfReply(clients[step % kRanks]->Wait(id, local::LOCAL)), local::OK);
    }
    Close();
  }
}

// The home has room enough, so that nobody waits there.
TEST_F(RoomOverNodesTest, ABeginWaitsOnTheOtherNode) {
  for (int node : {0, 1}) {
    nodes[node].Kill();
    nodes[node].config.cache.bytes_max = node == 1 ? kOneAndAHalf : 1 << 30;
    nodes[node].config.flush.every = 1;
    nodes[node].Start();
  }
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  for (std::uint64_t step = 1; step <= 6; ++step) {
    const DatasetId id = Checkpoint(step);
    ASSERT_NE(id, 0u) << step;
    EXPECT_EQ(CodeOfReply(clients[0]->Wait(id, local::LOCAL)), local::OK);
  }
  Close();
}

// The prefix takes nothing: the room does not come in time, on the node that lacks it; the others are told.
class RoomInTimeTest : public RoomOverNodesTest, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Nodes, RoomInTimeTest, ::testing::Values(0, 1));

TEST_P(RoomInTimeTest, WhatDoesNotComeInTimeFailsTheDatasetForAll) {
  const int small = GetParam();
  for (int node : {0, 1}) {
    nodes[node].Kill();
    nodes[node].config.cache.bytes_max = node == small ? kOneAndAHalf : 1 << 30;
    nodes[node].config.flush.every = 1;
    nodes[node].Start();
  }
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  nodes.prefix.FailOn({.op = FakeOp::kAny, .path_part = "ckpt.", .times = 1'000'000, .status = Unavailable("away")});
  const DatasetId first = Checkpoint(1);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(first, local::LOCAL)), local::OK);
  const Rank lacks = small == 1 ? 1 : 2, has = small == 1 ? 0 : 1;
  const local::Reply handed_over = clients[has]->Checkpoint(2, MemoryOf(has, 2));
  ASSERT_EQ(CodeOfReply(handed_over), local::OK);
  const std::uint64_t waiting = clients[has]->SendWait(handed_over.committed().dataset(), local::LOCAL);
  const std::uint64_t beginning = clients[lacks]->SendBegin(2, MemoryOf(lacks, 2), 5'000);
  EXPECT_NE(CodeOfReply(clients[lacks]->TakeBegin(beginning)), local::OK);
  EXPECT_SAYS(clients[has]->Next(waiting), local::FAILED, "is full");
  nodes.prefix.ClearFaults();
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(first, local::PREFIX)), local::OK);
  ASSERT_NE(Checkpoint(3), 0u);
  Close();
}

TEST_F(RoomOverNodesTest, RoomThatNoFlushMakesIsNotWaitedFor) {
  nodes[1].Kill();
  nodes[1].config.cache.bytes_max = kOneAndAHalf;
  nodes[1].Start();
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));  // nothing is flushed
  const DatasetId id = Checkpoint(1);
  ASSERT_EQ(CodeOfReply(clients[0]->Wait(id, local::LOCAL)), local::OK);
  ASSERT_EQ(CodeOfReply(clients[0]->Begin(2, MemoryOf(0, 2))), local::OK);
  EXPECT_SAYS(clients[1]->Begin(2, MemoryOf(1, 2)), local::RESOURCE_EXHAUSTED, "is full");
}

}  // namespace
}  // namespace cairn
