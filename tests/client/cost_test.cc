// What a checkpoint costs beside its copies: allocations, of many pieces as of few, and messages. The linker sends
// the C code's calls here (--wrap).
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/client/fake_daemon.h"

namespace {

thread_local long allocations = 0;
thread_local long sends = 0;

}  // namespace

extern "C" {
void* __real_malloc(std::size_t bytes);
void* __real_calloc(std::size_t count, std::size_t bytes);
void* __real_realloc(void* memory, std::size_t bytes);
ssize_t __real_sendmsg(int socket, const msghdr* message, int flags);
void* __wrap_malloc(std::size_t bytes) {
  ++allocations;
  return __real_malloc(bytes);
}
void* __wrap_calloc(std::size_t count, std::size_t bytes) {
  ++allocations;
  return __real_calloc(count, bytes);
}
void* __wrap_realloc(void* memory, std::size_t bytes) {
  ++allocations;
  return __real_realloc(memory, bytes);
}
ssize_t __wrap_sendmsg(int socket, const msghdr* message, int flags) {
  ++sends;
  return __real_sendmsg(socket, message, flags);
}
}

namespace cairn {
namespace {

struct Cost {
  long allocations = 0;
  long sends = 0;
};

class CostTest : public testing::Test {
 protected:
  CostTest() {
    daemon_.Play([this] { honest_.ServeAll(daemon_); });
    session_ = OpenOrDie(daemon_.options());
  }
  ~CostTest() override { cairn_close(session_); }

  // Of the second checkpoint of so many integers.
  Cost OfCheckpoint(std::size_t count) {
    data_.assign(count, 7);
    EXPECT_EQ(cairn_protect(session_, 1, data_.data(), data_.size(), CAIRN_INT32), CAIRN_OK);
    EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
    allocations = sends = 0;
    EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
    return {allocations, sends};
  }

  HonestDaemon honest_;
  FakeDaemon daemon_;
  std::vector<std::int32_t> data_;
  cairn_session* session_ = nullptr;
};

TEST_F(CostTest, ManyPiecesAllocateNoMoreThanOne) {
  EXPECT_EQ(OfCheckpoint(1000).allocations, OfCheckpoint(100'000).allocations);
}

TEST_F(CostTest, WhatIsFilledAndTheCommitGoTogether) {
  EXPECT_EQ(OfCheckpoint(1000).sends, 2);  // Begin is the first
}

}  // namespace
}  // namespace cairn
