/* What a dataset holds: asked once, then answered from memory; what is stored does not change. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/library/session.h"

void lc_forget_stored(cairn_session* session) {
  if (session->stored != NULL) cairn__local__stored_reply__free_unpacked(session->stored, NULL);
  session->stored = NULL;
}

static int check_variable(struct lc_call* call, const Cairn__Local__Variable* v) {
  if (v->n_shape <= CAIRN_DIMS_MAX && v->n_box_start == v->n_shape && v->n_box_count == v->n_shape) return CAIRN_OK;
  return lc_protocol_error(call, "stored variable %d has %zu, %zu and %zu dimensions", v->id, v->n_shape,
                           v->n_box_start, v->n_box_count);
}

static int fetch(struct lc_call* call, uint64_t dataset) {
  cairn_session* session = call->session;
  if (session->stored != NULL && session->stored_dataset == dataset) return CAIRN_OK;
  Cairn__Local__Stored body = CAIRN__LOCAL__STORED__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  body.dataset = dataset;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_STORED;
  request.stored = &body;
  int code = lc_ask(call, &request, CAIRN__LOCAL__REPLY__BODY_STORED, "the answer to Stored", &reply);
  if (code != CAIRN_OK) return code;
  for (size_t i = 0; i < reply->stored->n_variables && code == CAIRN_OK; ++i) {
    code = check_variable(call, reply->stored->variables[i]);
  }
  if (code == CAIRN_OK) {
    lc_forget_stored(session);
    session->stored = reply->stored;
    session->stored_dataset = dataset;
    reply->stored = NULL;
    reply->body_case = CAIRN__LOCAL__REPLY__BODY__NOT_SET;
  }
  lc_free_reply(reply);
  return code;
}

int lc_find_stored(struct lc_call* call, uint64_t dataset, const char* name, const Cairn__Local__Variable** variable) {
  const int code = fetch(call, dataset);
  *variable = NULL;
  if (code != CAIRN_OK) return code;
  const Cairn__Local__StoredReply* stored = call->session->stored;
  for (size_t i = 0; i < stored->n_variables && *variable == NULL; ++i) { /* by id */
    const Cairn__Local__Variable* v = stored->variables[i];
    if (v->kind != CAIRN__LOCAL__KIND__PLAIN && strcmp(v->name, name) == 0) *variable = v;
  }
  return CAIRN_OK;
}

static void copy_dimensions(uint64_t* target, const uint64_t* source, size_t count) {
  if (count > 0) memcpy(target, source, count * sizeof *target);
}

/* A caller built with a newer header gets zeros in the fields that this library does not know. */
static void fill(const Cairn__Local__StoredReply* stored, const Cairn__Local__Variable* v, cairn_stored_info* info) {
  cairn_stored_info known = {.struct_size = info->struct_size,
                             .id = v->id,
                             .kind = (int32_t)v->kind,
                             .type = (int32_t)v->type,
                             .ndims = (int32_t)v->n_shape,
                             .count = v->count,
                             .nranks = stored->nranks};
  copy_dimensions(known.shape, v->shape, v->n_shape);
  copy_dimensions(known.start, v->box_start, v->n_box_start);
  copy_dimensions(known.box_count, v->box_count, v->n_box_count);
  snprintf(known.name, sizeof known.name, "%s", v->name);
  memset(info, 0, info->struct_size);
  memcpy(info, &known, sizeof known);
}

static int check_info(struct lc_call* call, const cairn_stored_info* info) {
  if (info != NULL && info->struct_size >= sizeof *info) return CAIRN_OK;
  return lc_fail(call, CAIRN_INVALID_ARGUMENT,
                 "info is NULL, or its struct_size is not set: must be at least %zu, sizeof(cairn_stored_info)",
                 sizeof *info);
}

int cairn_stored(cairn_session* session, uint64_t dataset, uint64_t index, cairn_stored_info* info) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_stored");
  if (code == CAIRN_OK) code = check_info(&call, info);
  if (code == CAIRN_OK) code = fetch(&call, dataset);
  if (code == CAIRN_OK && index >= session->stored->n_variables) {
    code = lc_fail(&call, CAIRN_NOT_FOUND, "dataset %llu has %zu variables", (unsigned long long)dataset,
                   session->stored->n_variables);
  }
  if (code == CAIRN_OK) fill(session->stored, session->stored->variables[index], info);
  return lc_leave(&call, code);
}

int cairn_stored_by_id(cairn_session* session, uint64_t dataset, int32_t id, cairn_stored_info* info) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_stored_by_id");
  if (code == CAIRN_OK) code = check_info(&call, info);
  if (code == CAIRN_OK) code = fetch(&call, dataset);
  if (code != CAIRN_OK) return lc_leave(&call, code);
  size_t i = 0;
  while (i < session->stored->n_variables && session->stored->variables[i]->id != id) ++i;
  if (i < session->stored->n_variables) {
    fill(session->stored, session->stored->variables[i], info);
  } else {
    code = lc_fail(&call, CAIRN_NOT_FOUND, "dataset %llu has no variable %d", (unsigned long long)dataset, id);
  }
  return lc_leave(&call, code);
}
