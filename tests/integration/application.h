// A run of one rank that is a part of the test: it opens, makes checkpoints, waits for them and goes on from them.
#ifndef CAIRN_TESTS_INTEGRATION_APPLICATION_H_
#define CAIRN_TESTS_INTEGRATION_APPLICATION_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/harness.h"

namespace cairn::testing {

// Memory that begins where a page does.
template <typename T>
struct OfPages {
  static constexpr std::align_val_t kPage{4096};
  using value_type = T;
  static T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kPage)); }
  static void deallocate(T* memory, std::size_t) { ::operator delete(memory, kPage); }
  bool operator==(const OfPages&) const = default;
};

class Application {
 public:
  static constexpr std::uint32_t kPatienceMs = 60'000;

  Application(const Harness& harness, std::string prefix) : address_(harness.address()), prefix_(std::move(prefix)) {}
  ~Application() { Close(); }
  Application(const Application&) = delete;

  int Open(std::uint32_t deadline_ms = kPatienceMs) {
    Close();
    cairn_options options = CAIRN_OPTIONS_INIT;
    options.address = address_.c_str();
    options.prefix = prefix_.c_str();
    options.rank = 0;
    options.nranks = 1;
    options.deadline_ms = deadline_ms;
    const int code = cairn_open(&options, &session_);
    return code != CAIRN_OK ? code : cairn_protect(session_, 1, field_.data(), field_.size(), CAIRN_UINT64);
  }
  void Close() {
    cairn_close(session_);
    session_ = nullptr;
  }

  int TryCheckpoint(std::uint64_t step, std::uint64_t* dataset) {
    std::fill(field_.begin(), field_.end(), step);
    return cairn_checkpoint(session_, step, dataset);
  }
  std::uint64_t Checkpoint(std::uint64_t step) {
    std::uint64_t dataset = 0;
    EXPECT_EQ(TryCheckpoint(step, &dataset), CAIRN_OK) << error();
    return dataset;
  }
  int Wait(std::uint64_t dataset, std::int32_t level, std::uint32_t timeout_ms = kPatienceMs) {
    return cairn_wait(session_, dataset, level, timeout_ms);
  }
  void ExpectReaches(std::uint64_t dataset, std::int32_t level) {
    EXPECT_EQ(Wait(dataset, level), CAIRN_OK) << error();
  }
  void ExpectRestart(std::uint64_t step, std::int32_t tier) {
    std::uint64_t restored = 0;
    std::int32_t from = CAIRN_TIER_NONE;
    std::fill(field_.begin(), field_.end(), 0);
    ASSERT_EQ(cairn_resume(session_, &restored), CAIRN_OK) << error();
    EXPECT_EQ(restored, step) << prefix_;
    EXPECT_TRUE(std::all_of(field_.begin(), field_.end(), [step](std::uint64_t element) { return element == step; }));
    ASSERT_EQ(cairn_restored_tier(session_, &from), CAIRN_OK);
    EXPECT_EQ(from, tier) << prefix_;
  }
  const std::string& prefix() const { return prefix_; }
  std::string error() const { return prefix_ + ": " + cairn_error(session_); }

 private:
  const std::string address_, prefix_;
  // 2.3 MiB: several blocks. It begins where a page does, as its file does: whole blocks can be read straight into it.
  std::vector<std::uint64_t, OfPages<std::uint64_t>> field_ = decltype(field_)(300'000);
  cairn_session* session_ = nullptr;
};
using ApplicationPtr = std::unique_ptr<Application>;

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_APPLICATION_H_
