/* cairn_set_fill and cairn_read. */
#include <stdlib.h>

#include "client/library/capture.h"
#include "client/library/session.h"

int cairn_set_fill(cairn_session* session, const char* name, int32_t type, const void* value) {
  struct lc_call call;
  struct lc_why why;
  int code = lc_enter(&call, session, "cairn_set_fill");
  if (code == CAIRN_OK) {
    const int set = lc_fills_set(&session->fills, name, type, value, &why);
    if (set != CAIRN_OK) code = lc_fail(&call, set, "%s", why.text);
  }
  return lc_leave(&call, code);
}

/* The daemon knows the name as little as we do, and says why. */
static int ask_why(struct lc_call* call, Cairn__Local__Read* read) {
  struct lc_variable nothing;
  struct lc_why why;
  int code = lc_variable_make(0, NULL, NULL, 0, CAIRN_UINT8, &nothing, &why);
  if (code == CAIRN_OK) code = lc_read(call, &nothing, read);
  return code != CAIRN_OK ? code
                          : lc_protocol_error(call,
                                              "the daemon answered a read of something that is not "
                                              "stored");
}

/* The selection as a variable at `out`. */
static int select_elements(struct lc_call* call, const Cairn__Local__Variable* stored, const uint64_t* start,
                           const uint64_t* count, void* out, struct lc_variable* selected) {
  static const uint64_t kOrigin[CAIRN_DIMS_MAX] = {0};
  const bool is_array = stored->kind == CAIRN__LOCAL__KIND__ARRAY;
  const uint64_t all = stored->count;
  const struct lc_array array = {.ndims = is_array ? (int32_t)stored->n_shape : 1,
                                 .shape = is_array ? stored->shape : &all,
                                 .start = start != NULL ? start : kOrigin,
                                 .count = count != NULL ? count : &all};
  struct lc_why why;
  if ((start == NULL) != (count == NULL) || (is_array && start == NULL)) {
    return lc_fail(call, CAIRN_INVALID_ARGUMENT, "\"%.100s\": start and count are both needed%s", stored->name,
                   is_array ? "" : ", or neither for all of it");
  }
  const int code = lc_variable_make_array(stored->id, stored->name, out, (int32_t)stored->type, &array, selected, &why);
  if (code != CAIRN_OK) return lc_fail(call, code, "\"%.100s\": %s", stored->name, why.text);
  if (!is_array) selected->kind = CAIRN_KIND_VALUE; /* has no holes */
  return CAIRN_OK;
}

static int read_elements(struct lc_call* call, Cairn__Local__Read* read, const uint64_t* start, const uint64_t* count,
                         void* out) {
  const Cairn__Local__Variable* stored;
  struct lc_variable selected = {.name = NULL};
  int code = lc_find_stored(call, read->dataset, read->name, &stored);
  if (code != CAIRN_OK) return code;
  if (stored == NULL) return ask_why(call, read);
  code = select_elements(call, stored, start, count, out, &selected);
  if (code == CAIRN_OK) {
    read->type = selected.type;
    read->start = selected.start;
    read->count = selected.box_count;
    read->n_start = read->n_count = (size_t)selected.ndims;
    code = lc_read(call, &selected, read);
  }
  free(selected.name);
  return code;
}

int cairn_read(cairn_session* session, uint64_t dataset, const char* name, const uint64_t* start, const uint64_t* count,
               void* out) {
  struct lc_call call;
  Cairn__Local__Read read = CAIRN__LOCAL__READ__INIT;
  int code = lc_enter(&call, session, "cairn_read");
  if (code == CAIRN_OK && (name == NULL || !lc_is_utf8(name))) {
    code = lc_fail(&call, CAIRN_INVALID_ARGUMENT, "name is %s", name == NULL ? "NULL" : "not UTF-8");
  }
  if (code == CAIRN_OK) {
    char* copy = lc_duplicate(name);
    read.dataset = dataset;
    read.name = copy;
    code = copy != NULL ? read_elements(&call, &read, start, count, out)
                        : lc_fail(&call, CAIRN_RESOURCE_EXHAUSTED, "no memory for the name");
    free(copy);
  }
  return lc_leave(&call, code);
}
