// What may be protected, and how often a step was begun.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "client/cairn.h"
#include "client/library/attempts.h"
#include "proto/frame.h"
#include "tests/client/fake_daemon.h"

namespace cairn {
namespace {

class ProtectTest : public testing::Test {
 protected:
  ProtectTest() {
    daemon_.PlayPeer([](FakePeer& peer) { peer.Answer(peer.Expect(local::Request::kClose), {}); });
    session_ = OpenOrDie(daemon_.options());
  }
  ~ProtectTest() override { cairn_close(session_); }
  bool Says(const std::string& text) const {
    return std::string(cairn_error(session_)).find(text) != std::string::npos;
  }
  int Array(std::initializer_list<std::uint64_t> shape, std::initializer_list<std::uint64_t> start,
            std::initializer_list<std::uint64_t> count, const std::uint64_t* memory = nullptr,
            const std::uint64_t* ghost = nullptr) {
    return cairn_protect_array(session_, 1, "a", data_, CAIRN_DOUBLE, static_cast<std::int32_t>(shape.size()),
                               shape.begin(), start.begin(), count.begin(), memory, ghost);
  }

  FakeDaemon daemon_;
  cairn_session* session_ = nullptr;
  double data_[16] = {};
};

TEST_F(ProtectTest, EveryTypeOfTheHeaderHasASize) {
  for (const std::int32_t type : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15}) {
    EXPECT_EQ(cairn_protect(session_, type, data_, 1, type), CAIRN_OK) << type;
  }
  for (const std::int32_t type : {-1, 0, 14, 16}) {
    EXPECT_EQ(cairn_protect(session_, 1, data_, 1, type), CAIRN_INVALID_ARGUMENT) << type;
    EXPECT_TRUE(Says("type")) << cairn_error(session_);
  }
}

TEST_F(ProtectTest, IdsAreNotNegative) {
  EXPECT_EQ(cairn_protect(session_, INT32_MAX, data_, 1, CAIRN_DOUBLE), CAIRN_OK);
  EXPECT_EQ(cairn_protect(session_, -1, data_, 1, CAIRN_DOUBLE), CAIRN_INVALID_ARGUMENT);
}

TEST_F(ProtectTest, MemoryMustBeThereAndCountable) {
  EXPECT_EQ(cairn_protect(session_, 1, nullptr, 1, CAIRN_DOUBLE), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_protect(session_, 1, nullptr, 0, CAIRN_DOUBLE), CAIRN_OK);
  EXPECT_EQ(cairn_protect(session_, 1, data_, UINT64_MAX, CAIRN_BYTE), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_protect(session_, 1, data_, (UINT64_MAX / 8) + 2, CAIRN_DOUBLE), CAIRN_INVALID_ARGUMENT);
}

TEST_F(ProtectTest, ValuesAndArraysHaveNames) {
  EXPECT_EQ(cairn_protect_value(session_, 1, "n", data_, 1, CAIRN_DOUBLE), CAIRN_OK);
  for (const char* name :
       {static_cast<const char*>(nullptr), "", "bad\xff", "\xc0\x80", "\xed\xa0\x80", "cut\xe2\x82"}) {
    EXPECT_EQ(cairn_protect_value(session_, 1, name, data_, 1, CAIRN_DOUBLE), CAIRN_INVALID_ARGUMENT);
  }
  EXPECT_EQ(cairn_protect_value(session_, 1, "größe \xf0\x9f\x8f\x94", data_, 1, CAIRN_DOUBLE), CAIRN_OK);
  const std::string longest(CAIRN_NAME_BYTES_MAX, 'n');
  EXPECT_EQ(cairn_protect_value(session_, 1, longest.c_str(), data_, 1, CAIRN_DOUBLE), CAIRN_OK);
  EXPECT_EQ(cairn_protect_value(session_, 1, (longest + "n").c_str(), data_, 1, CAIRN_DOUBLE), CAIRN_INVALID_ARGUMENT);
}

TEST_F(ProtectTest, ABoxLiesInItsArrayAndInItsMemory) {
  const std::uint64_t memory[] = {4, 4}, ghost[] = {1, 1}, far[] = {2, 1};
  EXPECT_EQ(Array({10, 10}, {8, 8}, {2, 2}), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(Array({10, 10}, {8, 8}, {2, 3}), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says("dimension 1")) << cairn_error(session_);
  EXPECT_EQ(Array({10, 10}, {UINT64_MAX, 0}, {2, 2}), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(Array({10, 10}, {0, 0}, {3, 3}, memory, ghost), CAIRN_OK);
  EXPECT_EQ(Array({10, 10}, {0, 0}, {3, 3}, memory, far), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says("mem_count")) << cairn_error(session_);
  EXPECT_EQ(Array({10, 10}, {0, 0}, {3, 3}, memory, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(Array({10, 10}, {0, 0}, {3, 3}, nullptr, ghost), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(Array({UINT64_MAX, UINT64_MAX}, {0, 0}, {1, 1}), CAIRN_INVALID_ARGUMENT);
}

TEST_F(ProtectTest, ArraysHaveOneToEightDimensions) {
  EXPECT_EQ(Array({}, {}, {}), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(Array({1, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1, 1, 1}), CAIRN_OK);
  EXPECT_EQ(Array({1, 1, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
            CAIRN_INVALID_ARGUMENT);
}

TEST_F(ProtectTest, AnEmptyBoxNeedsNoMemory) {
  const std::uint64_t shape[] = {10, 10}, start[] = {10, 0}, count[] = {0, 10};
  EXPECT_EQ(cairn_protect_array(session_, 1, "a", nullptr, CAIRN_DOUBLE, 2, shape, start, count, nullptr, nullptr),
            CAIRN_OK)
      << cairn_error(session_);
}

TEST_F(ProtectTest, ThereIsAMostOfVariablesAndARemovedOneMakesRoom) {
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(CAIRN_VARIABLES_MAX); ++id) {
    ASSERT_EQ(cairn_protect(session_, id * 3, data_, 1, CAIRN_DOUBLE), CAIRN_OK);
  }
  EXPECT_EQ(cairn_protect(session_, 1, data_, 1, CAIRN_DOUBLE), CAIRN_RESOURCE_EXHAUSTED);
  EXPECT_EQ(cairn_protect(session_, 3, data_, 1, CAIRN_DOUBLE), CAIRN_OK) << "one that is there";
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(CAIRN_VARIABLES_MAX); id += 2) {
    ASSERT_EQ(cairn_unprotect(session_, id * 3), CAIRN_OK);
  }
  EXPECT_EQ(cairn_protect(session_, 1, data_, 1, CAIRN_DOUBLE), CAIRN_OK);
}

TEST(AttemptsTest, CountsEveryStepByItself) {
  lc_attempts attempts = {};
  EXPECT_EQ(lc_attempts_begin(&attempts, 5), 1u);
  EXPECT_EQ(lc_attempts_begin(&attempts, 6), 1u);
  EXPECT_EQ(lc_attempts_begin(&attempts, 5), 2u);
  EXPECT_EQ(lc_attempts_begin(&attempts, 5), 3u);
  lc_attempts_free(&attempts);
}

TEST(AttemptsTest, RemembersTheLastStepsAndForgetsTheOldestFirst) {
  lc_attempts attempts = {};
  for (std::uint64_t step = 0; step < LC_ATTEMPT_STEPS_MAX; ++step) EXPECT_EQ(lc_attempts_begin(&attempts, step), 1u);
  EXPECT_EQ(lc_attempts_begin(&attempts, 0), 2u) << "still there";
  EXPECT_EQ(lc_attempts_begin(&attempts, 1 << 20), 1u);
  EXPECT_EQ(lc_attempts_begin(&attempts, 0), 1u) << "gave way";
  EXPECT_EQ(lc_attempts_begin(&attempts, LC_ATTEMPT_STEPS_MAX - 1), 2u);
  lc_attempts_free(&attempts);
}

}  // namespace
}  // namespace cairn
