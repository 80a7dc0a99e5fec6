/* What the C and C++ examples have in common: their options. */
#ifndef CAIRN_CLIENT_EXAMPLES_OPTIONS_H_
#define CAIRN_CLIENT_EXAMPLES_OPTIONS_H_

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cairn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct example_options {
  uint64_t steps;  /* to compute in all */
  uint64_t every;  /* a checkpoint after so many steps; 0: none, and no daemon is needed */
  uint64_t size;   /* of the problem: what it means is the example's own */
  const char* out; /* file for the final state, raw bytes; NULL: none */
  int32_t level;   /* each checkpoint waits for it */
  uint64_t die_at; /* kills itself (SIGKILL) in the middle of this step; 0: never */
  uint64_t ranks;  /* of examples that start their processes themselves */
} example_options;

static inline void example_usage(const char* program, const example_options* defaults) {
  printf(
      "usage: %s [options]\n"
      "  --steps N    steps to compute in all [%llu]\n"
      "  --every N    a checkpoint after every N steps; 0: none [%llu]\n"
      "  --size N     size of the problem [%llu]\n"
      "  --out FILE   write the final state there, raw\n"
      "  --wait L     after each checkpoint wait until it is local, redundant or prefix [do not wait]\n"
      "  --die-at N   kill itself in the middle of step N, to try a restart\n",
      program, (unsigned long long)defaults->steps, (unsigned long long)defaults->every,
      (unsigned long long)defaults->size);
  if (defaults->ranks != 0) printf("  --ranks N    processes [%llu]\n", (unsigned long long)defaults->ranks);
  printf("The run's directory is $CAIRN_PREFIX. Start it again after a kill: it goes on from the newest checkpoint.\n");
}

static inline int32_t example_level(const char* name) {
  if (strcmp(name, "local") == 0) return CAIRN_LEVEL_LOCAL;
  if (strcmp(name, "redundant") == 0) return CAIRN_LEVEL_REDUNDANT;
  if (strcmp(name, "prefix") == 0) return CAIRN_LEVEL_PREFIX;
  fprintf(stderr, "--wait: %s is none of local, redundant, prefix\n", name);
  exit(2);
}

static inline uint64_t example_number(const char* option, const char* text) {
  char* end = NULL;
  unsigned long long number = strtoull(text, &end, 10);
  if (end == text || *end != '\0' || number > 1000000000ULL) {
    fprintf(stderr, "--%s: %s is not a number up to 10^9\n", option, text);
    exit(2);
  }
  return number;
}

/* Overwrites `options`, which hold the defaults, with what the command line says. Ends the process after --help (0) or
 * an error (2). */
static inline void example_parse(int argc, char** argv, example_options* options) {
  const example_options defaults = *options;
  const struct option known[] = {{"steps", required_argument, NULL, 's'},
                                 {"every", required_argument, NULL, 'e'},
                                 {"size", required_argument, NULL, 'n'},
                                 {"out", required_argument, NULL, 'o'},
                                 {"wait", required_argument, NULL, 'w'},
                                 {"die-at", required_argument, NULL, 'd'},
                                 {"ranks", required_argument, NULL, 'r'},
                                 {"help", no_argument, NULL, 'h'},
                                 {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
    switch (option) {
      case 's':
        options->steps = example_number("steps", optarg);
        break;
      case 'e':
        options->every = example_number("every", optarg);
        break;
      case 'n':
        options->size = example_number("size", optarg);
        break;
      case 'o':
        options->out = optarg;
        break;
      case 'w':
        options->level = example_level(optarg);
        break;
      case 'd':
        options->die_at = example_number("die-at", optarg);
        break;
      case 'r':
        options->ranks = example_number("ranks", optarg);
        break;
      case 'h':
        example_usage(argv[0], &defaults);
        exit(0);
      default:
        exit(2);
    }
  }
  if (optind < argc) {
    fprintf(stderr, "%s: what is %s? --help tells the options\n", argv[0], argv[optind]);
    exit(2);
  }
}

static inline const char* example_tier(int32_t tier) {
  static const char* const kNames[] = {"none", "image", "cache", "partner", "rebuilt", "prefix", "redundant"};
  return tier >= 0 && tier <= CAIRN_TIER_REDUNDANT ? kNames[tier] : "unknown";
}

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_EXAMPLES_OPTIONS_H_ */
