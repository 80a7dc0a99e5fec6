/* The protected memory of a session, by id and in the order of first registration. */
#ifndef CAIRN_CLIENT_LIBRARY_VARIABLES_H_
#define CAIRN_CLIENT_LIBRARY_VARIABLES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cairn.h"
#include "client/library/gather.h"
#include "client/library/text.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lc_variable {
  int32_t id;
  int32_t kind; /* enum cairn_kind */
  uint32_t type;
  int32_t ndims;
  char* name; /* NULL: plain */
  void* data;
  uint64_t count; /* elements stored */
  uint64_t shape[CAIRN_DIMS_MAX];
  uint64_t start[CAIRN_DIMS_MAX];
  uint64_t box_count[CAIRN_DIMS_MAX];
  struct lc_box box;        /* where the bytes are, from `data` on; box.bytes: stored bytes */
  bool spoiled;             /* a failed restore may have written to it, and it was not protected anew since */
  struct lc_variable* next; /* registered after this one */
  struct lc_variable* before;
  struct lc_variable* chain; /* same bucket */
};

struct lc_variables {
  struct lc_variable* first;
  struct lc_variable* last;
  struct lc_variable** buckets;
  size_t bucket_count; /* a power of two, or 0 */
  size_t count;
  size_t spoiled; /* of them */
  uint64_t bytes; /* of all, each rounded up to 4 KiB: about what an image of them has */
};

/* Bytes of an element, 0 for a type that is none of enum cairn_type. */
uint64_t lc_type_bytes(int32_t type);

/* Checks and fills a variable of one dimension or none; `name` NULL for a plain one. On CAIRN_OK the caller owns
 * variable->name until lc_variables_put. */
int lc_variable_make(int32_t id, const char* name, void* data, uint64_t count, int32_t type,
                     struct lc_variable* variable, struct lc_why* why);

struct lc_array {
  int32_t ndims;
  const uint64_t* shape;
  const uint64_t* start;
  const uint64_t* count;
  const uint64_t* mem_count; /* NULL with mem_start: the memory is the box */
  const uint64_t* mem_start;
};
int lc_variable_make_array(int32_t id, const char* name, void* data, int32_t type, const struct lc_array* array,
                           struct lc_variable* variable, struct lc_why* why);

/* Takes the variable over in any case. Replaces one with the same id, and keeps that one's place in the order. */
int lc_variables_put(struct lc_variables* variables, const struct lc_variable* variable, struct lc_why* why);
struct lc_variable* lc_variables_find(const struct lc_variables* variables, int32_t id);
/* False: no such id. */
bool lc_variables_remove(struct lc_variables* variables, int32_t id);
/* Mark all: a restore begins to write to their memory. Clear all: it has succeeded. Is any marked? */
void lc_variables_spoil(struct lc_variables* variables);
void lc_variables_mend(struct lc_variables* variables);
bool lc_variables_spoiled(const struct lc_variables* variables);
/* Has `memory` bytes in common with one of them? */
bool lc_variables_overlap(const struct lc_variables* variables, const struct lc_variable* memory);
void lc_variables_free(struct lc_variables* variables);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_VARIABLES_H_ */
