/* A box of elements inside a larger block of memory, and its packed form: the elements of the box alone, slowest
 * dimension first. Packed bytes are what is stored; any byte range of them can be copied either way. */
#ifndef CAIRN_CLIENT_LIBRARY_GATHER_H_
#define CAIRN_CLIENT_LIBRARY_GATHER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LC_DIMENSIONS_MAX 8

struct lc_box {
  uint64_t first;     /* byte in memory where the box begins */
  uint64_t row_bytes; /* contiguous in memory: the fastest dimensions, as many as lie together */
  uint64_t bytes;     /* of the whole box, packed */
  int32_t dimensions; /* around the rows; 0: the box is one row */
  uint64_t count[LC_DIMENSIONS_MAX];
  uint64_t stride[LC_DIMENSIONS_MAX]; /* bytes in memory from one to the next */
};

/* A box that is one row of `bytes`. */
void lc_box_make_flat(uint64_t bytes, struct lc_box* box);

/* `count` elements at `start` inside `memory`, each an array of `dimensions` (1 to 8). False: the box does not lie in
 * the memory, or the memory has more bytes than a 63 bit number can say. */
bool lc_box_make(uint64_t element_bytes, int32_t dimensions, const uint64_t* count, const uint64_t* memory,
                 const uint64_t* start, struct lc_box* box);

/* One past its last byte in memory; box->first: it has no bytes. */
uint64_t lc_box_end(const struct lc_box* box);

/* Packed bytes [offset, offset + bytes) out of memory at `base` to `packed`, and back.
 * REQUIRES: offset + bytes <= box->bytes, without overflow. lc_gather writes `packed` as lc_copy does. */
void lc_gather(void* packed, const void* base, const struct lc_box* box, uint64_t offset, uint64_t bytes);
void lc_scatter(void* base, const void* packed, const struct lc_box* box, uint64_t offset, uint64_t bytes);

/* `rows` rows of `bytes` each. They are `stride` apart in the packed box, and `source_stride` apart from `source` on.
 * REQUIRES: for each row what lc_scatter requires; rows > 0. */
struct lc_rows {
  uint64_t offset; /* of the first */
  uint64_t bytes;
  uint64_t rows;
  uint64_t stride;
  uint64_t source_stride;
};
void lc_scatter_rows(void* base, const void* source, const struct lc_box* box, const struct lc_rows* rows);

/* Sets all elements of the box, each of `bytes`. */
void lc_fill_box(void* base, const struct lc_box* box, const void* element, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_GATHER_H_ */
