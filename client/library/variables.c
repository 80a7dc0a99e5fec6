#include "client/library/variables.h"

#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"

uint64_t lc_type_bytes(int32_t type) {
  switch (type) {
    case CAIRN_INT8:
    case CAIRN_UINT8:
    case CAIRN_CHAR:
      return 1;
    case CAIRN_INT16:
    case CAIRN_UINT16:
      return 2;
    case CAIRN_INT32:
    case CAIRN_UINT32:
    case CAIRN_FLOAT:
      return 4;
    case CAIRN_INT64:
    case CAIRN_UINT64:
    case CAIRN_DOUBLE:
    case CAIRN_COMPLEX_FLOAT:
      return 8;
    case CAIRN_LONG_DOUBLE:
    case CAIRN_COMPLEX_DOUBLE:
      return 16;
    default:
      return 0;
  }
}

/* What all kinds have in common. */
static int start_variable(int32_t id, const char* name, int32_t type, struct lc_variable* variable,
                          struct lc_why* why) {
  memset(variable, 0, sizeof *variable);
  if (id < 0) return lc_because(why, CAIRN_INVALID_ARGUMENT, "id %d: must be 0 to 2147483647", id);
  if (lc_type_bytes(type) == 0) {
    return lc_because(why, CAIRN_INVALID_ARGUMENT, "variable %d: there is no type %d", id, type);
  }
  if (name != NULL && (name[0] == '\0' || !lc_is_utf8(name) || strlen(name) > CAIRN_NAME_BYTES_MAX)) {
    return lc_because(why, CAIRN_INVALID_ARGUMENT, "variable %d: its name must have 1 to %u bytes of UTF-8", id,
                      CAIRN_NAME_BYTES_MAX);
  }
  variable->id = id;
  variable->type = (uint32_t)type;
  return CAIRN_OK;
}

static int finish_variable(const char* name, void* data, struct lc_variable* variable, struct lc_why* why) {
  if (data == NULL && variable->box.bytes > 0) {
    return lc_because(why, CAIRN_INVALID_ARGUMENT, "variable %d: data is NULL", variable->id);
  }
  variable->data = data;
  variable->name = lc_duplicate(name);
  if (name != NULL && variable->name == NULL) {
    return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "variable %d: no memory for its name", variable->id);
  }
  return CAIRN_OK;
}

int lc_variable_make(int32_t id, const char* name, void* data, uint64_t count, int32_t type,
                     struct lc_variable* variable, struct lc_why* why) {
  const int code = start_variable(id, name, type, variable, why);
  if (code != CAIRN_OK) return code;
  uint64_t bytes;
  if (__builtin_mul_overflow(count, lc_type_bytes(type), &bytes) || bytes > INT64_MAX) {
    return lc_because(why, CAIRN_INVALID_ARGUMENT, "variable %d: %llu elements are more than an address space holds",
                      id, (unsigned long long)count);
  }
  variable->kind = name == NULL ? CAIRN_KIND_PLAIN : CAIRN_KIND_VALUE;
  variable->count = count;
  lc_box_make_flat(bytes, &variable->box);
  return finish_variable(name, data, variable, why);
}

/* Does the box lie in the global array, and can that array's elements be counted? */
static int check_shape(int32_t id, const struct lc_array* array, uint64_t element_bytes, struct lc_why* why) {
  uint64_t bytes = element_bytes;
  for (int32_t d = 0; d < array->ndims; ++d) {
    if (array->start[d] > array->shape[d] || array->count[d] > array->shape[d] - array->start[d]) {
      return lc_because(why, CAIRN_INVALID_ARGUMENT,
                        "variable %d: dimension %d of the box, %llu elements from %llu, exceeds the shape's %llu", id,
                        d, (unsigned long long)array->count[d], (unsigned long long)array->start[d],
                        (unsigned long long)array->shape[d]);
    }
    if (__builtin_mul_overflow(bytes, array->shape[d], &bytes) || bytes > INT64_MAX) {
      return lc_because(why, CAIRN_INVALID_ARGUMENT, "variable %d: the shape has more than 2^63 bytes", id);
    }
  }
  return CAIRN_OK;
}

int lc_variable_make_array(int32_t id, const char* name, void* data, int32_t type, const struct lc_array* array,
                           struct lc_variable* variable, struct lc_why* why) {
  static const uint64_t kOrigin[CAIRN_DIMS_MAX] = {0};
  int code = start_variable(id, name, type, variable, why);
  if (code != CAIRN_OK) return code;
  if (name == NULL || array->shape == NULL || array->start == NULL || array->count == NULL ||
      (array->mem_count == NULL) != (array->mem_start == NULL)) {
    return lc_because(why, CAIRN_INVALID_ARGUMENT,
                      "variable %d: an array needs name, shape, start and count, and mem_count with mem_start or "
                      "neither",
                      id);
  }
  if (array->ndims < 1 || array->ndims > CAIRN_DIMS_MAX) {
    return lc_because(why, CAIRN_INVALID_ARGUMENT, "variable %d: %d dimensions, must be 1 to %d", id, array->ndims,
                      CAIRN_DIMS_MAX);
  }
  code = check_shape(id, array, lc_type_bytes(type), why);
  if (code != CAIRN_OK) return code;
  if (!lc_box_make(lc_type_bytes(type), array->ndims, array->count,
                   array->mem_count != NULL ? array->mem_count : array->count,
                   array->mem_start != NULL ? array->mem_start : kOrigin, &variable->box)) {
    return lc_because(why, CAIRN_INVALID_ARGUMENT, "variable %d: mem_start and count do not lie within mem_count", id);
  }
  const size_t bytes = (size_t)array->ndims * sizeof(uint64_t);
  memcpy(variable->shape, array->shape, bytes);
  memcpy(variable->start, array->start, bytes);
  memcpy(variable->box_count, array->count, bytes);
  variable->kind = CAIRN_KIND_ARRAY;
  variable->ndims = array->ndims;
  variable->count = variable->box.bytes / lc_type_bytes(type);
  return finish_variable(name, data, variable, why);
}

/* Ids are often dense, or a few bits in high places: mix before taking the low bits. */
static struct lc_variable** bucket_of(const struct lc_variables* variables, int32_t id) {
  const uint32_t mixed = (uint32_t)id * 0x9E3779B1u;
  return &variables->buckets[(mixed ^ (mixed >> 16)) & (variables->bucket_count - 1)];
}

static bool grow(struct lc_variables* variables) {
  if (variables->count < variables->bucket_count) return true;
  const size_t count = variables->bucket_count == 0 ? 16 : variables->bucket_count * 2;
  struct lc_variable** buckets = calloc(count, sizeof *buckets);
  if (buckets == NULL) return false;
  free(variables->buckets);
  variables->buckets = buckets;
  variables->bucket_count = count;
  for (struct lc_variable* v = variables->first; v != NULL; v = v->next) {
    struct lc_variable** bucket = bucket_of(variables, v->id);
    v->chain = *bucket;
    *bucket = v;
  }
  return true;
}

struct lc_variable* lc_variables_find(const struct lc_variables* variables, int32_t id) {
  if (variables->bucket_count == 0) return NULL;
  struct lc_variable* v = *bucket_of(variables, id);
  while (v != NULL && v->id != id) v = v->chain;
  return v;
}

static uint64_t rounded_bytes(const struct lc_variable* variable) {
  return (variable->box.bytes + 4095) & ~(uint64_t)4095;
}

static void replace(struct lc_variables* variables, struct lc_variable* there, const struct lc_variable* variable) {
  struct lc_variable* const next = there->next;
  struct lc_variable* const before = there->before;
  struct lc_variable* const chain = there->chain;
  if (there->spoiled) --variables->spoiled;
  variables->bytes += rounded_bytes(variable) - rounded_bytes(there);
  free(there->name);
  *there = *variable;
  there->next = next;
  there->before = before;
  there->chain = chain;
}

int lc_variables_put(struct lc_variables* variables, const struct lc_variable* variable, struct lc_why* why) {
  struct lc_variable* there = lc_variables_find(variables, variable->id);
  if (there != NULL) {
    replace(variables, there, variable);
    return CAIRN_OK;
  }
  if (variables->count >= CAIRN_VARIABLES_MAX) {
    free(variable->name);
    return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "more than %u variables", CAIRN_VARIABLES_MAX);
  }
  there = malloc(sizeof *there);
  if (there == NULL || !grow(variables)) {
    free(there);
    free(variable->name);
    return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "no memory for variable %d", variable->id);
  }
  struct lc_variable** bucket = bucket_of(variables, variable->id);
  *there = *variable;
  there->next = NULL;
  there->before = variables->last;
  there->chain = *bucket;
  *bucket = there;
  if (variables->last != NULL) variables->last->next = there;
  if (variables->first == NULL) variables->first = there;
  variables->last = there;
  ++variables->count;
  variables->bytes += rounded_bytes(there);
  return CAIRN_OK;
}

bool lc_variables_remove(struct lc_variables* variables, int32_t id) {
  struct lc_variable* v = lc_variables_find(variables, id);
  if (v == NULL) return false;
  struct lc_variable** link = bucket_of(variables, id);
  while (*link != v) link = &(*link)->chain;
  *link = v->chain;
  if (v->before != NULL) v->before->next = v->next;
  if (v->next != NULL) v->next->before = v->before;
  if (variables->first == v) variables->first = v->next;
  if (variables->last == v) variables->last = v->before;
  --variables->count;
  variables->bytes -= rounded_bytes(v);
  if (v->spoiled) --variables->spoiled;
  free(v->name);
  free(v);
  return true;
}

static void set_spoiled(struct lc_variables* variables, bool spoiled) {
  for (struct lc_variable* v = variables->first; v != NULL; v = v->next) v->spoiled = spoiled;
  variables->spoiled = spoiled ? variables->count : 0;
}

void lc_variables_spoil(struct lc_variables* variables) {
  set_spoiled(variables, true);
}

void lc_variables_mend(struct lc_variables* variables) {
  set_spoiled(variables, false);
}

bool lc_variables_spoiled(const struct lc_variables* variables) {
  return variables->spoiled > 0;
}

bool lc_variables_overlap(const struct lc_variables* variables, const struct lc_variable* memory) {
  const uintptr_t base = (uintptr_t)memory->data;
  for (const struct lc_variable* v = variables->first; v != NULL; v = v->next) {
    const uintptr_t at = (uintptr_t)v->data;
    if (v->box.bytes == 0) continue;
    if (at + v->box.first < base + lc_box_end(&memory->box) && base + memory->box.first < at + lc_box_end(&v->box)) {
      return true;
    }
  }
  return false;
}

void lc_variables_free(struct lc_variables* variables) {
  for (struct lc_variable* v = variables->first; v != NULL;) {
    struct lc_variable* next = v->next;
    free(v->name);
    free(v);
    v = next;
  }
  free(variables->buckets);
  memset(variables, 0, sizeof *variables);
}
