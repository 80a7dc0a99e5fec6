// CAIRN_CHECK: what our own code guarantees, always on. Never for bytes from disk, network or shared memory.
#ifndef CAIRN_STORAGE_BASE_CHECK_H_
#define CAIRN_STORAGE_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define CAIRN_CHECK(condition)                                                                   \
  do {                                                                                           \
    if (!(condition)) [[unlikely]] {                                                             \
      std::fprintf(stderr, "%s:%d: cairn: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                              \
    }                                                                                            \
  } while (false)

#endif  // CAIRN_STORAGE_BASE_CHECK_H_
