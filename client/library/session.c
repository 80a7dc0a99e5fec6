/* cairn_open and cairn_close. */
#include "client/library/session.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/library/clock.h"

/* A lost answer to Close delays the end of the application no longer than this. */
#define CLOSE_MS_MAX 5000u

static const char* variable_of_process(void* context, const char* name) {
  (void)context;
  return getenv(name);
}

/* `owner`: the process that opened it; a forked child frees without a word to the daemon. */
static void free_session(cairn_session* session, bool owner) {
  if (session->transport != NULL && !owner) {
    session->transport->ops->abandon(session->transport);
    session->transport = NULL;
  }
  lc_disconnect(session);
  lc_images_free(&session->images);
  lc_variables_free(&session->variables);
  lc_fills_free(&session->fills);
  lc_attempts_free(&session->attempts);
  lc_forget_stored(session);
  lc_forget_name(session);
  if (session->plan != NULL) cairn__local__plan__free_unpacked(session->plan, NULL);
  free(session->token.data);
  lc_settings_free(&session->settings);
  free(session);
}

static int resolve(struct lc_call* call, const cairn_options* options) {
  const struct lc_surroundings surroundings = {.variable = variable_of_process, .user = geteuid(), .temporary = "/tmp"};
  struct lc_why why;
  const int code = lc_settings_resolve(options, &surroundings, &call->session->settings, &why);
  return code == CAIRN_OK ? CAIRN_OK : lc_fail(call, code, "%s", why.text);
}

static uint64_t next_number(void) {
  static atomic_uint_least64_t last;
  return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

int cairn_open(const cairn_options* options, cairn_session** session) {
  const int saved_errno = errno;
  if (session == NULL) {
    lc_keep_open_error("cairn_open: session is NULL");
    return CAIRN_INVALID_ARGUMENT;
  }
  *session = NULL;
  cairn_session* opened = calloc(1, sizeof *opened);
  if (opened == NULL) {
    lc_keep_open_error("cairn_open: no memory for a session");
    errno = saved_errno;
    return CAIRN_RESOURCE_EXHAUSTED;
  }
  opened->pid = getpid();
  opened->number = next_number();
  opened->log_level = lc_log_level_of(getenv("CAIRN_LOG"));
  struct lc_call call = {
      .session = opened, .name = "cairn_open", .saved_errno = saved_errno, .file = -1, .started = lc_now()};
  int code = resolve(&call, options);
  if (code == CAIRN_OK) {
    opened->scheme = opened->settings.scheme;
    lc_set_timeout(&call, opened->settings.open_deadline_ms);
    code = lc_connect(&call);
  }
  lc_leave(&call, code);
  if (code == CAIRN_OK) {
    *session = opened;
    return CAIRN_OK;
  }
  lc_keep_open_error(opened->error);
  free_session(opened, true);
  errno = saved_errno;
  return code;
}

/* Says goodbye and waits until the daemon has heard it: the next launch must not find this one alive. Whatever goes
 * wrong, the session is over. */
static void say_goodbye(struct lc_call* call) {
  Cairn__Local__Close body = CAIRN__LOCAL__CLOSE__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  if (call->session->transport == NULL) return;
  if (call->timeout_ms > CLOSE_MS_MAX) lc_set_timeout(call, CLOSE_MS_MAX);
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_CLOSE;
  request.close = &body;
  int code = lc_send(call, &request);
  if (code == CAIRN_OK) code = lc_receive(call, call->session->call, "the answer to Close", &reply);
  if (code == CAIRN_OK) lc_free_reply(reply);
}

int cairn_close(cairn_session* session) {
  struct lc_call call;
  if (session == NULL) return CAIRN_OK;
  const int code = lc_enter(&call, session, "cairn_close");
  if (code == CAIRN_OK) say_goodbye(&call);
  lc_leave(&call, code);
  free_session(session, code == CAIRN_OK);
  errno = call.saved_errno;
  return code;
}
