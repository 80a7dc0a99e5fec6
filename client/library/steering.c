/* The calls of cairn.h by which a run is steered: stop now? checkpoint now? */
#include <stdio.h>

#include "client/library/session.h"

/* Written where errors are, but is none. */
static void explain(struct lc_call* call, const char* why) {
  snprintf(call->session->error, sizeof call->session->error, "%s: %s", call->name, why);
  lc_log(call->session, LC_LOG_INFO, "%s", call->session->error);
}

/* The n-th question is the n-th also if its answer never came: the other ranks count it, too. */
static int ask(struct lc_call* call, Cairn__Local__Request* request, Cairn__Local__Reply__BodyCase expected,
               Cairn__Local__Ask* body, uint64_t* count, const char* what, int32_t* flag) {
  Cairn__Local__Reply* reply;
  body->number = ++*count;
  const int code = lc_ask(call, request, expected, what, &reply);
  if (code != CAIRN_OK) return code;
  const Cairn__Local__Advice* advice =
      expected == CAIRN__LOCAL__REPLY__BODY_SHOULD_EXIT ? reply->should_exit : reply->need_checkpoint;
  *flag = advice->yes ? 1 : 0;
  if (advice->yes) explain(call, advice->why);
  lc_free_reply(reply);
  return CAIRN_OK;
}

static int enter(struct lc_call* call, cairn_session* session, const char* name, int32_t* flag) {
  if (flag != NULL) *flag = 0;
  const int code = lc_enter(call, session, name);
  if (code != CAIRN_OK || flag != NULL) return code;
  return lc_fail(call, CAIRN_INVALID_ARGUMENT, "flag is NULL");
}

int cairn_should_exit(cairn_session* session, int32_t* flag) {
  Cairn__Local__Ask body = CAIRN__LOCAL__ASK__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  struct lc_call call;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_SHOULD_EXIT;
  request.should_exit = &body;
  int code = enter(&call, session, "cairn_should_exit", flag);
  if (code == CAIRN_OK) {
    code = ask(&call, &request, CAIRN__LOCAL__REPLY__BODY_SHOULD_EXIT, &body, &session->exit_asks,
               "the answer to ShouldExit", flag);
  }
  return lc_leave(&call, code);
}

int cairn_need_checkpoint(cairn_session* session, int32_t* flag) {
  Cairn__Local__Ask body = CAIRN__LOCAL__ASK__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  struct lc_call call;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_NEED_CHECKPOINT;
  request.need_checkpoint = &body;
  int code = enter(&call, session, "cairn_need_checkpoint", flag);
  if (code == CAIRN_OK) {
    code = ask(&call, &request, CAIRN__LOCAL__REPLY__BODY_NEED_CHECKPOINT, &body, &session->checkpoint_asks,
               "the answer to NeedCheckpoint", flag);
  }
  return lc_leave(&call, code);
}
