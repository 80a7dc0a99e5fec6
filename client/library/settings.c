#include "client/library/settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/library/copiers.h"
#include "client/library/redundancy.h"
#include "proto/frame.h"

/* As the first libcairn had them: programs built with its header give no more. */
#define FIRST_OPTIONS_BYTES offsetof(cairn_options, observer)

/* One resolution: everything that the steps below need. */
struct resolver {
  cairn_options options; /* a copy, as this version of the library knows it */
  const struct lc_surroundings* surroundings;
  struct lc_settings* settings;
  struct lc_why* why;
};

/* An empty variable counts as unset. */
static const char* variable(const struct resolver* r, const char* name) {
  const char* value = r->surroundings->variable(r->surroundings->context, name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

static int no_memory(struct resolver* r) {
  return lc_because(r->why, CAIRN_RESOURCE_EXHAUSTED, "no memory for the settings");
}

/* A caller built with a newer header may know more fields; they must be zero, for nobody here would heed them. */
static int copy_options(struct resolver* r, const cairn_options* options) {
  const cairn_options defaults = CAIRN_OPTIONS_INIT;
  r->options = defaults;
  if (options == NULL) return CAIRN_OK;
  if (options->struct_size < FIRST_OPTIONS_BYTES) {
    return lc_because(r->why, CAIRN_INVALID_ARGUMENT,
                      "cairn_options.struct_size is %zu, must be at least %zu: start with CAIRN_OPTIONS_INIT",
                      options->struct_size, FIRST_OPTIONS_BYTES);
  }
  for (size_t i = sizeof defaults; i < options->struct_size; ++i) {
    if (((const unsigned char*)options)[i] != 0) {
      return lc_because(r->why, CAIRN_INVALID_ARGUMENT,
                        "cairn_options has an option at byte %zu that this libcairn (%s) does not know", i,
                        cairn_version());
    }
  }
  memcpy(&r->options, options, options->struct_size < sizeof defaults ? options->struct_size : sizeof defaults);
  return CAIRN_OK;
}

static int resolve_prefix(struct resolver* r) {
  const char* prefix =
      r->options.prefix != NULL && r->options.prefix[0] != '\0' ? r->options.prefix : variable(r, "CAIRN_PREFIX");
  if (prefix == NULL) {
    return lc_because(r->why, CAIRN_INVALID_ARGUMENT,
                      "no prefix: set cairn_options.prefix or CAIRN_PREFIX to the run's directory on the parallel "
                      "file system");
  }
  if (!lc_is_utf8(prefix)) return lc_because(r->why, CAIRN_INVALID_ARGUMENT, "the prefix is not UTF-8");
  if (prefix[0] == '/') {
    r->settings->prefix = strdup(prefix);
  } else {
    char* here = getcwd(NULL, 0);
    if (here == NULL || asprintf(&r->settings->prefix, "%s/%s", here, prefix) < 0) r->settings->prefix = NULL;
    free(here);
  }
  if (r->settings->prefix == NULL) return no_memory(r);
  if (strlen(r->settings->prefix) > CAIRN_NAME_BYTES_MAX) {
    return lc_because(r->why, CAIRN_INVALID_ARGUMENT, "the prefix is longer than %u bytes", CAIRN_NAME_BYTES_MAX);
  }
  return CAIRN_OK;
}

/* The first of `names` that is set, as a number; *value stays as it is if none is. */
static int number_from(struct resolver* r, const char* const* names, int64_t* value) {
  for (; *names != NULL; ++names) {
    const char* text = variable(r, *names);
    if (text == NULL) continue;
    char* end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || number < 0 || number > (long long)CAIRN_RANKS_MAX) {
      return lc_because(r->why, CAIRN_INVALID_ARGUMENT, "%s is \"%.40s\": not a number from 0 to %u", *names, text,
                        CAIRN_RANKS_MAX);
    }
    *value = number;
    return CAIRN_OK;
  }
  return CAIRN_OK;
}

static int resolve_ranks(struct resolver* r) {
  /* A batch script carries SLURM_PROCID and SLURM_NTASKS of the whole job without being one of its tasks: Slurm's
   * numbers count inside a step only. */
  const bool in_step = variable(r, "SLURM_STEP_ID") != NULL;
  const char* const rank_names[] = {"CAIRN_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", in_step ? "SLURM_PROCID" : NULL,
                                    NULL};
  const char* const count_names[] = {"CAIRN_NRANKS", "OMPI_COMM_WORLD_SIZE", in_step ? "SLURM_NTASKS" : NULL, NULL};
  int64_t rank = r->options.rank, nranks = r->options.nranks > 0 ? r->options.nranks : -1;
  int code = CAIRN_OK;
  if (rank < 0) code = number_from(r, rank_names, &rank);
  if (code == CAIRN_OK && nranks < 0) code = number_from(r, count_names, &nranks);
  if (code != CAIRN_OK) return code;
  if (rank < 0) rank = 0;
  if (nranks < 0) nranks = 1;
  if (nranks == 0 || nranks > (int64_t)CAIRN_RANKS_MAX) {
    return lc_because(r->why, CAIRN_INVALID_ARGUMENT, "nranks is %lld, must be 1 to %u", (long long)nranks,
                      CAIRN_RANKS_MAX);
  }
  if (rank >= nranks) {
    return lc_because(r->why, CAIRN_INVALID_ARGUMENT,
                      "rank %lld of %lld: set cairn_options.rank and nranks, or CAIRN_RANK and CAIRN_NRANKS",
                      (long long)rank, (long long)nranks);
  }
  r->settings->rank = (uint32_t)rank;
  r->settings->nranks = (uint32_t)nranks;
  return CAIRN_OK;
}

static const char* or_empty(const char* text) {
  return text != NULL ? text : "";
}

/* PMIx name spaces and Open MPI's job numbers come again (after a requeue, on another day): whatever else tells one
 * start from the next goes into the key, too. All of it is the same on all ranks of one start. */
static char* key_of_launcher(const struct resolver* r) {
  const char* const name_space = variable(r, "PMIX_NAMESPACE");
  const char* const open_mpi = variable(r, "OMPI_MCA_ess_base_jobid");
  const char* const job = variable(r, "SLURM_JOB_ID");
  const char* const step = variable(r, "SLURM_STEP_ID");
  const char* const restart = variable(r, "SLURM_RESTART_COUNT");
  char* key = NULL;
  int made = -1;
  if (name_space != NULL || open_mpi != NULL) {
    made = asprintf(&key, "%s:%s:%s:%s:%s:%s", name_space != NULL ? "pmix" : "ompi",
                    name_space != NULL ? name_space : open_mpi, or_empty(variable(r, "PMIX_JOBID")), or_empty(job),
                    or_empty(restart), or_empty(variable(r, "OMPI_MCA_orte_hnp_uri")));
  } else if (job != NULL && step != NULL) {
    made = asprintf(&key, "slurm:%s.%s.%s", job, step, restart != NULL ? restart : "0");
  }
  return made < 0 ? NULL : key;
}

static char* random_key(void) {
  uint64_t words[2];
  char* key = NULL;
  if (getrandom(words, sizeof words, 0) != (ssize_t)sizeof words) return NULL;
  const int made = asprintf(&key, "random:%016llx%016llx", (unsigned long long)words[0], (unsigned long long)words[1]);
  return made < 0 ? NULL : key;
}

static int resolve_launch(struct resolver* r) {
  const char* given =
      r->options.launch != NULL && r->options.launch[0] != '\0' ? r->options.launch : variable(r, "CAIRN_LAUNCH");
  char** key = &r->settings->launch_key;
  *key = given != NULL ? strdup(given) : key_of_launcher(r);
  if (*key == NULL && given != NULL) return no_memory(r);
  if (*key == NULL && r->settings->nranks > 1) {
    return lc_because(r->why, CAIRN_INVALID_ARGUMENT,
                      "%u ranks and no launch key: set cairn_options.launch or CAIRN_LAUNCH to a text that is the "
                      "same on all ranks of this start, and different at the next start",
                      r->settings->nranks);
  }
  if (*key == NULL) *key = random_key();
  if (*key == NULL) return no_memory(r);
  if (!lc_is_utf8(*key)) return lc_because(r->why, CAIRN_INVALID_ARGUMENT, "the launch key is not UTF-8");
  if (strlen(*key) > CAIRN_NAME_BYTES_MAX) {
    return lc_because(r->why, CAIRN_INVALID_ARGUMENT, "the launch key is longer than %u bytes", CAIRN_NAME_BYTES_MAX);
  }
  return CAIRN_OK;
}

/* Anybody can make a folder of that name in /tmp: only the user's own, closed to all others, is believed. */
static bool is_private_folder(const char* path, uid_t user) {
  struct stat status;
  return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == user &&
         (status.st_mode & 07777) == 0700;
}

static int add_address(struct resolver* r, const char* before, const char* middle, const char* after) {
  char** place = &r->settings->addresses[r->settings->address_count];
  if (asprintf(place, "%s%s%s", before, middle, after) < 0) {
    *place = NULL;
    return no_memory(r);
  }
  ++r->settings->address_count;
  return CAIRN_OK;
}

static int search_addresses(struct resolver* r) {
  const char* runtime = variable(r, "XDG_RUNTIME_DIR");
  int code = CAIRN_OK;
  if (runtime != NULL) code = add_address(r, "unix:", runtime, "/cairn/cairnd.sock");
  if (code != CAIRN_OK) return code;
  char* folder = NULL;
  if (asprintf(&folder, "%s/cairn-%u", r->surroundings->temporary, (unsigned)r->surroundings->user) < 0) {
    return no_memory(r);
  }
  if (is_private_folder(folder, r->surroundings->user)) code = add_address(r, "unix:", folder, "/cairnd.sock");
  free(folder);
  /* The user's own daemon, wherever it is, comes before the one of all users. */
  if (code == CAIRN_OK) code = add_address(r, "unix:/run/cairn/cairnd.sock", "", "");
  return code;
}

static int resolve_address(struct resolver* r) {
  const char* address =
      r->options.address != NULL && r->options.address[0] != '\0' ? r->options.address : variable(r, "CAIRN_ADDRESS");
  if (address == NULL) return search_addresses(r);
  static const char* const kinds[] = {"unix:", "grpc://", "grpc+unix:", "grpc+run:"};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    const size_t bytes = strlen(kinds[i]);
    if (strncmp(address, kinds[i], bytes) == 0 && address[bytes] != '\0') return add_address(r, address, "", "");
  }
  /* The folder of the run, if it says no other. */
  if (strcmp(address, "grpc+run:") == 0) return add_address(r, address, r->settings->prefix, "");
  return lc_because(r->why, CAIRN_INVALID_ARGUMENT,
                    "address \"%.200s\": must be unix:PATH, grpc://HOST:PORT, grpc+unix:PATH or grpc+run:[DIR]",
                    address);
}

static int resolve_copy_threads(struct resolver* r) {
  const char* const names[] = {"CAIRN_COPY_THREADS", NULL};
  int64_t threads = 1;
  const int code = number_from(r, names, &threads);
  if (code != CAIRN_OK) return code;
  if (threads < 1 || threads > (int64_t)LC_COPIERS_MAX) {
    return lc_because(r->why, CAIRN_INVALID_ARGUMENT, "CAIRN_COPY_THREADS is %lld, must be 1 to %u", (long long)threads,
                      LC_COPIERS_MAX);
  }
  r->settings->copy_threads = (unsigned)threads;
  return CAIRN_OK;
}

int lc_settings_resolve(const cairn_options* options, const struct lc_surroundings* surroundings,
                        struct lc_settings* settings, struct lc_why* why) {
  struct resolver r = {.surroundings = surroundings, .settings = settings, .why = why};
  memset(settings, 0, sizeof *settings);
  int code = copy_options(&r, options);
  if (code == CAIRN_OK) code = resolve_prefix(&r);
  settings->observer = r.options.observer != 0;
  if (code == CAIRN_OK && !settings->observer) code = resolve_ranks(&r);
  if (code == CAIRN_OK && !settings->observer) code = resolve_launch(&r);
  if (code == CAIRN_OK) code = resolve_address(&r);
  if (code == CAIRN_OK) code = resolve_copy_threads(&r);
  if (code == CAIRN_OK && !settings->observer) {
    code = lc_rhythm_resolve(surroundings->variable, surroundings->context, &settings->rhythm, why);
  }
  if (code == CAIRN_OK && !settings->observer) {
    code = lc_scheme_resolve(surroundings->variable, surroundings->context, &settings->scheme, why);
  }
  settings->takeover = r.options.takeover != 0;
  settings->deadline_ms = r.options.deadline_ms != 0 ? r.options.deadline_ms : LC_DEADLINE_MS_DEFAULT;
  settings->open_deadline_ms = r.options.deadline_ms != 0 ? r.options.deadline_ms : LC_OPEN_DEADLINE_MS_DEFAULT;
  if (code != CAIRN_OK) lc_settings_free(settings);
  return code;
}

void lc_settings_free(struct lc_settings* settings) {
  free(settings->prefix);
  free(settings->launch_key);
  for (int i = 0; i < LC_ADDRESSES_MAX; ++i) free(settings->addresses[i]);
  memset(settings, 0, sizeof *settings);
}
