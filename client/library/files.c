/* The calls of cairn.h on the application's own files. */
#include <stdio.h>
#include <string.h>

#include "client/library/session.h"
#include "proto/frame.h"

static int need_open(struct lc_call* call, bool open) {
  if (call->session->output.open == open) return CAIRN_OK;
  return open ? lc_fail(call, CAIRN_FAILED_PRECONDITION, "no dataset of files was begun: call cairn_output_begin first")
              : lc_fail(call, CAIRN_FAILED_PRECONDITION, "dataset %llu of files is not ended yet",
                        (unsigned long long)call->session->output.dataset);
}

static int check_file(struct lc_call* call, const char* file, const char* path, size_t path_bytes) {
  if (file == NULL || file[0] == '\0' || strlen(file) > CAIRN_NAME_BYTES_MAX || !lc_is_utf8(file)) {
    return lc_fail(call, CAIRN_INVALID_ARGUMENT, "file: must be 1 to %u bytes of UTF-8", CAIRN_NAME_BYTES_MAX);
  }
  if (path == NULL || path_bytes == 0) return lc_fail(call, CAIRN_INVALID_ARGUMENT, "path: no room for it was given");
  return CAIRN_OK;
}

int lc_give_text(struct lc_call* call, const char* what, const char* found, char* text, size_t text_bytes) {
  const size_t needed = strlen(found) + 1;
  if (needed == 1) return lc_protocol_error(call, "the %s is empty", what);
  if (needed > text_bytes) {
    return lc_fail(call, CAIRN_INVALID_ARGUMENT, "%s: needs %zu bytes, has %zu", what, needed, text_bytes);
  }
  memcpy(text, found, needed);
  return CAIRN_OK;
}

/* The daemon went away with what it knew of the files: the dataset is over, the next one can work. */
static int explain(struct lc_call* call, int code) {
  char text[sizeof call->session->error];
  if (code == CAIRN_OK || call->session->output.connection == call->session->connection) return code;
  if (code == CAIRN_UNAVAILABLE || code == CAIRN_DEADLINE_EXCEEDED || code == CAIRN_FENCED) return code;
  snprintf(text, sizeof text, "%s", call->session->error);
  return lc_fail(call, CAIRN_FAILED, "the connection to the daemon broke while dataset %llu was being written (%.800s)",
                 (unsigned long long)call->session->output.dataset, text);
}

static int begin_output(struct lc_call* call, uint64_t step, uint32_t attempt, uint32_t flags, uint64_t* dataset) {
  cairn_session* session = call->session;
  Cairn__Local__OutputBegin body = CAIRN__LOCAL__OUTPUT_BEGIN__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  body.step = step;
  body.attempt = attempt;
  body.checkpoint = (flags & CAIRN_CHECKPOINT) != 0;
  body.output = (flags & CAIRN_OUTPUT) != 0;
  body.growing = (flags & CAIRN_GROWING) != 0;
  body.name = lc_name_of_next(session);
  body.scheme = (Cairn__Local__Scheme)session->scheme.kind;
  body.scheme_members = session->scheme.members;
  body.scheme_checksums = session->scheme.checksums;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_OUTPUT_BEGIN;
  request.output_begin = &body;
  const int code = lc_ask(call, &request, CAIRN__LOCAL__REPLY__BODY_OUTPUT_BEGIN, "the answer to OutputBegin", &reply);
  if (code == CAIRN_DEADLINE_EXCEEDED) lc_send_abort(call); /* it may have been begun all the same */
  if (code != CAIRN_OK) return code;
  session->output =
      (struct lc_output){.open = true, .dataset = reply->output_begin->dataset, .connection = session->connection};
  if (dataset != NULL) *dataset = session->output.dataset;
  lc_free_reply(reply);
  return CAIRN_OK;
}

static bool are_output_flags(uint32_t flags) {
  const uint32_t kinds = CAIRN_CHECKPOINT | CAIRN_OUTPUT;
  return (flags & kinds) != 0 && (flags & ~(kinds | CAIRN_GROWING)) == 0;
}

int cairn_output_begin(cairn_session* session, uint64_t step, uint32_t flags, uint64_t* dataset) {
  struct lc_call call;
  uint32_t attempt;
  int code = lc_enter(&call, session, "cairn_output_begin");
  if (code != CAIRN_OK) return lc_leave(&call, code);
  if (!are_output_flags(flags)) {
    code = lc_fail(&call, CAIRN_INVALID_ARGUMENT,
                   "flags %u: must be CAIRN_CHECKPOINT, CAIRN_OUTPUT or both, perhaps with CAIRN_GROWING", flags);
  }
  if (code == CAIRN_OK) code = lc_next_attempt(&call, &step, &attempt);
  if (code == CAIRN_OK) code = need_open(&call, false);
  /* Its files would be written from that memory. What nobody restarts from may be. */
  if (code == CAIRN_OK && (flags & CAIRN_CHECKPOINT) != 0) code = lc_check_clean(&call);
  if (code == CAIRN_OK) code = begin_output(&call, step, attempt, flags, dataset);
  lc_forget_name(session);
  return lc_leave(&call, code);
}

static int ask_route(struct lc_call* call, const char* file, char* path, size_t path_bytes) {
  Cairn__Local__RouteFile body = CAIRN__LOCAL__ROUTE_FILE__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  body.file = (char*)file;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_ROUTE_FILE;
  request.route_file = &body;
  int code = lc_ask(call, &request, CAIRN__LOCAL__REPLY__BODY_ROUTE_FILE, "the answer to RouteFile", &reply);
  if (code != CAIRN_OK) return explain(call, code);
  code = lc_give_text(call, "path", reply->route_file->path, path, path_bytes);
  lc_free_reply(reply);
  return code;
}

int cairn_route_file(cairn_session* session, const char* file, char* path, size_t path_bytes) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_route_file");
  if (code == CAIRN_OK) code = check_file(&call, file, path, path_bytes);
  if (code == CAIRN_OK) code = need_open(&call, true);
  if (code == CAIRN_OK) code = ask_route(&call, file, path, path_bytes);
  return lc_leave(&call, code);
}

static int end_output(struct lc_call* call, int32_t valid) {
  Cairn__Local__OutputEnd body = CAIRN__LOCAL__OUTPUT_END__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  char what[96];
  snprintf(what, sizeof what, "dataset %llu of files to be captured",
           (unsigned long long)call->session->output.dataset);
  body.valid = valid != 0;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_OUTPUT_END;
  request.output_end = &body;
  /* What was given up is not committed: that answer has no body. */
  const int code = lc_ask(
      call, &request, valid ? CAIRN__LOCAL__REPLY__BODY_COMMITTED : CAIRN__LOCAL__REPLY__BODY__NOT_SET, what, &reply);
  if (code == CAIRN_OK) lc_free_reply(reply);
  return explain(call, code);
}

int cairn_output_end(cairn_session* session, int32_t valid) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_output_end");
  if (code == CAIRN_OK) code = need_open(&call, true);
  if (code == CAIRN_OK) {
    code = end_output(&call, valid);
    session->output.open = false; /* whatever came of it */
  }
  return lc_leave(&call, code);
}

static int ask_restart_file(struct lc_call* call, uint64_t dataset, const char* file, char* path, size_t path_bytes) {
  Cairn__Local__RestartFile body = CAIRN__LOCAL__RESTART_FILE__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  body.dataset = dataset;
  body.file = (char*)file;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_RESTART_FILE;
  request.restart_file = &body;
  int code = lc_ask(call, &request, CAIRN__LOCAL__REPLY__BODY_RESTART_FILE, "the answer to RestartFile", &reply);
  if (code != CAIRN_OK) return code;
  code = lc_give_text(call, "path", reply->restart_file->path, path, path_bytes);
  lc_free_reply(reply);
  return code;
}

int cairn_restart_file(cairn_session* session, uint64_t dataset, const char* file, char* path, size_t path_bytes) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_restart_file");
  if (code == CAIRN_OK) code = check_file(&call, file, path, path_bytes);
  if (code == CAIRN_OK) code = ask_restart_file(&call, dataset, file, path, path_bytes);
  return lc_leave(&call, code);
}
