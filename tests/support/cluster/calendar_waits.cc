// Waits in each way until a time of the calendar that is a tenth of a second away, and prints how many milliseconds
// that took.
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <fmt/format.h>
#include <sys/time.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace {

constexpr std::chrono::milliseconds kWait{100};

// By a futex of Abseil's own.
void WaitByAbseil() {
  absl::Mutex mutex;
  absl::CondVar never;
  const absl::MutexLock lock(&mutex);
  never.WaitWithDeadline(&mutex, absl::Now() + absl::FromChrono(kWait));
}

// By pthread_cond_clockwait, or pthread_cond_timedwait.
void WaitByStandardLibrary() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_until(lock, std::chrono::system_clock::now() + kWait, [] { return false; });
}

timespec InAWhile(timeval now) {
  now.tv_usec += std::chrono::microseconds(kWait).count();
  return {.tv_sec = now.tv_sec + now.tv_usec / 1'000'000, .tv_nsec = now.tv_usec % 1'000'000 * 1'000};
}

void WaitByPosix() {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  timeval now;
  ::gettimeofday(&now, nullptr);
  const timespec until = InAWhile(now);
  pthread_mutex_lock(&mutex);
  while (pthread_cond_timedwait(&never, &mutex, &until) == 0) {
  }
  pthread_mutex_unlock(&mutex);
}

void Sleep() {
  timespec now;
  ::timespec_get(&now, TIME_UTC);
  const timespec until = InAWhile({.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1'000});
  ::clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace

int main() {
  for (void (*const wait)() : {WaitByAbseil, WaitByStandardLibrary, WaitByPosix, Sleep}) {
    const auto start = std::chrono::steady_clock::now();
    wait();
    fmt::print("{}\n",
               std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count());
  }
}
