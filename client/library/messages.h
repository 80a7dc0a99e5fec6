/* The messages that describe protected memory to the daemon, and the plans that it answers. */
#ifndef CAIRN_CLIENT_LIBRARY_MESSAGES_H_
#define CAIRN_CLIENT_LIBRARY_MESSAGES_H_

#include <stdbool.h>
#include <stdint.h>

#include "client/library/text.h"
#include "client/library/variables.h"
#include "proto/local.pb-c.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LC_STRAIGHT_BLOCK_BYTES (1u << 20) /* what a catalogue has a checksum of */

/* The blocks of files that this process reads into its memory itself. */
struct lc_straight {
  size_t files;
  Cairn__Local__Straight** blocks; /* of each file */
  uint64_t bytes_max;              /* of one read */
  uint32_t reads;                  /* at once */
};

/* The variables in order of first registration, in both forms. The messages borrow from the variables. */
struct lc_listed {
  size_t count;
  struct lc_variable** variables;
  Cairn__Local__Variable** messages;
  uint64_t* named; /* bytes of each variable that the last checked plan names */
  uint64_t bytes;  /* of all of them */
  void* memory;
};

/* False: no memory. */
bool lc_list_variables(const struct lc_variables* variables, struct lc_listed* listed);
void lc_free_listed(struct lc_listed* listed);

/* Checks a plan before it is followed. Every piece, with all of its rows, must lie in its variable and, if
 * `image_bytes` is given, in the image. The pieces must name all bytes of all variables, except of variables that may
 * have holes. With `once` they name as many bytes as there are, in pieces of one row. NULL is a plan without pieces.
 * `image_bytes` NULL: the payload travels in Pieces, which must fit into a frame. `straight`: what such a plan leaves
 * out, checked (straight.h); NULL: nothing. CAIRN_INTERNAL: `why` names piece and field. */
int lc_check_plan(const Cairn__Local__Plan* plan, const struct lc_straight* straight, const struct lc_listed* listed,
                  const uint64_t* image_bytes, bool once, struct lc_why* why);
/* REQUIRES: a plan that was checked. */
uint64_t lc_rows_of(const Cairn__Local__Plan* plan, size_t piece);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_MESSAGES_H_ */
