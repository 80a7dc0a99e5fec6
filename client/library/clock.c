#include "client/library/clock.h"

#include <errno.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

int64_t lc_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int lc_left_ms(int64_t deadline) {
  const int64_t left = deadline - lc_now();
  if (left <= 0) return 0;
  const int64_t ms = (left + LC_NS_PER_MS - 1) / LC_NS_PER_MS;
  return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

void lc_sleep_until(int64_t when) {
  const struct timespec until = {.tv_sec = when / NS_PER_S, .tv_nsec = when % NS_PER_S};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
}
