#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/library/clock.h"
#include "client/library/session.h"

static _Thread_local char open_error[sizeof((cairn_session*)0)->error];

void lc_keep_open_error(const char* text) {
  snprintf(open_error, sizeof open_error, "%s", text);
}

int lc_enter(struct lc_call* call, cairn_session* session, const char* name) {
  *call = (struct lc_call){.session = session, .name = name, .saved_errno = errno, .file = -1, .started = lc_now()};
  if (session == NULL) {
    snprintf(open_error, sizeof open_error, "%s: session is NULL", name);
    return CAIRN_INVALID_ARGUMENT;
  }
  if (session->pid != getpid()) {
    return lc_fail(call, CAIRN_FORKED, "the session belongs to process %d: open one of this process's own",
                   (int)session->pid);
  }
  lc_set_timeout(call, session->settings.deadline_ms);
  session->dirty = lc_variables_spoiled(&session->variables);
  return CAIRN_OK;
}

int lc_leave(struct lc_call* call, int code) {
  if (call->session != NULL && call->session->log_level >= LC_LOG_DEBUG) {
    lc_log(call->session, LC_LOG_DEBUG, "%s: %s after %.3f ms", call->name, cairn_strerror(code),
           (double)(lc_now() - call->started) / LC_NS_PER_MS);
  }
  if (call->file >= 0) close(lc_take_file(call)); /* nobody has waited for it */
  errno = call->saved_errno;
  return code;
}

void lc_set_timeout(struct lc_call* call, uint32_t timeout_ms) {
  call->timeout_ms = timeout_ms;
  call->deadline = call->started + (int64_t)timeout_ms * LC_NS_PER_MS;
}

int lc_fail(struct lc_call* call, int code, const char* format, ...) {
  cairn_session* session = call->session;
  char text[sizeof session->error]; /* the arguments may lie in the old error */
  const int name = snprintf(text, sizeof text, "%s: ", call->name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + name, sizeof text - (size_t)name, format, arguments);
  va_end(arguments);
  memcpy(session->error, text, sizeof text);
  lc_log(session, code == LC_LOST ? LC_LOG_INFO : LC_LOG_ERROR, "%s", text);
  return code;
}

int lc_late(struct lc_call* call, const char* what) {
  return lc_fail(call, CAIRN_DEADLINE_EXCEEDED, "waited %u ms for %s: deadline passed (daemon: %s)", call->timeout_ms,
                 what, call->session->address != NULL ? call->session->address : "none yet");
}

const char* cairn_error(const cairn_session* session) {
  return session != NULL ? session->error : open_error;
}

const char* cairn_strerror(int code) {
  static const char* const texts[] = {
      [CAIRN_OK] = "ok",
      [CAIRN_NOT_FOUND] = "not found",
      [CAIRN_INVALID_ARGUMENT] = "invalid argument",
      [CAIRN_FAILED_PRECONDITION] = "failed precondition",
      [CAIRN_BUSY] = "an older launch is still alive",
      [CAIRN_RETRY] = "the restore failed: ask for the latest dataset again",
      [CAIRN_SUPERSEDED] = "superseded by a newer dataset",
      [CAIRN_FAILED] = "the dataset failed",
      [CAIRN_FENCED] = "a newer launch has taken over",
      [CAIRN_RESOURCE_EXHAUSTED] = "resource exhausted",
      [CAIRN_DEADLINE_EXCEEDED] = "deadline exceeded",
      [CAIRN_UNAVAILABLE] = "no daemon answers",
      [CAIRN_DATA_LOSS] = "data loss",
      [CAIRN_PERMISSION_DENIED] = "permission denied",
      [CAIRN_UNSUPPORTED] = "unsupported",
      [CAIRN_FORKED] = "the session belongs to the parent process",
      [CAIRN_INTERNAL] = "internal error",
      [CAIRN_DIRTY] = "memory may hold part of a restore that did not succeed",
  };
  const int count = (int)(sizeof texts / sizeof texts[0]);
  return code >= 0 && code < count ? texts[code] : "no such code";
}

const char* cairn_version(void) {
  return CAIRN_VERSION;
}
