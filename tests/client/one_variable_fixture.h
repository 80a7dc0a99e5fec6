// A session with one variable, and a daemon played by the test, with an image of its own.
#ifndef CAIRN_TESTS_CLIENT_ONE_VARIABLE_FIXTURE_H_
#define CAIRN_TESTS_CLIENT_ONE_VARIABLE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client/cairn.h"
#include "tests/client/fake_daemon.h"

namespace cairn {

inline constexpr std::uint64_t kImageBytes = 2 << 20;

inline bool Says(const cairn_session* session, const std::string& text) {
  return std::string(cairn_error(session)).find(text) != std::string::npos;
}

class OneVariableTest : public testing::Test {
 protected:
  explicit OneVariableTest(std::vector<std::int32_t> data) : image_(5, kImageBytes), data_(std::move(data)) {}
  ~OneVariableTest() override {
    daemon_.Join();
    cairn_close(session_);
  }

  void Open(std::function<void(FakePeer&)> script, std::uint32_t deadline_ms = 5000) {
    daemon_.PlayPeer(std::move(script));
    OpenSession(deadline_ms);
  }
  void OpenSession(std::uint32_t deadline_ms = 5000) {
    cairn_options options = daemon_.options();
    options.deadline_ms = deadline_ms;
    session_ = OpenOrDie(options);
    ASSERT_EQ(cairn_protect(session_, 3, data_.data(), data_.size(), CAIRN_INT32), CAIRN_OK);
  }

  FakeDaemon daemon_;
  FakeImage image_;
  std::vector<std::int32_t> data_;
  cairn_session* session_ = nullptr;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_CLIENT_ONE_VARIABLE_FIXTURE_H_
