#include "client/library/attempts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(struct lc_attempts* attempts) {
  if (attempts->count < attempts->capacity || attempts->count == LC_ATTEMPT_STEPS_MAX) return true;
  const size_t capacity = attempts->capacity == 0 ? 64 : attempts->capacity * 2;
  struct lc_attempt* entries = realloc(attempts->entries, capacity * sizeof *entries);
  if (entries == NULL) return false;
  attempts->entries = entries;
  attempts->capacity = capacity;
  return true;
}

uint32_t lc_attempts_begin(struct lc_attempts* attempts, uint64_t step) {
  for (size_t i = 0; i < attempts->count; ++i) {
    if (attempts->entries[i].step == step) return ++attempts->entries[i].begun;
  }
  if (!make_room(attempts)) return 0;
  size_t place = attempts->count;
  if (place < LC_ATTEMPT_STEPS_MAX) {
    ++attempts->count;
  } else {
    place = attempts->oldest;
    attempts->oldest = (attempts->oldest + 1) % LC_ATTEMPT_STEPS_MAX;
  }
  attempts->entries[place] = (struct lc_attempt){.step = step, .begun = 1};
  return 1;
}

void lc_attempts_free(struct lc_attempts* attempts) {
  free(attempts->entries);
  memset(attempts, 0, sizeof *attempts);
}
