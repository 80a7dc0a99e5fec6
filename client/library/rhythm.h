/* What the environment says about steering: when the allocation ends, and when checkpoints are due. */
#ifndef CAIRN_CLIENT_LIBRARY_RHYTHM_H_
#define CAIRN_CLIENT_LIBRARY_RHYTHM_H_

#include <stdbool.h>
#include <stdint.h>

#include "client/library/text.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lc_rhythm {
  bool has_every, has_interval, has_overhead, has_mtbf; /* what is not set, the daemon's configuration says */
  uint32_t every;
  uint64_t interval_ms;
  double overhead_percent;
  uint64_t mtbf_ms;
  int64_t end_time_s; /* since the epoch; 0: not known */
};

/* Of `variable` (as getenv): CAIRN_CHECKPOINT_EVERY, _INTERVAL, _OVERHEAD, CAIRN_MTBF, else SCR_CHECKPOINT_INTERVAL,
 * _SECONDS, _OVERHEAD; CAIRN_END_TIME, else SCR_END_TIME, else SLURM_JOB_END_TIME. CAIRN_INVALID_ARGUMENT, naming the
 * variable: no such number. */
int lc_rhythm_resolve(const char* (*variable)(void* context, const char* name), void* context, struct lc_rhythm* rhythm,
                      struct lc_why* why);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_RHYTHM_H_ */
