/* The settings of cairn_open: options, environment and defaults together. */
#ifndef CAIRN_CLIENT_LIBRARY_SETTINGS_H_
#define CAIRN_CLIENT_LIBRARY_SETTINGS_H_

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/cairn.h"
#include "client/library/redundancy.h"
#include "client/library/rhythm.h"
#include "client/library/text.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LC_ADDRESSES_MAX 3
#define LC_DEADLINE_MS_DEFAULT 120000u
/* An open may have to wait until the lease of a launch on a dead node has run out: 120 s unless configured. */
#define LC_OPEN_DEADLINE_MS_DEFAULT 180000u

struct lc_settings {
  char* prefix;                      /* absolute */
  char* launch_key;                  /* NULL: an observer */
  char* addresses[LC_ADDRESSES_MAX]; /* in the order in which they are tried; the first that answers is kept */
  int address_count;
  uint32_t rank;
  uint32_t nranks;
  uint32_t deadline_ms, open_deadline_ms;
  unsigned copy_threads; /* of a checkpoint: 1 to LC_COPIERS_MAX */
  bool takeover;
  bool observer; /* rank, nranks, launch_key, rhythm, scheme mean nothing */
  struct lc_rhythm rhythm;
  struct lc_scheme scheme;
};

/* Where the settings come from besides the options: the process's environment, or a test's. */
struct lc_surroundings {
  const char* (*variable)(void* context, const char* name); /* as getenv */
  void* context;
  uid_t user;
  const char* temporary; /* "/tmp" */
};

/* CAIRN_INVALID_ARGUMENT, saying what to set; CAIRN_RESOURCE_EXHAUSTED. On any error nothing is left to free. */
int lc_settings_resolve(const cairn_options* options, const struct lc_surroundings* surroundings,
                        struct lc_settings* settings, struct lc_why* why);
void lc_settings_free(struct lc_settings* settings);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_SETTINGS_H_ */
