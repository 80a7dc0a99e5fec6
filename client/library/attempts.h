/* How often this rank began each step in this launch. */
#ifndef CAIRN_CLIENT_LIBRARY_ATTEMPTS_H_
#define CAIRN_CLIENT_LIBRARY_ATTEMPTS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many different steps are remembered, the last ones. A step that was begun before those counts from 1 again. */
#define LC_ATTEMPT_STEPS_MAX 4096u

struct lc_attempts {
  struct lc_attempt {
    uint64_t step;
    uint32_t begun;
  } * entries;
  size_t count;
  size_t capacity;
  size_t oldest; /* once the table is full: the entry that is replaced next */
};

/* Counts one more begin of `step` and returns its number, from 1; 0: no memory. */
uint32_t lc_attempts_begin(struct lc_attempts* attempts, uint64_t step);
void lc_attempts_free(struct lc_attempts* attempts);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_ATTEMPTS_H_ */
