/* cairn_checkpoint: begin, follow the plan, commit. This is the push kind of capture: the client copies. */
#include <stdio.h>
#include <stdlib.h>

#include "client/library/capture.h"
#include "client/library/clock.h"
#include "client/library/copiers.h"
#include "client/library/crc32c.h"
#include "client/library/messages.h"

/* For less than this a thread is not worth its while. */
#define THREAD_BYTES_MIN (UINT64_C(4) << 20)

/* One rank's part of one dataset, over as many connections as it takes. */
struct capture {
  struct lc_call* call;
  struct lc_listed listed;
  uint64_t step;
  uint32_t attempt;
  uint64_t dataset;  /* 0: not yet known */
  uint64_t first;    /* number of the request that began, or resumed: older replies are not ours */
  uint8_t* image;    /* NULL: payload travels in Pieces */
  uint64_t released; /* windows of the ring */
  size_t done;       /* pieces */
  size_t told;       /* ... of which the daemon knows */
  uint64_t untold_bytes;
  uint32_t* crcs;   /* of the pieces, without shared memory */
  uint8_t* scratch; /* a piece of a box, without shared memory */
  uint64_t scratch_bytes;
  int64_t begun_at;  /* the daemon had an image for it */
  int64_t copied_at;
};

static const Cairn__Local__Plan* plan_of(const struct capture* c) {
  return c->call->session->plan;
}
static size_t pieces_of(const struct capture* c) {
  return plan_of(c) != NULL ? plan_of(c)->n_bytes : 0;
}
static bool shares_memory(const struct capture* c) {
  return c->call->session->transport->ops->shares_memory;
}

/* A failure that is the client's own, or the daemon's plan's. */
static int give_up(struct capture* c, int code, const char* text) {
  if (code == CAIRN_INTERNAL) return lc_protocol_error(c->call, "%s", text);
  return lc_fail(c->call, code, "%s", text);
}

static int send_filled(struct capture* c, bool commit_follows) {
  Cairn__Local__Filled filled = CAIRN__LOCAL__FILLED__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  filled.pieces = c->done;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_FILLED;
  request.filled = &filled;
  c->told = c->done;
  c->untold_bytes = 0;
  return commit_follows ? lc_send_before(c->call, &request) : lc_send(c->call, &request);
}

/* Until the slots of the ring that piece `index` goes to are free again. */
static int wait_released(struct capture* c, uint64_t needed, size_t index) {
  char what[128];
  snprintf(what, sizeof what, "room in the image for piece %zu of %zu of dataset %llu", index, pieces_of(c),
           (unsigned long long)c->dataset);
  while (c->released < needed) {
    Cairn__Local__Reply* reply;
    const int code = lc_receive(c->call, c->first, what, &reply);
    if (code != CAIRN_OK) return code;
    const bool right = reply->body_case == CAIRN__LOCAL__REPLY__BODY_RELEASED;
    if (right && reply->released->windows > c->released) c->released = reply->released->windows;
    lc_free_reply(reply);
    if (!right) return lc_protocol_error(c->call, "the daemon sent something else instead of Released");
  }
  return CAIRN_OK;
}

/* The piece's bytes as they lie in memory, or gathered. NULL: no memory. */
static const uint8_t* packed_piece(struct capture* c, const struct lc_variable* v, uint64_t offset, uint64_t bytes) {
  if (v->box.dimensions == 0) return (const uint8_t*)v->data + v->box.first + offset;
  if (c->scratch_bytes < bytes) {
    free(c->scratch);
    c->scratch = malloc(bytes);
    c->scratch_bytes = c->scratch != NULL ? bytes : 0;
    if (c->scratch == NULL) return NULL;
  }
  lc_gather(c->scratch, v->data, &v->box, offset, bytes);
  return c->scratch;
}

static int send_piece(struct capture* c, size_t i) {
  const Cairn__Local__Plan* plan = plan_of(c);
  const struct lc_variable* v = c->listed.variables[plan->variable[i]];
  const uint8_t* data = packed_piece(c, v, plan->variable_offset[i], plan->bytes[i]);
  if (data == NULL) return give_up(c, CAIRN_RESOURCE_EXHAUSTED, "no memory for a piece");
  Cairn__Local__Piece piece = CAIRN__LOCAL__PIECE__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  piece.index = i;
  piece.id = v->id;
  piece.offset = plan->variable_offset[i];
  piece.data.data = (uint8_t*)data;
  piece.data.len = plan->bytes[i];
  piece.crc32c = c->crcs[i] = lc_crc32c(0, data, plan->bytes[i]);
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_PIECE;
  request.piece = &piece;
  return lc_send(c->call, &request);
}

static void copy_piece(void* capture, size_t i) {
  const struct capture* c = capture;
  const Cairn__Local__Plan* plan = plan_of(c);
  const struct lc_variable* v = c->listed.variables[plan->variable[i]];
  lc_gather(c->image + plan->image_offset[i], v->data, &v->box, plan->variable_offset[i], plan->bytes[i]);
}

/* Copies at least one piece, for which there is room, and on until the doorbell is to be rung, the ring is full or the
 * deadline comes. */
static int copy_batch(struct capture* c) {
  const Cairn__Local__Plan* plan = plan_of(c);
  size_t end = c->done;
  uint64_t bytes = 0;
  do {
    bytes += plan->bytes[end++];
  } while (end < pieces_of(c) && c->untold_bytes + bytes < plan->doorbell_bytes &&
           (plan->n_after_released == 0 || plan->after_released[end] <= c->released));
  const struct lc_pieces pieces = {
      .copy = copy_piece, .context = c, .from = c->done, .to = end, .deadline = c->call->deadline};
  const uint64_t worth = bytes / THREAD_BYTES_MIN + 1;
  const unsigned threads = c->call->session->settings.copy_threads;
  const size_t copied = lc_copy_pieces(&pieces, worth < threads ? (unsigned)worth : threads);
  for (; c->done < copied; ++c->done) c->untold_bytes += plan->bytes[c->done];
  return c->untold_bytes >= plan->doorbell_bytes && c->done < plan->n_bytes ? send_filled(c, false) : CAIRN_OK;
}

static int follow_plan(struct capture* c) {
  const Cairn__Local__Plan* plan = plan_of(c);
  int code = CAIRN_OK;
  while (c->done < pieces_of(c) && code == CAIRN_OK) {
    const size_t i = c->done;
    const uint64_t needed = plan->n_after_released > 0 ? plan->after_released[i] : 0;
    if (needed > c->released) {
      /* The daemon frees only what it was told of. */
      if (c->image != NULL && c->told < c->done) code = send_filled(c, false);
      if (code == CAIRN_OK) code = wait_released(c, needed, i);
      if (code != CAIRN_OK) break;
    }
    if (lc_left_ms(c->call->deadline) == 0) {
      char what[96];
      snprintf(what, sizeof what, "piece %zu of %zu of dataset %llu to be taken", i, pieces_of(c),
               (unsigned long long)c->dataset);
      return lc_late(c->call, what);
    }
    if (c->image != NULL) {
      code = copy_batch(c);
    } else {
      code = send_piece(c, i);
      c->done = i + 1;
    }
  }
  if (code == CAIRN_OK && c->image != NULL && c->told < c->done) code = send_filled(c, true);
  return code;
}

static uint32_t digest_of(const struct capture* c) {
  uint32_t digest = 0;
  for (size_t i = 0; i < pieces_of(c); ++i) {
    const uint32_t crc = c->crcs[i];
    const uint8_t bytes[4] = {(uint8_t)crc, (uint8_t)(crc >> 8), (uint8_t)(crc >> 16), (uint8_t)(crc >> 24)};
    digest = lc_crc32c(digest, bytes, sizeof bytes);
  }
  return digest;
}

static int commit(struct capture* c) {
  Cairn__Local__Commit body = CAIRN__LOCAL__COMMIT__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  if (!shares_memory(c)) {
    body.has_digest = 1;
    body.digest = digest_of(c);
  }
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_COMMIT;
  request.commit = &body;
  int code = lc_send(c->call, &request);
  char what[96];
  snprintf(what, sizeof what, "dataset %llu to be captured", (unsigned long long)c->dataset);
  while (code == CAIRN_OK) {
    Cairn__Local__Reply* reply;
    code = lc_receive(c->call, c->first, what, &reply);
    if (code != CAIRN_OK) return code;
    const int body_case = (int)reply->body_case;
    lc_free_reply(reply);
    if (body_case == CAIRN__LOCAL__REPLY__BODY_COMMITTED) return CAIRN_OK;
    if (body_case != CAIRN__LOCAL__REPLY__BODY_RELEASED) {
      return lc_protocol_error(c->call, "Commit was answered with something else");
    }
  }
  return code;
}

/* What BeginReply names is there and fits. */
static int prepare(struct capture* c, const Cairn__Local__BeginReply* begin) {
  cairn_session* session = c->call->session;
  struct lc_why why;
  const uint64_t image_bytes = begin->image != NULL ? begin->image->bytes : 0;
  if (begin->same_plan && session->plan_connection != session->connection) {
    return lc_protocol_error(c->call, "the daemon refers to the plan of a reply that it never sent");
  }
  const int code = lc_check_plan(session->plan, NULL, &c->listed, shares_memory(c) ? &image_bytes : NULL, true, &why);
  if (code != CAIRN_OK) return give_up(c, code, why.text);
  c->image = NULL;
  if (!shares_memory(c)) {
    free(c->crcs);
    c->crcs = calloc(pieces_of(c) + 1, sizeof *c->crcs);
    return c->crcs != NULL ? CAIRN_OK : give_up(c, CAIRN_RESOURCE_EXHAUSTED, "no memory for the pieces' checksums");
  }
  if (pieces_of(c) == 0) return CAIRN_OK;
  c->image = lc_images_find(&session->images, begin->image->id, image_bytes);
  if (c->image != NULL) return CAIRN_OK;
  lc_disconnect(session); /* it was given up here and is still in use there: a new connection brings it again */
  lc_fail(c->call, LC_LOST, "image %llu is not mapped any more", (unsigned long long)begin->image->id);
  return LC_LOST;
}

static int begin(struct capture* c) {
  Cairn__Local__Begin body = CAIRN__LOCAL__BEGIN__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  char what[96];
  body.step = c->step;
  body.attempt = c->attempt;
  body.variables = c->listed.messages;
  body.n_variables = c->listed.count;
  body.name = lc_name_of_next(c->call->session);
  body.scheme = (Cairn__Local__Scheme)c->call->session->scheme.kind;
  body.scheme_members = c->call->session->scheme.members;
  body.scheme_checksums = c->call->session->scheme.checksums;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_BEGIN;
  request.begin = &body;
  c->done = c->told = 0;
  c->untold_bytes = c->released = 0;
  snprintf(what, sizeof what, "the answer to Begin of step %llu", (unsigned long long)c->step);
  int code = lc_send(c->call, &request);
  c->first = c->call->session->call;
  if (code == CAIRN_OK) code = lc_receive(c->call, c->first, what, &reply);
  if (code != CAIRN_OK) return code;
  if (reply->body_case == CAIRN__LOCAL__REPLY__BODY_BEGIN) {
    c->dataset = reply->begin->dataset;
    code = prepare(c, reply->begin);
  } else {
    code = lc_protocol_error(c->call, "Begin was answered with something else");
  }
  lc_free_reply(reply);
  return code;
}

/* After a broken stream without shared memory: does the daemon still have what came before? *resumed false: begin
 * again. */
static int resume(struct capture* c, bool* resumed, bool* committed) {
  Cairn__Local__Resume body = CAIRN__LOCAL__RESUME__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  Cairn__Local__Reply* reply;
  *resumed = false;
  if (c->dataset == 0 || c->crcs == NULL || shares_memory(c)) return CAIRN_OK;
  body.dataset = c->dataset;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_RESUME;
  request.resume = &body;
  int code = lc_send(c->call, &request);
  c->first = c->call->session->call;
  if (code == CAIRN_OK) code = lc_receive(c->call, c->first, "the answer to Resume", &reply);
  if (code == LC_LOST || code == CAIRN_DEADLINE_EXCEEDED || code == CAIRN_INTERNAL) return code;
  if (code != CAIRN_OK) return CAIRN_OK; /* it has not */
  if (reply->body_case != CAIRN__LOCAL__REPLY__BODY_RESUME || reply->resume->pieces > c->done) {
    code = lc_protocol_error(c->call, "Resume was answered with something else, or with more than was sent");
  } else {
    *resumed = true;
    *committed = reply->resume->committed;
    c->done = (size_t)reply->resume->pieces;
    c->released = reply->resume->released;
  }
  lc_free_reply(reply);
  return code;
}

/* All of it over one connection. LC_LOST and a Begin's CAIRN_UNAVAILABLE: once more. */
static int capture_once(struct capture* c, bool* again) {
  bool resumed = false, committed = false;
  int code = lc_connect(c->call);
  *again = false;
  if (code != CAIRN_OK) return code;
  code = resume(c, &resumed, &committed);
  if (code == CAIRN_OK && !resumed) {
    code = begin(c);
    *again = code == CAIRN_UNAVAILABLE;
  }
  c->begun_at = lc_now();
  if (code == CAIRN_OK && !committed) {
    code = follow_plan(c);
    c->copied_at = lc_now();
    if (code == CAIRN_OK) code = commit(c);
  }
  *again = *again || code == LC_LOST;
  return code;
}

static int run(struct capture* c) {
  uint32_t delay_ms = 0;
  for (;;) {
    bool again;
    const int code = capture_once(c, &again);
    if (!again) return code;
    lc_log(c->call->session, LC_LOG_INFO, "%s: beginning step %llu again", c->call->session->error,
           (unsigned long long)c->step);
    if (!lc_back_off(c->call, &delay_ms)) return lc_lost_for_good(c->call);
  }
}

static double milliseconds(int64_t ns) {
  return (double)ns / LC_NS_PER_MS;
}

int lc_capture(struct lc_call* call, uint64_t step, uint32_t attempt, uint64_t* dataset) {
  struct capture c = {.call = call, .step = step, .attempt = attempt};
  if (!lc_list_variables(&call->session->variables, &c.listed)) {
    return lc_fail(call, CAIRN_RESOURCE_EXHAUSTED, "no memory for the list of variables");
  }
  const int code = run(&c);
  if (code != CAIRN_OK) lc_send_abort(call);
  if (dataset != NULL && c.dataset != 0) *dataset = c.dataset;
  if (code == CAIRN_OK) {
    if (c.copied_at < c.begun_at) c.copied_at = c.begun_at; /* it had all of it already */
    const int64_t now = lc_now();
    lc_log(call->session, LC_LOG_INFO,
           "dataset %llu, step %llu: %llu bytes captured in %.3f ms: waited %.3f, copied %.3f, committed %.3f",
           (unsigned long long)c.dataset, (unsigned long long)step, (unsigned long long)c.listed.bytes,
           milliseconds(now - call->started), milliseconds(c.begun_at - call->started),
           milliseconds(c.copied_at - c.begun_at), milliseconds(now - c.copied_at));
  }
  free(c.crcs);
  free(c.scratch);
  lc_free_listed(&c.listed);
  return code;
}
