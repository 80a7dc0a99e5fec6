/* Several threads copy pieces of a checkpoint at once, if the user asks for it (CAIRN_COPY_THREADS): one core cannot
 * use all of a node's memory bandwidth. The threads live for one call. They take no signals of the application, only
 * those of their own faults. */
#ifndef CAIRN_CLIENT_LIBRARY_COPIERS_H_
#define CAIRN_CLIENT_LIBRARY_COPIERS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LC_COPIERS_MAX 64u

struct lc_pieces {
  void (*copy)(void* context, size_t index); /* any thread, each index once */
  void* context;
  size_t from, to;
  int64_t deadline; /* nothing is begun after it */
};

/* Copies all of [from, to), or as much as the deadline allows; returns the end of what is copied without a gap. The
 * calling thread is one of `threads`, and the only one if the system gives no more. */
size_t lc_copy_pieces(const struct lc_pieces* pieces, unsigned threads);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_COPIERS_H_ */
