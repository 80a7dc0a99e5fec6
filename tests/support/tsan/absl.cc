// Tells ThreadSanitizer of absl's mutexes and of the owners of a Status. Debian ships absl without instrumentation:
// without this each guarded member would be a race. Linked into what is built with --config=tsan, these functions stand
// before those of the libraries and hand on. Not here: Condition (Await, LockWhen), which Cairn does not use.
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace {

// absl's own function of this mangled name, looked up once.
#define CAIRN_REAL(name, ...)                                                       \
  [] {                                                                              \
    static const auto real = reinterpret_cast<__VA_ARGS__>(dlsym(RTLD_NEXT, name)); \
    return real;                                                                    \
  }()

// A wait gives the mutex back and takes it again.
template <typename Wait>
auto Around(Mutex* mutex, Wait wait) {
  __tsan_mutex_pre_unlock(mutex, 0);
  __tsan_mutex_post_unlock(mutex, 0);
  const auto result = wait();
  __tsan_mutex_pre_lock(mutex, 0);
  __tsan_mutex_post_lock(mutex, 0, 0);
  return result;
}

}  // namespace

Mutex::~Mutex() {
  CAIRN_REAL("_ZN4absl7debian35MutexD1Ev", void (*)(Mutex*))(this);
  __tsan_mutex_destroy(this, 0);
}

void Mutex::Lock() {
  __tsan_mutex_pre_lock(this, 0);
  CAIRN_REAL("_ZN4absl7debian35Mutex4LockEv", void (*)(Mutex*))(this);
  __tsan_mutex_post_lock(this, 0, 0);
}

void Mutex::Unlock() {
  __tsan_mutex_pre_unlock(this, 0);
  CAIRN_REAL("_ZN4absl7debian35Mutex6UnlockEv", void (*)(Mutex*))(this);
  __tsan_mutex_post_unlock(this, 0);
}

bool Mutex::TryLock() {
  __tsan_mutex_pre_lock(this, __tsan_mutex_try_lock);
  const bool locked = CAIRN_REAL("_ZN4absl7debian35Mutex7TryLockEv", bool (*)(Mutex*))(this);
  __tsan_mutex_post_lock(this, locked ? __tsan_mutex_try_lock : __tsan_mutex_try_lock_failed, 0);
  return locked;
}

void Mutex::ReaderLock() {
  __tsan_mutex_pre_lock(this, __tsan_mutex_read_lock);
  CAIRN_REAL("_ZN4absl7debian35Mutex10ReaderLockEv", void (*)(Mutex*))(this);
  __tsan_mutex_post_lock(this, __tsan_mutex_read_lock, 0);
}

void Mutex::ReaderUnlock() {
  __tsan_mutex_pre_unlock(this, __tsan_mutex_read_lock);
  CAIRN_REAL("_ZN4absl7debian35Mutex12ReaderUnlockEv", void (*)(Mutex*))(this);
  __tsan_mutex_post_unlock(this, __tsan_mutex_read_lock);
}

void CondVar::Wait(Mutex* mutex) {
  Around(mutex, [&] {
    CAIRN_REAL("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE", void (*)(CondVar*, Mutex*))(this, mutex);
    return true;
  });
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  return Around(mutex, [&] {
    return CAIRN_REAL("_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE",
                      bool (*)(CondVar*, Mutex*, Time))(this, mutex, deadline);
  });
}

// As absl does it. Its own would call the function above from a program, and absl's from a library that hides its
// symbols.
bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  return WaitWithDeadline(mutex, Now() + timeout);
}

// Who lets go last deletes what the others have read.
void Status::UnrefNonInlined(uintptr_t rep) {
  __tsan_release(reinterpret_cast<void*>(rep));
  __tsan_acquire(reinterpret_cast<void*>(rep));
  CAIRN_REAL("_ZN4absl7debian36Status15UnrefNonInlinedEm", void (*)(uintptr_t))(rep);
}

ABSL_NAMESPACE_END
}  // namespace absl
