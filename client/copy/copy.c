#include "client/copy/copy.h"

#include <stdint.h>
#include <string.h>

/* Below this the caches help more than they hurt, and lines at the ends would be written in parts. */
#define STREAM_BYTES_MIN 1024u

static bool always(void) {
  return true;
}

static void copy_plain(void* target, const void* source, size_t bytes) {
  if (bytes > 0) memcpy(target, source, bytes);
}

#if defined(__x86_64__)

#include <immintrin.h>

/* Copies up to the first line of `target` and says how much that was. */
static size_t copy_head(uint8_t* target, const uint8_t* source, size_t bytes) {
  size_t head = (size_t)(-(uintptr_t)target & 63u);
  if (head > bytes) head = bytes;
  memcpy(target, source, head);
  return head;
}

#define DEFINE_STREAM(name, instructions, vector, load, store)                                              \
  __attribute__((target(instructions))) static void name(void* to, const void* from, size_t bytes) {        \
    uint8_t* target = to;                                                                                   \
    const uint8_t* source = from;                                                                           \
    if (bytes == 0) return;                                                                                 \
    const size_t head = copy_head(target, source, bytes);                                                   \
    target += head, source += head, bytes -= head;                                                          \
    enum { kStep = 256, kLanes = kStep / sizeof(vector) };                                                  \
    for (; bytes >= kStep; target += kStep, source += kStep, bytes -= kStep) {                              \
      vector lanes[kLanes];                                                                                 \
      for (int i = 0; i < kLanes; ++i) lanes[i] = load((const void*)(source + (size_t)i * sizeof(vector))); \
      for (int i = 0; i < kLanes; ++i) store((void*)(target + (size_t)i * sizeof(vector)), lanes[i]);       \
    }                                                                                                       \
    memcpy(target, source, bytes);                                                                          \
    _mm_sfence();                                                                                           \
  }

DEFINE_STREAM(copy_sse2, "sse2", __m128i, _mm_loadu_si128, _mm_stream_si128)
DEFINE_STREAM(copy_avx2, "avx2", __m256i, _mm256_loadu_si256, _mm256_stream_si256)
DEFINE_STREAM(copy_avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_stream_si512)

static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2") != 0;
}
static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") != 0;
}

const struct lc_copy_way lc_copy_ways[] = {
    {"avx512", has_avx512, copy_avx512},
    {"avx2", has_avx2, copy_avx2},
    {"sse2", always, copy_sse2},
    {"memcpy", always, copy_plain},
};

#else

const struct lc_copy_way lc_copy_ways[] = {{"memcpy", always, copy_plain}};

#endif

const size_t lc_copy_way_count = sizeof(lc_copy_ways) / sizeof(lc_copy_ways[0]);

const struct lc_copy_way* lc_copy_way_here(void) {
  const struct lc_copy_way* way = lc_copy_ways;
  while (!way->works_here()) ++way; /* the last one always does */
  return way;
}

void lc_copy(void* target, const void* source, size_t bytes) {
  if (bytes < STREAM_BYTES_MIN) {
    copy_plain(target, source, bytes);
    return;
  }
  lc_copy_way_here()->copy(target, source, bytes);
}
