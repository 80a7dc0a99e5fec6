// Holds up operations of a FakeDisk until the test lets them go on.
#ifndef CAIRN_TESTS_DAEMON_CORE_GATE_H_
#define CAIRN_TESTS_DAEMON_CORE_GATE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tests/support/fake_disk.h"

namespace cairn {

// Those of one kind (kAny: all) whose path has `part` in it. One that is never opened holds them up for good.
class Gate {
 public:
  Gate(FakeOp op, std::string part) : state_(std::make_shared<State>(op, std::move(part))) {}

  FakeDisk::Hook hook() {
    return [state = state_](FakeOp op, const std::string& path) { state->Pass(op, path); };
  }
  void AwaitArrival() {
    std::unique_lock lock(state_->mutex);
    ASSERT_TRUE(state_->changed.wait_for(lock, std::chrono::seconds(60), [this] { return state_->arrived > 0; }));
  }
  void Open() {
    const std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }

 private:
  // Shared with operations that may end after the gate.
  struct State {
    State(FakeOp kind, std::string in_path) : op(kind), part(std::move(in_path)) {}
    void Pass(FakeOp kind, const std::string& path) {
      if ((op != FakeOp::kAny && kind != op) || path.find(part) == std::string::npos) return;
      std::unique_lock lock(mutex);
      ++arrived;
      changed.notify_all();
      changed.wait(lock, [this] { return open; });
    }

    const FakeOp op;
    const std::string part;
    std::mutex mutex;
    std::condition_variable changed;
    int arrived = 0;
    bool open = false;
  };

  const std::shared_ptr<State> state_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_GATE_H_
