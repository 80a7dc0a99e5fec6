#include "client/library/rhythm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cairn.h"

/* A hundred years: beyond it nothing is meant. */
#define SECONDS_MAX (100.0 * 365.0 * 86400.0)

struct source {
  const char* (*variable)(void* context, const char* name);
  void* context;
  struct lc_why* why;
  const char* name; /* of the one that was found */
  const char* text;
};

/* The first of the names that is set; an empty one counts as unset. */
static bool find(struct source* source, const char* const* names) {
  for (; *names != NULL; ++names) {
    const char* text = source->variable(source->context, *names);
    if (text == NULL || text[0] == '\0') continue;
    source->name = *names;
    source->text = text;
    return true;
  }
  return false;
}

static int refuse(const struct source* source, const char* expected) {
  return lc_because(source->why, CAIRN_INVALID_ARGUMENT, "%s is \"%.40s\": not %s", source->name, source->text,
                    expected);
}

/* Digits with or without a decimal point, whatever the application's locale; what follows them. False: there are none.
 */
static bool read_decimal(const char* text, double* value, const char** rest) {
  double number = 0, place = 1;
  bool point = false, any = false;
  for (; (*text >= '0' && *text <= '9') || (*text == '.' && !point); ++text) {
    if (*text == '.') {
      point = true;
      continue;
    }
    any = true;
    if (point) place /= 10;
    number = point ? number + (*text - '0') * place : number * 10 + (*text - '0');
  }
  *value = number;
  *rest = text;
  return any;
}

static int whole_number(struct source* source, int64_t max, int64_t* value) {
  char* end;
  const int saved = errno;
  errno = 0;
  const long long number = strtoll(source->text, &end, 10);
  const bool good = errno == 0 && *end == '\0' && number >= 0 && number <= max;
  errno = saved;
  if (!good) return refuse(source, "a whole number in range");
  *value = number;
  return CAIRN_OK;
}

/* Seconds, or with a unit, as in the daemon's configuration. */
static int duration(struct source* source, uint64_t* ms) {
  static const struct {
    const char* name;
    double seconds;
  } units[] = {{"", 1}, {"s", 1}, {"ms", 0.001}, {"min", 60}, {"h", 3600}, {"d", 86400}};
  double number;
  const char* rest;
  if (read_decimal(source->text, &number, &rest)) {
    while (*rest == ' ') ++rest;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; ++i) {
      if (strcmp(rest, units[i].name) != 0) continue;
      if (number * units[i].seconds > SECONDS_MAX) break;
      *ms = (uint64_t)(number * units[i].seconds * 1000 + 0.5);
      return CAIRN_OK;
    }
  }
  return refuse(source, "seconds, or a time with ms, s, min, h or d");
}

static int percent(struct source* source, double* value) {
  const char* rest;
  if (!read_decimal(source->text, value, &rest) || *rest != '\0' || *value > 100) {
    return refuse(source, "a percentage from 0 to 100");
  }
  return CAIRN_OK;
}

int lc_rhythm_resolve(const char* (*variable)(void* context, const char* name), void* context, struct lc_rhythm* rhythm,
                      struct lc_why* why) {
  static const char* const every[] = {"CAIRN_CHECKPOINT_EVERY", "SCR_CHECKPOINT_INTERVAL", NULL};
  static const char* const interval[] = {"CAIRN_CHECKPOINT_INTERVAL", "SCR_CHECKPOINT_SECONDS", NULL};
  static const char* const overhead[] = {"CAIRN_CHECKPOINT_OVERHEAD", "SCR_CHECKPOINT_OVERHEAD", NULL};
  static const char* const mtbf[] = {"CAIRN_MTBF", NULL};
  static const char* const end_time[] = {"CAIRN_END_TIME", "SCR_END_TIME", "SLURM_JOB_END_TIME", NULL};
  struct source source = {.variable = variable, .context = context, .why = why};
  int64_t count = 0;
  int code = CAIRN_OK;
  memset(rhythm, 0, sizeof *rhythm);
  if ((rhythm->has_every = find(&source, every))) code = whole_number(&source, UINT32_MAX, &count);
  rhythm->every = (uint32_t)count;
  if (code == CAIRN_OK && (rhythm->has_interval = find(&source, interval))) {
    code = duration(&source, &rhythm->interval_ms);
  }
  if (code == CAIRN_OK && (rhythm->has_overhead = find(&source, overhead))) {
    code = percent(&source, &rhythm->overhead_percent);
  }
  if (code == CAIRN_OK && (rhythm->has_mtbf = find(&source, mtbf))) code = duration(&source, &rhythm->mtbf_ms);
  if (code == CAIRN_OK && find(&source, end_time)) code = whole_number(&source, INT64_MAX, &rhythm->end_time_s);
  return code;
}
