/* Loaded into a program by LD_PRELOAD: its calendar is $CAIRN_TEST_CALENDAR_AHEAD seconds ahead of the machine's
 * (behind, if negative). Clocks that count since boot are left alone, and so are times that the kernel gives files. A
 * wait until a time of that calendar ends when that time has come there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t Ahead(void) {
  static _Atomic int known = 0;
  static _Atomic time_t ahead = 0;
  if (!known) {
    const char* const text = getenv("CAIRN_TEST_CALENDAR_AHEAD");
    ahead = text == NULL ? 0 : (time_t)atoll(text);
    known = 1;
  }
  return ahead;
}

static int IsCalendar(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

/* A time of our calendar as the machine has it. */
static struct timespec Machine(const struct timespec* ours) {
  struct timespec machine = *ours;
  machine.tv_sec -= Ahead();
  if (machine.tv_sec < 0) machine.tv_sec = 0; /* long past; negative times are refused */
  return machine;
}

/* What the C library would have called; it takes six arguments whatever the call has. */
static long Call(long number, long a, long b, long c, long d, long e, long f) {
  static long (*_Atomic next)(long, ...);
  if (next == NULL) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  return next(number, a, b, c, d, e, f);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  if (Call(SYS_clock_gettime, clock, (long)time, 0, 0, 0, 0) != 0) return -1;
  if (IsCalendar(clock)) time->tv_sec += Ahead();
  return 0;
}

int gettimeofday(struct timeval* restrict time, void* restrict zone) {
  if (Call(SYS_gettimeofday, (long)time, (long)zone, 0, 0, 0, 0) != 0) return -1;
  time->tv_sec += Ahead();
  return 0;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(struct timespec* time, int base) {
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec* time, struct timespec* left) {
  const int until_calendar = (flags & TIMER_ABSTIME) != 0 && IsCalendar(clock);
  const struct timespec machine = until_calendar ? Machine(time) : *time;
  return Call(SYS_clock_nanosleep, clock, flags, (long)&machine, (long)left, 0, 0) == 0 ? 0 : errno;
}

int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  typedef int (*Wait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  static _Atomic(Wait) next;
  if (next == NULL) next = (Wait)dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  const struct timespec machine = IsCalendar(clock) ? Machine(until) : *until;
  return next(cond, mutex, clock, &machine);
}

int pthread_cond_timedwait(pthread_cond_t* restrict cond, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict until) {
  /* Which clock it was made for, as glibc since 2.25 notes it. */
  const clockid_t clock = (cond->__data.__wrefs & 2) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  return pthread_cond_clockwait(cond, mutex, clock, until);
}

/* Abseil waits by futexes, past the C library's functions for it. */
long syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = va_arg(arguments, long);
  va_end(arguments);
  struct timespec machine;
  if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) != 0 && a[3] != 0) {
    machine = Machine((const struct timespec*)a[3]);
    a[3] = (long)&machine;
  }
  const long result = Call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (number == SYS_clock_gettime && result == 0 && IsCalendar((clockid_t)a[0])) {
    ((struct timespec*)a[1])->tv_sec += Ahead();
  }
  return result;
}
