// A function that can be left in its middle and gone on with: what waits for others, written as if it had a thread, run
// on one. REQUIRES: all calls of one fiber come from one thread.
#ifndef CAIRN_TESTS_SUPPORT_FIBER_H_
#define CAIRN_TESTS_SUPPORT_FIBER_H_

#include <functional>
#include <memory>

namespace cairn {

class Fiber {
 public:
  // What Pause throws in a fiber that is to end; it must reach the end of `body`.
  struct Ended {};

  explicit Fiber(std::function<void()> body);
  ~Fiber();  // ends it first
  Fiber(const Fiber&) = delete;

  // Runs it until it pauses or is at its end. REQUIRES: not at its end; not from within a fiber.
  void Resume();
  void End();  // the next Pause, or the one that it is in, throws Ended; returns at its end
  bool at_end() const;

  // In a fiber: back to Resume.
  static void Pause();
  static bool InOne();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_FIBER_H_
