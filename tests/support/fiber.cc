#include "tests/support/fiber.h"

#include <ucontext.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "storage/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace cairn {
namespace {

constexpr std::size_t kStackBytes = 512 << 10;

// Stacks are kept: fresh ones would cost page faults each time.
std::unique_ptr<std::byte[]> TakeStack();
void KeepStack(std::unique_ptr<std::byte[]> stack);

std::vector<std::unique_ptr<std::byte[]>>& Stacks() {
  static thread_local std::vector<std::unique_ptr<std::byte[]>> stacks;
  return stacks;
}

std::unique_ptr<std::byte[]> TakeStack() {
  auto& stacks = Stacks();
  if (stacks.empty()) return std::unique_ptr<std::byte[]>(new std::byte[kStackBytes]);
  std::unique_ptr<std::byte[]> stack = std::move(stacks.back());
  stacks.pop_back();
  return stack;
}

void KeepStack(std::unique_ptr<std::byte[]> stack) {
  Stacks().push_back(std::move(stack));
}

}  // namespace

struct Fiber::State {
  std::function<void()> body;
  std::unique_ptr<std::byte[]> stack = TakeStack();
  ucontext_t inside{}, outside{};
  bool at_end = false;
  bool ending = false;
  // For the address sanitizer: whose stack is in use?
  void* fake_stack = nullptr;
  const void* outside_stack = nullptr;
  std::size_t outside_bytes = 0;
#if defined(__SANITIZE_THREAD__)
  // For the thread sanitizer a fiber is a thread of its own: it has locks and a call stack.
  void* const tsan_inside = __tsan_create_fiber(0);
  void* tsan_outside = nullptr;
  ~State() {
    __tsan_destroy_fiber(tsan_inside);
  }
#endif

  void Enter() {
#if defined(__SANITIZE_THREAD__)
    tsan_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_inside, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack.get(), kStackBytes);
    swapcontext(&outside, &inside);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    swapcontext(&outside, &inside);
#endif
  }
  void Leave() {
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(tsan_outside, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(at_end ? nullptr : &fake_stack, outside_stack, outside_bytes);
    swapcontext(&inside, &outside);
    Arrived();
#else
    swapcontext(&inside, &outside);
#endif
  }
  void Arrived() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, &outside_stack, &outside_bytes);
#endif
  }
  static thread_local State* current;
  static void Main() {
    State* self = current;
    self->Arrived();
    try {
      if (!self->ending) self->body();
    } catch (const Ended&) {
    }
    self->body = nullptr;
    self->at_end = true;
    self->Leave();
  }
};

thread_local Fiber::State* Fiber::State::current = nullptr;

Fiber::Fiber(std::function<void()> body) : state_(std::make_unique<State>()) {
  state_->body = std::move(body);
  getcontext(&state_->inside);
  state_->inside.uc_stack.ss_sp = state_->stack.get();
  state_->inside.uc_stack.ss_size = kStackBytes;
  state_->inside.uc_link = nullptr;
  makecontext(&state_->inside, &State::Main, 0);
}

Fiber::~Fiber() {
  End();
  KeepStack(std::move(state_->stack));
}

void Fiber::Resume() {
  CAIRN_CHECK(!state_->at_end && State::current == nullptr);
  State::current = state_.get();
  state_->Enter();
  State::current = nullptr;
}

void Fiber::End() {
  state_->ending = true;
  while (!state_->at_end) Resume();
}

bool Fiber::at_end() const {
  return state_->at_end;
}

void Fiber::Pause() {
  State* self = State::current;
  CAIRN_CHECK(self != nullptr);
  if (!self->ending) self->Leave();
  if (self->ending) throw Ended();
}

bool Fiber::InOne() {
  return State::current != nullptr;
}

}  // namespace cairn
