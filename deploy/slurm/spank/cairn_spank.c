/* SPANK plug-in of Slurm (slurm/spank.h): `srun --cairn[=PREFIX]`, and the same of sbatch and salloc. The job's tasks
 * find the run's directory in CAIRN_PREFIX, srun's the end of their allocation in CAIRN_END_TIME, and the node's daemon
 * is seen to before they begin: no prolog has to be edited.
 *
 *   optional /usr/lib/cairn/slurm/cairn_spank.so [scripts=DIR] [environment_only]      (plugstack.conf)
 *
 * scripts=DIR        where prolog and epilog are, which it runs as slurmd's own: beside the plug-in by default.
 * environment_only   it does not run them: slurm.conf names them as Prolog and Epilog.
 *
 * Whatever goes wrong is told, and fails no job and no node. What the prolog itself says (NODE_FAULT=drain) is passed
 * on, but Slurm passes over it where the line says "optional".
 * Built with the headers of one release of Slurm, and loaded by that one only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

SPANK_PLUGIN(cairn, 1)

enum { kNumberBytes = 24, kScriptsBytesMax = PATH_MAX };

static bool asked;            /* the option was given */
static char prefix[PATH_MAX]; /* absolute; empty: none was given */
static char scripts[kScriptsBytesMax];
static bool environment_only;

static int take_option(int value, const char* argument, int remote);

static struct spank_option option = {
    .name = "cairn",
    .arginfo = "[prefix]",
    .usage = "keep checkpoints by Cairn, in the run's directory PREFIX (default: $CAIRN_PREFIX)",
    .has_arg = 2,
    .val = 0,
    .cb = take_option,
};

/* --- what was asked for --- */

/* "" and "(null)" are how an absent argument comes from another process. */
static bool is_given(const char* argument) {
  return argument != NULL && argument[0] != '\0' && strcmp(argument, "(null)") != 0;
}

/* Negative: Slurm refuses the command. Its own ESPANK_BAD_ARG is not. */
static int take_option(int value, const char* argument, int remote) {
  (void)value;
  asked = true;
  if (!is_given(argument)) return ESPANK_SUCCESS;
  char here[PATH_MAX] = "";
  const bool relative = argument[0] != '/';
  if (relative && remote) return ESPANK_SUCCESS; /* srun or sbatch has made it absolute, in CAIRN_PREFIX */
  if (relative && getcwd(here, sizeof here) == NULL) {
    slurm_error("--cairn=%s: the path is relative, and the current folder has none: %s", argument, strerror(errno));
    prefix[0] = '\0';
    return -1;
  }
  const int length = snprintf(prefix, sizeof prefix, relative ? "%s/%s" : "%s%s", here, argument);
  if (length < 0 || (size_t)length >= sizeof prefix) {
    slurm_error("--cairn: the path of the run's directory is too long");
    prefix[0] = '\0';
    return -1;
  }
  return ESPANK_SUCCESS;
}

static void take_arguments(int count, char** arguments) {
  static const char kScripts[] = "scripts=";
  Dl_info self;
  if (dladdr((void*)&take_option, &self) != 0 && self.dli_fname != NULL && strchr(self.dli_fname, '/') != NULL) {
    snprintf(scripts, sizeof scripts, "%s", self.dli_fname);
    *strrchr(scripts, '/') = '\0';
  }
  for (int i = 0; i < count; ++i) {
    if (strncmp(arguments[i], kScripts, sizeof kScripts - 1) == 0) {
      snprintf(scripts, sizeof scripts, "%s", arguments[i] + sizeof kScripts - 1);
    } else if (strcmp(arguments[i], "environment_only") == 0) {
      environment_only = true;
    } else {
      slurm_error("cairn: plugstack.conf: \"%s\" is neither scripts=DIR nor environment_only", arguments[i]);
    }
  }
}

int slurm_spank_init(spank_t spank, int count, char** arguments) {
  take_arguments(count, arguments);
  if (spank_context() == S_CTX_SLURMD) return ESPANK_SUCCESS;
  return spank_option_register(spank, &option);
}

/* --- where the job is submitted: srun, sbatch, salloc --- */

/* The steps of a script get both from its environment; prolog and epilog get SPANK_CAIRN and SPANK_CAIRN_PREFIX. */
int slurm_spank_init_post_opt(spank_t spank, int count, char** arguments) {
  (void)count;
  (void)arguments;
  const spank_context_t where = spank_context();
  if (!asked || (where != S_CTX_LOCAL && where != S_CTX_ALLOCATOR)) return ESPANK_SUCCESS;
  const char* const inherited = getenv("CAIRN_PREFIX");
  if (prefix[0] == '\0' && is_given(inherited)) snprintf(prefix, sizeof prefix, "%s", inherited);
  spank_job_control_setenv(spank, "CAIRN", "1", 1);
  if (prefix[0] == '\0') return ESPANK_SUCCESS;
  spank_job_control_setenv(spank, "CAIRN_PREFIX", prefix, 1);
  if (setenv("CAIRN_PREFIX", prefix, 1) != 0) slurm_error("cairn: CAIRN_PREFIX: %s", strerror(errno));
  return ESPANK_SUCCESS;
}

/* In srun, once for a step: one question to the controller. The end that the environment has may be of another job,
 * from whose script this one was submitted. */
int slurm_spank_local_user_init(spank_t spank, int count, char** arguments) {
  (void)count;
  (void)arguments;
  uint32_t job = 0;
  time_t end = 0;
  char text[kNumberBytes];
  if (!asked) return ESPANK_SUCCESS;
  if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS || slurm_get_end_time(job, &end) != 0) {
    return ESPANK_SUCCESS;
  }
  snprintf(text, sizeof text, "%lld", (long long)end);
  setenv("CAIRN_END_TIME", text, 1);
  return ESPANK_SUCCESS;
}

/* --- on the nodes --- */

/* As the user, once for a step: what the option says counts more than what the environment of the submission had. */
int slurm_spank_user_init(spank_t spank, int count, char** arguments) {
  (void)count;
  (void)arguments;
  if (asked && prefix[0] != '\0' && spank_setenv(spank, "CAIRN_PREFIX", prefix, 1) != ESPANK_SUCCESS) {
    slurm_error("cairn: CAIRN_PREFIX could not be set for the tasks");
  }
  return ESPANK_SUCCESS;
}

static void set_number(const char* name, uint32_t number) {
  char text[kNumberBytes];
  snprintf(text, sizeof text, "%u", number);
  setenv(name, text, 1);
}

/* A script that was killed or cannot be run is no fault of the node. */
static int run_script(const char* name, uint32_t job, uid_t user, gid_t group) {
  char path[kScriptsBytesMax + 16];
  snprintf(path, sizeof path, "%s/%s", scripts, name);
  const pid_t child = fork();
  if (child < 0) {
    slurm_error("cairn: %s: %s", path, strerror(errno));
    return ESPANK_SUCCESS;
  }
  if (child == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGCHLD, SIG_DFL);
    /* slurmstepd has closed its standard input here: a shell would take the next descriptor for it. */
    const int nothing = open("/dev/null", O_RDWR);
    for (int fd = STDIN_FILENO; nothing >= 0 && fd <= STDERR_FILENO; ++fd) dup2(nothing, fd);
    set_number("SLURM_JOB_ID", job);
    set_number("SLURM_JOB_UID", user);
    if (group != 0) set_number("SLURM_JOB_GID", group);
    execl(path, path, (char*)NULL);
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return ESPANK_SUCCESS;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) slurm_error("cairn: %s ended with status %#x", path, status);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1 ? ESPANK_ERROR : ESPANK_SUCCESS;
}

/* Beside slurmd's own prolog and epilog, as root, in a process of their own that has not called slurm_spank_init. */
static int run_for_job(spank_t spank, const char* name, int count, char** arguments) {
  uint32_t job = 0;
  uid_t user = 0;
  gid_t group = 0; /* the scripts find it out by themselves if Slurm does not say */
  char* argument = NULL;
  take_arguments(count, arguments);
  if (environment_only) return ESPANK_SUCCESS;
  if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_UID, &user) != ESPANK_SUCCESS) {
    slurm_error("cairn: %s: Slurm does not say whose job this is", name);
    return ESPANK_SUCCESS;
  }
  if (spank_get_item(spank, S_JOB_GID, &group) != ESPANK_SUCCESS) group = 0;
  if (spank_option_getopt(spank, &option, &argument) == ESPANK_SUCCESS) {
    setenv("SPANK_CAIRN", "1", 1);
    if (is_given(argument) && argument[0] == '/') setenv("SPANK_CAIRN_PREFIX", argument, 1);
  }
  return run_script(name, job, user, group);
}

int slurm_spank_job_prolog(spank_t spank, int count, char** arguments) {
  return run_for_job(spank, "prolog", count, arguments);
}

int slurm_spank_job_epilog(spank_t spank, int count, char** arguments) {
  run_for_job(spank, "epilog", count, arguments);
  return ESPANK_SUCCESS;
}
