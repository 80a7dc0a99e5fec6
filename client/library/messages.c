#include "client/library/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cairn.h"
#include "proto/frame.h"

/* A Piece's other fields and the Request around it fit into this. */
#define PIECE_OVERHEAD_BYTES 256u

static void describe(struct lc_variable* variable, Cairn__Local__Variable* message) {
  cairn__local__variable__init(message);
  message->id = variable->id;
  message->kind = (Cairn__Local__Kind)variable->kind;
  message->type = variable->type;
  if (variable->name != NULL) message->name = variable->name;
  message->count = variable->count;
  message->bytes = variable->box.bytes;
  message->n_shape = message->n_box_start = message->n_box_count = (size_t)variable->ndims;
  message->shape = variable->shape;
  message->box_start = variable->start;
  message->box_count = variable->box_count;
}

bool lc_list_variables(const struct lc_variables* variables, struct lc_listed* listed) {
  const size_t count = variables->count;
  const size_t each =
      sizeof(Cairn__Local__Variable) + sizeof(*listed->variables) + sizeof(*listed->messages) + sizeof(*listed->named);
  *listed = (struct lc_listed){.count = count, .memory = malloc(count * each + 1)};
  if (listed->memory == NULL) return false;
  Cairn__Local__Variable* messages = listed->memory;
  listed->messages = (Cairn__Local__Variable**)(messages + count);
  listed->variables = (struct lc_variable**)(listed->messages + count);
  listed->named = (uint64_t*)(listed->variables + count);
  size_t i = 0;
  for (struct lc_variable* v = variables->first; v != NULL; v = v->next, ++i) {
    describe(v, &messages[i]);
    listed->messages[i] = &messages[i];
    listed->variables[i] = v;
    listed->bytes += v->box.bytes;
  }
  return true;
}

void lc_free_listed(struct lc_listed* listed) {
  free(listed->memory);
  *listed = (struct lc_listed){0};
}

uint64_t lc_rows_of(const Cairn__Local__Plan* plan, size_t piece) {
  return plan->n_rows != 0 ? plan->rows[piece] : 1;
}

/* Do so many rows of `bytes`, `stride` apart, lie below `limit` without touching each other? */
static bool within(uint64_t offset, uint64_t bytes, uint64_t rows, uint64_t stride, uint64_t limit) {
  uint64_t extent;
  if (rows == 0 || (rows > 1 && stride < bytes) || __builtin_mul_overflow(rows - 1, stride, &extent) ||
      __builtin_add_overflow(extent, bytes, &extent)) {
    return false;
  }
  return offset <= limit && extent <= limit - offset;
}

static int misplaced(const Cairn__Local__Plan* plan, size_t i, const char* where, uint64_t offset, uint64_t stride,
                     uint64_t limit, struct lc_why* why) {
  return lc_because(
      why, CAIRN_INTERNAL, "piece %zu of the plan, %llu bytes at %llu (%llu rows, %llu apart), is not in %s of %llu", i,
      (unsigned long long)plan->bytes[i], (unsigned long long)offset, (unsigned long long)lc_rows_of(plan, i),
      (unsigned long long)stride, where, (unsigned long long)limit);
}

static int check_piece(const Cairn__Local__Plan* plan, size_t i, const struct lc_listed* listed,
                       const uint64_t* image_bytes, struct lc_why* why) {
  const uint64_t bytes = plan->bytes[i], rows = lc_rows_of(plan, i);
  const uint64_t variable_stride = plan->n_rows != 0 ? plan->variable_stride[i] : 0;
  const uint64_t image_stride = plan->n_rows != 0 ? plan->image_stride[i] : 0;
  if (plan->variable[i] >= listed->count) {
    return lc_because(why, CAIRN_INTERNAL, "piece %zu of the plan is of variable %u of %zu", i, plan->variable[i],
                      listed->count);
  }
  const struct lc_variable* v = listed->variables[plan->variable[i]];
  if (bytes == 0 || !within(plan->variable_offset[i], bytes, rows, variable_stride, v->box.bytes)) {
    char variable[32];
    snprintf(variable, sizeof variable, "variable %d", v->id);
    return misplaced(plan, i, variable, plan->variable_offset[i], variable_stride, v->box.bytes, why);
  }
  if (image_bytes != NULL && !within(plan->image_offset[i], bytes, rows, image_stride, *image_bytes)) {
    return misplaced(plan, i, "the image", plan->image_offset[i], image_stride, *image_bytes, why);
  }
  /* Rows that do not overlap in a variable are not more than its bytes: no overflow. */
  if (image_bytes == NULL && bytes * rows > CAIRN_FRAME_BYTES_MAX - PIECE_OVERHEAD_BYTES) {
    return lc_because(why, CAIRN_INTERNAL, "piece %zu of the plan has %llu bytes: too many for a message", i,
                      (unsigned long long)(bytes * rows));
  }
  return CAIRN_OK;
}

static void name_more(uint64_t* sum, uint64_t bytes) {
  if (__builtin_add_overflow(*sum, bytes, sum)) *sum = UINT64_MAX;
}

/* Counts the bytes that the plan names of each variable: a cheap proof that none is forgotten. */
static int check_whole(const Cairn__Local__Plan* plan, const struct lc_straight* straight,
                       const struct lc_listed* listed, bool once, struct lc_why* why) {
  const size_t count = plan != NULL ? plan->n_bytes : 0, files = straight != NULL ? straight->files : 0;
  memset(listed->named, 0, listed->count * sizeof *listed->named);
  for (size_t i = 0; i < count; ++i) {
    name_more(&listed->named[plan->variable[i]], plan->bytes[i] * lc_rows_of(plan, i));
  }
  for (size_t i = 0; i < files; ++i) {
    const Cairn__Local__Straight* of_file = straight->blocks[i];
    for (size_t run = 0; run < of_file->n_blocks; ++run) {
      name_more(&listed->named[of_file->variable[run]], of_file->blocks[run] * LC_STRAIGHT_BLOCK_BYTES);
    }
  }
  for (size_t i = 0; i < listed->count; ++i) {
    const uint64_t bytes = listed->variables[i]->box.bytes, named = listed->named[i];
    if ((named < bytes && !listed->messages[i]->holes) || (once && named > bytes)) {
      return lc_because(why, CAIRN_INTERNAL, "the plan names %llu bytes of variable %d, which has %llu",
                        (unsigned long long)named, listed->variables[i]->id, (unsigned long long)bytes);
    }
  }
  return CAIRN_OK;
}

static int check_columns(const Cairn__Local__Plan* plan, const uint64_t* image_bytes, bool once, struct lc_why* why) {
  const size_t count = plan->n_bytes;
  if (plan->n_variable != count || plan->n_variable_offset != count ||
      (image_bytes != NULL && plan->n_image_offset != count) ||
      (plan->n_after_released != 0 && plan->n_after_released != count)) {
    return lc_because(why, CAIRN_INTERNAL, "the plan's columns differ in length: %zu, %zu, %zu, %zu, %zu",
                      plan->n_variable, plan->n_variable_offset, plan->n_image_offset, count, plan->n_after_released);
  }
  if ((plan->n_rows != 0 && (plan->n_rows != count || once)) || plan->n_variable_stride != plan->n_rows ||
      plan->n_image_stride != plan->n_rows) {
    return lc_because(why, CAIRN_INTERNAL, "the plan has %zu, %zu and %zu rows and strides for %zu pieces%s",
                      plan->n_rows, plan->n_variable_stride, plan->n_image_stride, count,
                      once ? " of a checkpoint" : "");
  }
  return CAIRN_OK;
}

int lc_check_plan(const Cairn__Local__Plan* plan, const struct lc_straight* straight, const struct lc_listed* listed,
                  const uint64_t* image_bytes, bool once, struct lc_why* why) {
  const size_t count = plan != NULL ? plan->n_bytes : 0;
  int code = plan != NULL ? check_columns(plan, image_bytes, once, why) : CAIRN_OK;
  for (size_t i = 0; i < count && code == CAIRN_OK; ++i) code = check_piece(plan, i, listed, image_bytes, why);
  return code == CAIRN_OK ? check_whole(plan, straight, listed, once, why) : code;
}
