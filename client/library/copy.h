/* Copies into shared memory that another process reads next: past the caches, so that the application keeps its own. */
#ifndef CAIRN_CLIENT_LIBRARY_COPY_H_
#define CAIRN_CLIENT_LIBRARY_COPY_H_

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As memcpy; large copies with the widest non-temporal stores that the processor has. When it returns, another
 * processor that is told so sees the bytes. */
void lc_copy(void* target, const void* source, size_t bytes);

/* The ways of lc_copy, for the test that compares each with memcpy. */
struct lc_copy_way {
  const char* name;
  bool (*works_here)(void);
  void (*copy)(void* target, const void* source, size_t bytes);
};
extern const struct lc_copy_way lc_copy_ways[];
extern const size_t lc_copy_way_count;

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_COPY_H_ */
