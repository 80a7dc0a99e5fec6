/* The calls of cairn.h on memory, checkpoints and their levels. */
#include <stdio.h>
#include <string.h>

#include "client/library/capture.h"
#include "client/library/clock.h"
#include "client/library/session.h"

/* So much more or less is worth a message. */
#define TELL_BYTES_MIN (256u << 10)

/* Of variables that a restore had spoiled the last one may be gone now: other ranks wait for that. And the daemon has
 * memory ready for the next checkpoint, if it knows how much. */
static void variables_changed(struct lc_call* call) {
  const cairn_session* session = call->session;
  const uint64_t now = session->variables.bytes, told = session->expected;
  const bool clean = session->dirty && !lc_variables_spoiled(&session->variables);
  if (clean || (now > told ? now - told : told - now) >= TELL_BYTES_MIN) lc_tell_mark(call);
}

static int put(struct lc_call* call, int made, const struct lc_variable* variable, struct lc_why* why) {
  if (made == CAIRN_OK) made = lc_variables_put(&call->session->variables, variable, why);
  if (made != CAIRN_OK) return lc_fail(call, made, "%s", why->text);
  variables_changed(call);
  return CAIRN_OK;
}

int cairn_protect(cairn_session* session, int32_t id, void* data, uint64_t count, int32_t type) {
  struct lc_call call;
  struct lc_variable variable;
  struct lc_why why;
  int code = lc_enter(&call, session, "cairn_protect");
  if (code == CAIRN_OK) {
    code = put(&call, lc_variable_make(id, NULL, data, count, type, &variable, &why), &variable, &why);
  }
  return lc_leave(&call, code);
}

int cairn_protect_value(cairn_session* session, int32_t id, const char* name, void* data, uint64_t count,
                        int32_t type) {
  struct lc_call call;
  struct lc_variable variable;
  struct lc_why why;
  int code = lc_enter(&call, session, "cairn_protect_value");
  if (code == CAIRN_OK && name == NULL) {
    code = lc_fail(&call, CAIRN_INVALID_ARGUMENT, "variable %d: a value needs a name", id);
  }
  if (code == CAIRN_OK) {
    code = put(&call, lc_variable_make(id, name, data, count, type, &variable, &why), &variable, &why);
  }
  return lc_leave(&call, code);
}

int cairn_protect_array(cairn_session* session, int32_t id, const char* name, void* data, int32_t type, int32_t ndims,
                        const uint64_t* shape, const uint64_t* start, const uint64_t* count, const uint64_t* mem_count,
                        const uint64_t* mem_start) {
  const struct lc_array array = {ndims, shape, start, count, mem_count, mem_start};
  struct lc_call call;
  struct lc_variable variable;
  struct lc_why why;
  int code = lc_enter(&call, session, "cairn_protect_array");
  if (code == CAIRN_OK) {
    code = put(&call, lc_variable_make_array(id, name, data, type, &array, &variable, &why), &variable, &why);
  }
  return lc_leave(&call, code);
}

int cairn_unprotect(cairn_session* session, int32_t id) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_unprotect");
  if (code == CAIRN_OK && !lc_variables_remove(&session->variables, id)) {
    code = lc_fail(&call, CAIRN_NOT_FOUND, "variable %d is not protected", id);
  }
  if (code == CAIRN_OK) variables_changed(&call);
  return lc_leave(&call, code);
}

int lc_next_attempt(struct lc_call* call, uint64_t* step, uint32_t* attempt) {
  cairn_session* session = call->session;
  ++session->begins;
  if (*step == 0) *step = session->begins;
  *attempt = lc_attempts_begin(&session->attempts, *step);
  return *attempt != 0 ? CAIRN_OK : lc_fail(call, CAIRN_RESOURCE_EXHAUSTED, "no memory to count the attempts");
}

int cairn_checkpoint(cairn_session* session, uint64_t step, uint64_t* dataset) {
  struct lc_call call;
  uint32_t attempt;
  int code = lc_enter(&call, session, "cairn_checkpoint");
  if (code != CAIRN_OK) return lc_leave(&call, code);
  code = lc_next_attempt(&call, &step, &attempt);
  if (code == CAIRN_OK && session->output.open) {
    code = lc_fail(&call, CAIRN_FAILED_PRECONDITION, "dataset %llu of files is not ended: call cairn_output_end first",
                   (unsigned long long)session->output.dataset);
  }
  if (code == CAIRN_OK) code = lc_check_clean(&call);
  if (code == CAIRN_OK) code = lc_capture(&call, step, attempt, dataset);
  lc_forget_name(session);
  return lc_leave(&call, code);
}

static const char* level_name(int32_t level) {
  static const char* const names[] = {"none", "frozen", "captured", "local", "redundant", "prefix"};
  return names[level];
}

static int check_level(struct lc_call* call, int32_t level) {
  if (level >= CAIRN_LEVEL_NONE && level <= CAIRN_LEVEL_PREFIX) return CAIRN_OK;
  return lc_fail(call, CAIRN_INVALID_ARGUMENT, "there is no level %d", level);
}

static int test_level(struct lc_call* call, uint64_t dataset, int32_t level, int32_t* reached) {
  Cairn__Local__Test body = CAIRN__LOCAL__TEST__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  body.dataset = dataset;
  body.level = (Cairn__Local__Level)level;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_TEST;
  request.test = &body;
  const int code = lc_ask(call, &request, CAIRN__LOCAL__REPLY__BODY_TEST, "the answer to Test", &reply);
  if (code != CAIRN_OK) return code;
  *reached = reply->test->reached ? 1 : 0;
  lc_free_reply(reply);
  return CAIRN_OK;
}

int cairn_test(cairn_session* session, uint64_t dataset, int32_t level, int32_t* reached) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_test");
  if (code == CAIRN_OK) code = check_level(&call, level);
  if (code == CAIRN_OK && reached == NULL) code = lc_fail(&call, CAIRN_INVALID_ARGUMENT, "reached is NULL");
  if (code == CAIRN_OK) code = test_level(&call, dataset, level, reached);
  return lc_leave(&call, code);
}

static int wait_level(struct lc_call* call, uint64_t dataset, int32_t level) {
  Cairn__Local__Wait body = CAIRN__LOCAL__WAIT__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  char what[96];
  snprintf(what, sizeof what, "dataset %llu to reach %s", (unsigned long long)dataset, level_name(level));
  body.dataset = dataset;
  body.level = (Cairn__Local__Level)level;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_WAIT;
  request.wait = &body;
  const int code = lc_ask(call, &request, CAIRN__LOCAL__REPLY__BODY_TEST, what, &reply);
  if (code != CAIRN_OK) return code;
  const bool reached = reply->test->reached;
  lc_free_reply(reply);
  return reached ? CAIRN_OK : lc_protocol_error(call, "the daemon answered Wait before the level was reached");
}

/* Without time to wait it is a look. */
static int look(struct lc_call* call, uint64_t dataset, int32_t level) {
  int32_t reached = 0;
  const int code = test_level(call, dataset, level, &reached);
  if (code != CAIRN_OK || reached) return code;
  return lc_fail(call, CAIRN_DEADLINE_EXCEEDED, "dataset %llu has not reached %s (not waited: timeout_ms is 0)",
                 (unsigned long long)dataset, level_name(level));
}

int cairn_wait(cairn_session* session, uint64_t dataset, int32_t level, uint32_t timeout_ms) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_wait");
  if (code == CAIRN_OK) code = check_level(&call, level);
  if (code == CAIRN_OK && timeout_ms == 0) {
    code = look(&call, dataset, level);
  } else if (code == CAIRN_OK) {
    lc_set_timeout(&call, timeout_ms);
    code = wait_level(&call, dataset, level);
  }
  return lc_leave(&call, code);
}
