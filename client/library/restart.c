/* cairn_latest, cairn_restore, cairn_resume and cairn_reject, and the mark that a restore leaves in the memory if it
 * does not succeed. */
#include "client/library/capture.h"
#include "client/library/session.h"

/* A daemon that is not there within this time hears of the mark with the next message. */
#define TELL_MS_MAX 1000u

void lc_tell_mark(struct lc_call* call) {
  Cairn__Local__Mark body = CAIRN__LOCAL__MARK__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  cairn_session* session = call->session;
  session->dirty = lc_variables_spoiled(&session->variables);
  if (session->transport == NULL) return;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_MARK;
  request.mark = &body;
  body.expected_bytes = session->expected = session->variables.bytes;
  if (lc_send(call, &request) != CAIRN_OK) lc_log(session, LC_LOG_INFO, "%s", session->error);
}

static int is_dirty(struct lc_call* call) {
  const struct lc_variables* variables = &call->session->variables;
  const struct lc_variable* first = variables->first;
  while (first != NULL && !first->spoiled) first = first->next;
  if (first == NULL) return CAIRN_OK;
  return lc_fail(call, CAIRN_DIRTY,
                 "the memory of variable %d%s may hold part of a restore that did not succeed: restore a dataset, or "
                 "initialise and protect all variables anew",
                 first->id, variables->spoiled > 1 ? " and of others" : "");
}

int lc_check_clean(struct lc_call* call) {
  if (!lc_variables_spoiled(&call->session->variables)) return CAIRN_OK;
  if (call->timeout_ms > TELL_MS_MAX) lc_set_timeout(call, TELL_MS_MAX);
  if (lc_connect(call) == CAIRN_OK) lc_tell_mark(call); /* the other ranks' checkpoints would wait for this one */
  return is_dirty(call);
}

static int ask_latest(struct lc_call* call, uint64_t* dataset, uint64_t* step) {
  Cairn__Local__Latest body = CAIRN__LOCAL__LATEST__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_LATEST;
  request.latest = &body;
  const int code = lc_ask(call, &request, CAIRN__LOCAL__REPLY__BODY_LATEST, "the answer to Latest", &reply);
  if (code == CAIRN_NOT_FOUND && lc_variables_spoiled(&call->session->variables)) return is_dirty(call);
  if (code != CAIRN_OK) return code;
  if (dataset != NULL) *dataset = reply->latest->dataset;
  if (step != NULL) *step = reply->latest->step;
  lc_free_reply(reply);
  return CAIRN_OK;
}

int cairn_latest(cairn_session* session, uint64_t* dataset, uint64_t* step) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_latest");
  if (code == CAIRN_OK) code = ask_latest(&call, dataset, step);
  return lc_leave(&call, code);
}

static int restore(struct lc_call* call, uint64_t dataset) {
  cairn_session* session = call->session;
  session->tier = CAIRN_TIER_NONE;
  session->restored = 0;
  const int code = lc_restore(call, dataset);
  session->dirty = lc_variables_spoiled(&session->variables); /* it has ended: what this call asks next says so */
  if (code == CAIRN_RETRY) lc_forget_stored(session);
  if (code == CAIRN_OK) session->restored = dataset;
  return code;
}

int cairn_restore(cairn_session* session, uint64_t dataset) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_restore");
  if (code == CAIRN_OK) code = restore(&call, dataset);
  return lc_leave(&call, code);
}

/* CAIRN_NOT_FOUND is kept for "start from the beginning". A dataset that is there and lacks a variable is another
 * matter. */
static int restore_latest(struct lc_call* call, uint64_t* step) {
  uint64_t dataset = 0;
  int code = ask_latest(call, &dataset, step);
  if (code != CAIRN_OK) return code;
  code = restore(call, dataset);
  return code == CAIRN_NOT_FOUND ? CAIRN_FAILED_PRECONDITION : code;
}

int cairn_resume(cairn_session* session, uint64_t* step) {
  struct lc_call call;
  uint64_t label = 0;
  int code = lc_enter(&call, session, "cairn_resume");
  if (code == CAIRN_OK) {
    do {
      code = restore_latest(&call, &label);
    } while (code == CAIRN_RETRY);
  }
  if (code == CAIRN_OK && step != NULL) *step = label;
  return lc_leave(&call, code);
}

int cairn_reject(cairn_session* session, uint64_t dataset) {
  Cairn__Local__Reject body = CAIRN__LOCAL__REJECT__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_reject");
  body.dataset = dataset;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_REJECT;
  request.reject = &body;
  if (code == CAIRN_OK) {
    code = lc_ask(&call, &request, CAIRN__LOCAL__REPLY__BODY__NOT_SET, "the answer to Reject", &reply);
  }
  if (code == CAIRN_OK) lc_free_reply(reply);
  return lc_leave(&call, code);
}

int cairn_restored_tier(cairn_session* session, int32_t* tier) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_restored_tier");
  if (code == CAIRN_OK && tier == NULL) code = lc_fail(&call, CAIRN_INVALID_ARGUMENT, "tier is NULL");
  if (code == CAIRN_OK) *tier = session->tier;
  return lc_leave(&call, code);
}

int cairn_restored_dataset(cairn_session* session, uint64_t* dataset) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_restored_dataset");
  if (code == CAIRN_OK && dataset == NULL) code = lc_fail(&call, CAIRN_INVALID_ARGUMENT, "dataset is NULL");
  if (code == CAIRN_OK) *dataset = session->restored;
  return lc_leave(&call, code);
}
