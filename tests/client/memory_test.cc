// No memory, at every allocation that the library makes: a code, words, and a session that goes on. The linker sends
// the C code's malloc, calloc and realloc here (--wrap); the C++ side of the test allocates elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tests/client/fake_daemon.h"

namespace {

thread_local bool counting = false;
thread_local long allocations = 0;
thread_local long fail_at = -1;

bool Fails() {
  return counting && allocations++ == fail_at;
}

}  // namespace

extern "C" {
void* __real_malloc(std::size_t bytes);
void* __real_calloc(std::size_t count, std::size_t bytes);
void* __real_realloc(void* memory, std::size_t bytes);
void* __wrap_malloc(std::size_t bytes) {
  return Fails() ? nullptr : __real_malloc(bytes);
}
void* __wrap_calloc(std::size_t count, std::size_t bytes) {
  return Fails() ? nullptr : __real_calloc(count, bytes);
}
void* __wrap_realloc(void* memory, std::size_t bytes) {
  return Fails() ? nullptr : __real_realloc(memory, bytes);
}
}

namespace cairn {
namespace {

// Runs `call` with its n-th allocation failing, for every n that it reaches, until it works. How many there were.
template <typename Call>
long FailEachAllocation(Call call) {
  for (long n = 0;; ++n) {
    allocations = 0;
    fail_at = n;
    counting = true;
    const int code = call();
    counting = false;
    if (allocations <= n) {
      EXPECT_EQ(code, CAIRN_OK);
      return n;
    }
    EXPECT_EQ(code, CAIRN_RESOURCE_EXHAUSTED) << "allocation " << n;
  }
}

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() : data_(5000, 7) {
    daemon_.Play([this] { honest_.ServeAll(daemon_); });
  }
  void OpenSession() { session_ = OpenOrDie(daemon_.options()); }
  void Protect() { ASSERT_EQ(cairn_protect(session_, 1, data_.data(), data_.size(), CAIRN_INT32), CAIRN_OK); }
  ~MemoryTest() override { cairn_close(session_); }

  HonestDaemon honest_;
  FakeDaemon daemon_;
  std::vector<std::int32_t> data_;
  cairn_session* session_ = nullptr;
};

TEST_F(MemoryTest, OpenFailsCleanly) {
  const cairn_options options = daemon_.options();
  EXPECT_GT(FailEachAllocation([&] {
              const int code = cairn_open(&options, &session_);
              EXPECT_EQ(code == CAIRN_OK, session_ != nullptr);
              return code;
            }),
            5);
}

TEST_F(MemoryTest, ProtectLeavesWhatWasProtectedAsItWas) {
  OpenSession();
  std::int32_t id = 0;
  for (int i = 0; i < 40; ++i, ++id) {
    EXPECT_GT(FailEachAllocation([&] { return cairn_protect(session_, id, data_.data(), data_.size(), CAIRN_INT32); }),
              0);
  }
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(honest_.Stored(39).size(), data_.size() * sizeof(data_[0]));
}

TEST_F(MemoryTest, ACheckpointThatFailedLeavesTheNextOneToWork) {
  OpenSession();
  Protect();
  EXPECT_GT(FailEachAllocation([&] { return cairn_checkpoint(session_, 0, nullptr); }), 5);
}

TEST_F(MemoryTest, RestoreAndQuestionsFailCleanly) {
  OpenSession();
  Protect();
  std::uint64_t dataset = 0, step = 0;
  cairn_stored_info info = {};
  info.struct_size = sizeof info;
  std::int32_t reached = 0;
  char path[64];
  ASSERT_EQ(cairn_checkpoint(session_, 0, &dataset), CAIRN_OK) << cairn_error(session_);
  const std::vector<std::int32_t> saved = data_;
  std::fill(data_.begin(), data_.end(), 0);
  EXPECT_GT(FailEachAllocation([&] { return cairn_restore(session_, dataset); }), 5);
  EXPECT_EQ(data_, saved);
  EXPECT_GT(FailEachAllocation([&] { return cairn_latest(session_, &dataset, &step); }), 1);
  EXPECT_GT(FailEachAllocation([&] { return cairn_stored(session_, dataset, 0, &info); }), 1);
  EXPECT_GT(FailEachAllocation([&] { return cairn_test(session_, dataset, CAIRN_LEVEL_LOCAL, &reached); }), 1);
  EXPECT_GT(FailEachAllocation([&] { return cairn_wait(session_, dataset, CAIRN_LEVEL_LOCAL, 5000); }), 1);
  EXPECT_GT(FailEachAllocation([&] { return cairn_restart_file(session_, dataset, "f", path, sizeof path); }), 1);
}

}  // namespace
}  // namespace cairn
