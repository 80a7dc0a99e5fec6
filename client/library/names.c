/* The calls of cairn.h on names of datasets. What can be a name is the daemon's to say, when a dataset is begun. */
#include <stdlib.h>
#include <string.h>

#include "client/library/session.h"
#include "proto/frame.h"

char* lc_name_of_next(const cairn_session* session) {
  static char none[] = "";
  return session->name != NULL ? session->name : none;
}

void lc_forget_name(cairn_session* session) {
  free(session->name);
  session->name = NULL;
}

/* Fit for a message? */
static int check_name(struct lc_call* call, const char* name) {
  if (strlen(name) <= CAIRN_NAME_BYTES_MAX && lc_is_utf8(name)) return CAIRN_OK;
  return lc_fail(call, CAIRN_INVALID_ARGUMENT, "name: must be at most %u bytes of UTF-8", CAIRN_NAME_BYTES_MAX);
}

static int keep_name(struct lc_call* call, const char* name) {
  char* copy = lc_duplicate(name);
  if (copy == NULL) return lc_fail(call, CAIRN_RESOURCE_EXHAUSTED, "no memory for the name");
  lc_forget_name(call->session);
  call->session->name = copy;
  return CAIRN_OK;
}

int cairn_set_name(cairn_session* session, const char* name) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_set_name");
  if (code == CAIRN_OK && name == NULL) {
    lc_forget_name(session);
  } else if (code == CAIRN_OK) {
    code = check_name(&call, name);
    if (code == CAIRN_OK) code = keep_name(&call, name);
  }
  return lc_leave(&call, code);
}

static int find(struct lc_call* call, Cairn__Local__Find* body, Cairn__Local__Reply** reply) {
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_FIND;
  request.find = body;
  return lc_ask(call, &request, CAIRN__LOCAL__REPLY__BODY_FIND, "the answer to Find", reply);
}

int cairn_find(cairn_session* session, const char* name, uint64_t* dataset, uint64_t* step) {
  Cairn__Local__Find body = CAIRN__LOCAL__FIND__INIT;
  Cairn__Local__Reply* reply;
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_find");
  if (code == CAIRN_OK && (name == NULL || name[0] == '\0')) {
    code = lc_fail(&call, CAIRN_INVALID_ARGUMENT, "name is NULL or empty");
  }
  if (code == CAIRN_OK) code = check_name(&call, name);
  body.name = (char*)name;
  if (code == CAIRN_OK) code = find(&call, &body, &reply);
  if (code != CAIRN_OK) return lc_leave(&call, code);
  if (dataset != NULL) *dataset = reply->find->dataset;
  if (step != NULL) *step = reply->find->step;
  lc_free_reply(reply);
  return lc_leave(&call, CAIRN_OK);
}

int cairn_dataset_name(cairn_session* session, uint64_t dataset, char* name, size_t name_bytes) {
  Cairn__Local__Find body = CAIRN__LOCAL__FIND__INIT;
  Cairn__Local__Reply* reply;
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_dataset_name");
  if (code == CAIRN_OK && (name == NULL || name_bytes == 0)) {
    code = lc_fail(&call, CAIRN_INVALID_ARGUMENT, "name: no room for it was given");
  }
  body.dataset = dataset;
  if (code == CAIRN_OK) code = find(&call, &body, &reply);
  if (code != CAIRN_OK) return lc_leave(&call, code);
  code = lc_give_text(&call, "name", reply->find->name, name, name_bytes);
  lc_free_reply(reply);
  return lc_leave(&call, code);
}
