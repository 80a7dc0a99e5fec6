#include "client/library/messages.h"

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
  const size_t each = sizeof(Cairn__Local__Variable) + sizeof(*listed->variables) + sizeof(*listed->messages);
  *listed = (struct lc_listed){.count = count, .memory = malloc(count * each + 1)};
  if (listed->memory == NULL) return false;
  Cairn__Local__Variable* messages = listed->memory;
  listed->messages = (Cairn__Local__Variable**)(messages + count);
  listed->variables = (struct lc_variable**)(listed->messages + count);
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

static bool within(uint64_t offset, uint64_t bytes, uint64_t limit) {
  return offset <= limit && bytes <= limit - offset;
}

static int check_piece(const Cairn__Local__Plan* plan, size_t i, const struct lc_listed* listed,
                       const uint64_t* image_bytes, struct lc_why* why) {
  const uint64_t bytes = plan->bytes[i];
  if (plan->variable[i] >= listed->count) {
    return lc_because(why, CAIRN_INTERNAL, "piece %zu of the plan is of variable %u of %zu", i, plan->variable[i],
                      listed->count);
  }
  const struct lc_variable* v = listed->variables[plan->variable[i]];
  if (bytes == 0 || !within(plan->variable_offset[i], bytes, v->box.bytes)) {
    return lc_because(why, CAIRN_INTERNAL, "piece %zu of the plan, %llu bytes at %llu, is not in variable %d of %llu",
                      i, (unsigned long long)bytes, (unsigned long long)plan->variable_offset[i], v->id,
                      (unsigned long long)v->box.bytes);
  }
  if (image_bytes != NULL && !within(plan->image_offset[i], bytes, *image_bytes)) {
    return lc_because(why, CAIRN_INTERNAL, "piece %zu of the plan, %llu bytes at %llu, is not in the image of %llu", i,
                      (unsigned long long)bytes, (unsigned long long)plan->image_offset[i],
                      (unsigned long long)*image_bytes);
  }
  if (image_bytes == NULL && bytes > CAIRN_FRAME_BYTES_MAX - PIECE_OVERHEAD_BYTES) {
    return lc_because(why, CAIRN_INTERNAL, "piece %zu of the plan has %llu bytes: too many for a message", i,
                      (unsigned long long)bytes);
  }
  return CAIRN_OK;
}

/* Counts the bytes that the plan names of each variable: a cheap proof that none is forgotten. */
static int check_whole(const Cairn__Local__Plan* plan, const struct lc_listed* listed, bool once, struct lc_why* why) {
  uint64_t* named = calloc(listed->count + 1, sizeof *named);
  if (named == NULL) return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "no memory to check the plan");
  const size_t count = plan != NULL ? plan->n_bytes : 0;
  int code = CAIRN_OK;
  for (size_t i = 0; i < count; ++i) {
    uint64_t* sum = &named[plan->variable[i]];
    if (__builtin_add_overflow(*sum, plan->bytes[i], sum)) *sum = UINT64_MAX;
  }
  for (size_t i = 0; i < listed->count && code == CAIRN_OK; ++i) {
    const uint64_t bytes = listed->variables[i]->box.bytes;
    if (named[i] < bytes || (once && named[i] > bytes)) {
      code = lc_because(why, CAIRN_INTERNAL, "the plan names %llu bytes of variable %d, which has %llu",
                        (unsigned long long)named[i], listed->variables[i]->id, (unsigned long long)bytes);
    }
  }
  free(named);
  return code;
}

int lc_check_plan(const Cairn__Local__Plan* plan, const struct lc_listed* listed, const uint64_t* image_bytes,
                  bool once, struct lc_why* why) {
  const size_t count = plan != NULL ? plan->n_bytes : 0;
  if (plan != NULL && (plan->n_variable != count || plan->n_variable_offset != count ||
                       (image_bytes != NULL && plan->n_image_offset != count) ||
                       (plan->n_after_released != 0 && plan->n_after_released != count))) {
    return lc_because(why, CAIRN_INTERNAL, "the plan's columns differ in length: %zu, %zu, %zu, %zu, %zu",
                      plan->n_variable, plan->n_variable_offset, plan->n_image_offset, count, plan->n_after_released);
  }
  for (size_t i = 0; i < count; ++i) {
    const int code = check_piece(plan, i, listed, image_bytes, why);
    if (code != CAIRN_OK) return code;
  }
  return check_whole(plan, listed, once, why);
}
