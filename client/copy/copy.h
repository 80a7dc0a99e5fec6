/* Copies into shared memory that another process reads next: past the caches, so that the application keeps its own. */
#ifndef CAIRN_CLIENT_COPY_COPY_H_
#define CAIRN_CLIENT_COPY_COPY_H_

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As memcpy; large copies with the widest non-temporal stores that the processor has. When it returns, another
 * processor that is told so sees the bytes. */
void lc_copy(void* target, const void* source, size_t bytes);

/* The ways of lc_copy, the fastest first: for the test that compares each with memcpy, and for `cairn doctor`. */
struct lc_copy_way {
  const char* name; /* of the stores; "memcpy": not past the caches */
  bool (*works_here)(void);
  void (*copy)(void* target, const void* source, size_t bytes);
};
extern const struct lc_copy_way lc_copy_ways[];
extern const size_t lc_copy_way_count;
const struct lc_copy_way* lc_copy_way_here(void); /* which lc_copy takes for large copies */

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_COPY_COPY_H_ */
