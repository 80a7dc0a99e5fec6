#include "client/library/gather.h"

#include <string.h>

#include "client/copy/copy.h"

/* Rows shorter than this are put together in a block that fits the first cache before they are streamed out. */
#define ROW_BYTES_LONG 2048u
#define STAGE_BYTES 16384u

void lc_box_make_flat(uint64_t bytes, struct lc_box* box) {
  memset(box, 0, sizeof *box);
  box->row_bytes = bytes;
  box->bytes = bytes;
}

/* Does the box lie inside the memory, and can all of it be counted in bytes? */
static bool fits(uint64_t element_bytes, int32_t dimensions, const uint64_t* count, const uint64_t* memory,
                 const uint64_t* start) {
  uint64_t bytes = element_bytes;
  for (int32_t d = 0; d < dimensions; ++d) {
    if (start[d] > memory[d] || count[d] > memory[d] - start[d]) return false;
    if (__builtin_mul_overflow(bytes, memory[d], &bytes) || bytes > INT64_MAX) return false;
  }
  return true;
}

bool lc_box_make(uint64_t element_bytes, int32_t dimensions, const uint64_t* count, const uint64_t* memory,
                 const uint64_t* start, struct lc_box* box) {
  memset(box, 0, sizeof *box);
  if (!fits(element_bytes, dimensions, count, memory, start)) return false;
  box->row_bytes = element_bytes;
  box->bytes = element_bytes;
  uint64_t stride = element_bytes;
  bool together = true; /* so far every faster dimension is whole in memory */
  uint64_t counts[LC_DIMENSIONS_MAX], strides[LC_DIMENSIONS_MAX];
  int32_t outer = 0; /* counts and strides: fastest first */
  for (int32_t d = dimensions - 1; d >= 0; --d) {
    box->first += start[d] * stride;
    box->bytes *= count[d];
    if (together) {
      box->row_bytes *= count[d];
    } else if (count[d] != 1) {
      counts[outer] = count[d];
      strides[outer++] = stride;
    }
    together = together && count[d] == memory[d];
    stride *= memory[d];
  }
  if (box->bytes == 0) {
    lc_box_make_flat(0, box);
    return true;
  }
  box->dimensions = outer;
  for (int32_t d = 0; d < outer; ++d) {
    box->count[d] = counts[outer - 1 - d];
    box->stride[d] = strides[outer - 1 - d];
  }
  return true;
}

uint64_t lc_box_end(const struct lc_box* box) {
  uint64_t end = box->first;
  if (box->bytes == 0) return end;
  for (int32_t d = 0; d < box->dimensions; ++d) end += (box->count[d] - 1) * box->stride[d];
  return end + box->row_bytes;
}

/* Where a walk over the rows of a box is. */
struct cursor {
  const struct lc_box* box;
  uint64_t index[LC_DIMENSIONS_MAX];
  uint64_t row;    /* byte in memory where this row begins */
  uint64_t within; /* bytes of this row that are done */
};

static void cursor_start(struct cursor* cursor, const struct lc_box* box, uint64_t offset) {
  uint64_t number = offset / box->row_bytes;
  cursor->box = box;
  cursor->within = offset % box->row_bytes;
  cursor->row = box->first;
  for (int32_t d = box->dimensions - 1; d >= 0; --d) {
    cursor->index[d] = number % box->count[d];
    number /= box->count[d];
    cursor->row += cursor->index[d] * box->stride[d];
  }
}

static void cursor_next_row(struct cursor* cursor) {
  const struct lc_box* box = cursor->box;
  cursor->within = 0;
  for (int32_t d = box->dimensions - 1; d >= 0; --d) {
    cursor->row += box->stride[d];
    if (++cursor->index[d] < box->count[d]) return;
    cursor->row -= box->stride[d] * box->count[d];
    cursor->index[d] = 0;
  }
}

/* The next run of at most `bytes_max` bytes that lie together: where it is in memory, how long it is. */
static uint64_t cursor_run(struct cursor* cursor, uint64_t bytes_max, uint64_t* place) {
  const uint64_t left = cursor->box->row_bytes - cursor->within;
  const uint64_t bytes = left < bytes_max ? left : bytes_max;
  *place = cursor->row + cursor->within;
  cursor->within += bytes;
  if (cursor->within == cursor->box->row_bytes) cursor_next_row(cursor);
  return bytes;
}

static void gather_rows(uint8_t* packed, const uint8_t* base, struct cursor* cursor, uint64_t bytes) {
  uint64_t place;
  while (bytes > 0) {
    const uint64_t run = cursor_run(cursor, bytes, &place);
    memcpy(packed, base + place, run);
    packed += run;
    bytes -= run;
  }
}

void lc_gather(void* packed, const void* base, const struct lc_box* box, uint64_t offset, uint64_t bytes) {
  uint8_t* target = packed;
  if (bytes == 0) return;
  struct cursor cursor;
  cursor_start(&cursor, box, offset);
  while (bytes > 0) {
    uint64_t run, place;
    if (box->row_bytes >= ROW_BYTES_LONG) {
      run = cursor_run(&cursor, bytes, &place);
      lc_copy(target, (const uint8_t*)base + place, run);
    } else {
      uint8_t stage[STAGE_BYTES];
      run = bytes < sizeof stage ? bytes : sizeof stage;
      gather_rows(stage, base, &cursor, run);
      lc_copy(target, stage, run);
    }
    target += run;
    bytes -= run;
  }
}

void lc_scatter(void* base, const void* packed, const struct lc_box* box, uint64_t offset, uint64_t bytes) {
  const uint8_t* source = packed;
  if (bytes == 0) return;
  struct cursor cursor;
  cursor_start(&cursor, box, offset);
  while (bytes > 0) {
    uint64_t place;
    const uint64_t run = cursor_run(&cursor, bytes, &place);
    memcpy((uint8_t*)base + place, source, run);
    source += run;
    bytes -= run;
  }
}

void lc_scatter_rows(void* base, const void* source, const struct lc_box* box, const struct lc_rows* rows) {
  uint8_t* target = base;
  const uint8_t* from = source;
  if (box->dimensions == 0) {
    for (uint64_t i = 0; i < rows->rows; ++i) {
      memcpy(target + box->first + rows->offset + i * rows->stride, from + i * rows->source_stride, rows->bytes);
    }
    return;
  }
  /* One row of the box after the other: the walk goes on instead of starting anew. */
  if (rows->stride == box->row_bytes && rows->offset % box->row_bytes + rows->bytes <= box->row_bytes) {
    struct cursor cursor;
    cursor_start(&cursor, box, rows->offset);
    const uint64_t within = cursor.within;
    for (uint64_t i = 0; i < rows->rows; ++i) {
      memcpy(target + cursor.row + within, from + i * rows->source_stride, rows->bytes);
      cursor_next_row(&cursor);
    }
    return;
  }
  for (uint64_t i = 0; i < rows->rows; ++i) {
    lc_scatter(base, from + i * rows->source_stride, box, rows->offset + i * rows->stride, rows->bytes);
  }
}

void lc_fill_box(void* base, const struct lc_box* box, const void* element, uint64_t bytes) {
  if (box->bytes == 0) return;
  struct cursor cursor;
  cursor_start(&cursor, box, 0);
  for (uint64_t done = 0; done < box->bytes; done += box->row_bytes) {
    uint8_t* row = (uint8_t*)base + cursor.row;
    for (uint64_t i = 0; i < box->row_bytes; i += bytes) memcpy(row + i, element, bytes);
    cursor_next_row(&cursor);
  }
}
