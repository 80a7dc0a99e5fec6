/* Deadlines: nanoseconds of the monotonic clock. */
#ifndef CAIRN_CLIENT_LIBRARY_CLOCK_H_
#define CAIRN_CLIENT_LIBRARY_CLOCK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LC_NS_PER_MS INT64_C(1000000)

int64_t lc_now(void);

/* Milliseconds left, rounded up; 0 when it has passed. At most INT32_MAX, so that poll takes it. */
int lc_left_ms(int64_t deadline);

/* Sleeps until then, whatever signals the application gets. */
void lc_sleep_until(int64_t when);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_CLOCK_H_ */
