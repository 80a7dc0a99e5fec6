/* cairn_restore and cairn_read: verified pieces out of an image, or out of Pieces, into memory; and blocks that are
 * read straight into it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/library/capture.h"
#include "client/library/crc32c.h"
#include "client/library/messages.h"
#include "client/library/straight.h"

struct restore {
  struct lc_call* call;
  struct lc_listed listed;
  uint64_t dataset;
  Cairn__Local__Read* read; /* NULL: a restore; else of the one variable that is listed */
  uint64_t first;           /* number of the request */
  Cairn__Local__Plan* plan; /* NULL: no pieces, or no plan yet */
  const uint8_t* image;
  struct lc_straight straight; /* what the plan leaves out */
  size_t files_read;           /* of it */
  bool straight_failed;        /* and no more of it is read */
  bool without_straight;       /* it has failed in this call: no memory is offered again */
  uint32_t round;              /* of the plan */
  size_t done;
  uint64_t untold_bytes;
  bool planned; /* some plan has come */
  bool written; /* to the memory */
};

static size_t pieces_of(const struct restore* r) {
  return r->plan != NULL ? r->plan->n_bytes : 0;
}

static int send_copied(struct restore* r) {
  Cairn__Local__Copied copied = CAIRN__LOCAL__COPIED__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  copied.pieces = r->done;
  copied.round = r->round;
  copied.straight = (uint32_t)r->files_read;
  copied.straight_failed = r->straight_failed;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_COPIED;
  request.copied = &copied;
  r->untold_bytes = 0;
  return lc_send(r->call, &request);
}

/* Before anything is written: a restore that ends here, whichever way, leaves its mark. */
static void begin_writing(struct restore* r) {
  if (r->written) return;
  r->written = true;
  if (r->read == NULL) lc_variables_spoil(&r->call->session->variables);
}

/* What no rank has stored becomes what the application has said, before anything else is copied. */
static void fill_holes(struct restore* r) {
  for (size_t i = 0; i < r->listed.count; ++i) {
    const struct lc_variable* v = r->listed.variables[i];
    if (!r->listed.messages[i]->holes || r->listed.named[i] >= v->box.bytes) continue;
    const struct lc_fill* fill = lc_fills_find(&r->call->session->fills, v->name);
    begin_writing(r);
    lc_fill_box(v->data, &v->box, fill->value, lc_type_bytes(fill->type));
  }
}

static void free_plan(struct restore* r) {
  if (r->plan != NULL) cairn__local__plan__free_unpacked(r->plan, NULL);
  r->plan = NULL;
  lc_free_straight(&r->straight);
}

/* Takes the plan out of the reply; all starts over with it. */
static int take_plan(struct restore* r, Cairn__Local__RestoreReply* reply) {
  struct lc_call* call = r->call;
  const bool shared = call->session->transport->ops->shares_memory;
  const uint64_t image_bytes = reply->image != NULL ? reply->image->bytes : 0;
  struct lc_why why;
  free_plan(r);
  r->plan = reply->plan;
  r->planned = true;
  r->round = reply->round;
  reply->plan = NULL;
  r->image = NULL;
  r->done = 0;
  r->untold_bytes = 0;
  r->files_read = 0;
  r->straight_failed = false;
  int code = lc_take_straight(reply, &r->listed, &r->straight, &why);
  if (code == CAIRN_OK) {
    code = lc_check_plan(r->plan, &r->straight, &r->listed, shared ? &image_bytes : NULL, false, &why);
  }
  if (code == CAIRN_INTERNAL) return lc_protocol_error(call, "%s", why.text);
  if (code != CAIRN_OK) {
    lc_disconnect(call->session); /* nobody will copy: ends the restore for all ranks now, not at the deadline */
    return lc_fail(call, code, "%s", why.text);
  }
  fill_holes(r);
  if (!shared || pieces_of(r) == 0) return CAIRN_OK;
  r->image = lc_images_find(&call->session->images, reply->image->id, image_bytes);
  if (r->image != NULL) return CAIRN_OK;
  lc_disconnect(call->session); /* a new connection brings it again */
  lc_fail(call, LC_LOST, "image %llu is not mapped any more", (unsigned long long)reply->image->id);
  return LC_LOST;
}

/* `packed`: the rows lie one behind the other, else as the plan says. */
static void put_piece(struct restore* r, const uint8_t* data, bool packed) {
  const size_t i = r->done++;
  begin_writing(r);
  const Cairn__Local__Plan* plan = r->plan;
  const struct lc_variable* v = r->listed.variables[plan->variable[i]];
  const struct lc_rows rows = {.offset = plan->variable_offset[i],
                               .bytes = plan->bytes[i],
                               .rows = lc_rows_of(plan, i),
                               .stride = plan->n_rows != 0 ? plan->variable_stride[i] : 0,
                               .source_stride = packed || plan->n_rows == 0 ? plan->bytes[i] : plan->image_stride[i]};
  if (rows.rows == 1) {
    lc_scatter(v->data, data, &v->box, rows.offset, rows.bytes);
  } else {
    lc_scatter_rows(v->data, data, &v->box, &rows);
  }
  r->untold_bytes += rows.rows * rows.bytes;
}

static int copy_ready(struct restore* r, uint64_t ready) {
  if (ready > pieces_of(r) || (ready > 0 && r->image == NULL)) {
    return lc_protocol_error(r->call, "the daemon says that %llu pieces are ready, of %zu", (unsigned long long)ready,
                             pieces_of(r));
  }
  while (r->done < ready) {
    put_piece(r, r->image + r->plan->image_offset[r->done], false);
    if (r->untold_bytes < r->plan->doorbell_bytes && r->done < ready) continue;
    const int code = send_copied(r);
    if (code != CAIRN_OK) return code;
  }
  return CAIRN_OK;
}

/* If that fails, the daemon looks at the file itself: what is damaged it takes from another copy. */
static int read_file(struct restore* r, const Cairn__Local__StraightFile* file) {
  struct lc_call* call = r->call;
  struct lc_why why;
  const int descriptor = lc_take_file(call);
  int code = CAIRN_OK;
  const bool next = file->index == r->files_read || r->straight_failed;
  if (file->round != r->round || !next || file->index >= r->straight.files) {
    code = lc_protocol_error(call, "the daemon sent file %u of plan %u, expected %zu of plan %u", file->index,
                             file->round, r->files_read, r->round);
  } else if (!r->straight_failed && descriptor < 0) {
    code = lc_because(&why, CAIRN_UNAVAILABLE, "a file came without its descriptor");
  } else if (!r->straight_failed) {
    begin_writing(r);
    code = lc_read_straight(&r->straight, file->index, descriptor, &r->listed, call->deadline, &why);
  }
  if (descriptor >= 0) close(descriptor);
  if (r->straight_failed || code == CAIRN_INTERNAL) return code;
  if (code == CAIRN_DEADLINE_EXCEEDED) return lc_late(call, "the cache's files to be read");
  if (code != CAIRN_OK) {
    r->straight_failed = r->without_straight = true;
    lc_log(call->session, LC_LOG_INFO, "dataset %llu: %s: it comes through the daemon instead",
           (unsigned long long)r->dataset, why.text);
  } else {
    ++r->files_read;
  }
  return send_copied(r);
}

static int take_piece(struct restore* r, const Cairn__Local__Piece* piece) {
  const size_t i = r->done;
  if (r->call->session->transport->ops->shares_memory || i >= pieces_of(r) || piece->index != i ||
      piece->offset != r->plan->variable_offset[i] || piece->data.len != r->plan->bytes[i] * lc_rows_of(r->plan, i) ||
      piece->id != r->listed.variables[r->plan->variable[i]]->id) {
    return lc_protocol_error(r->call, "the daemon sent a Piece that is not the next one, %zu of %zu", i, pieces_of(r));
  }
  if (lc_crc32c(0, piece->data.data, piece->data.len) != piece->crc32c) {
    lc_disconnect(r->call->session);
    lc_fail(r->call, LC_LOST, "piece %zu of dataset %llu was damaged on its way", i, (unsigned long long)r->dataset);
    return LC_LOST;
  }
  put_piece(r, piece->data.data, true);
  return r->untold_bytes >= r->plan->doorbell_bytes || r->done == pieces_of(r) ? send_copied(r) : CAIRN_OK;
}

/* The last word. Without any plan before it the dataset is one of files. */
static int finish(struct restore* r, const Cairn__Local__RestoreEnd* end) {
  if (r->done < pieces_of(r) || r->files_read < r->straight.files) {
    return lc_protocol_error(r->call, "the daemon ended the restore after piece %zu of %zu, and file %zu of %zu",
                             r->done, pieces_of(r), r->files_read, r->straight.files);
  }
  if (r->read != NULL) return CAIRN_OK;
  r->call->session->tier = (int32_t)end->tier;
  if (r->planned) lc_variables_mend(&r->call->session->variables);
  return CAIRN_OK;
}

static int handle(struct restore* r, Cairn__Local__Reply* reply, bool* over) {
  switch (reply->body_case) {
    case CAIRN__LOCAL__REPLY__BODY_RESTORE:
      return take_plan(r, reply->restore);
    case CAIRN__LOCAL__REPLY__BODY_STRAIGHT_FILE:
      return read_file(r, reply->straight_file);
    case CAIRN__LOCAL__REPLY__BODY_READY:
      return copy_ready(r, reply->ready->pieces);
    case CAIRN__LOCAL__REPLY__BODY_PIECE:
      return take_piece(r, reply->piece);
    case CAIRN__LOCAL__REPLY__BODY_RESTORE_END:
      *over = true;
      return finish(r, reply->restore_end);
    default:
      return lc_protocol_error(r->call, "%s was answered with something else", r->read != NULL ? "Read" : "Restore");
  }
}

static int send_request(struct restore* r) {
  if (r->without_straight) lc_withdraw_memory(&r->listed);
  Cairn__Local__Restore body = CAIRN__LOCAL__RESTORE__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  if (r->read != NULL) {
    request.body_case = CAIRN__LOCAL__REQUEST__BODY_READ;
    request.read = r->read;
  } else {
    body.dataset = r->dataset;
    body.variables = r->listed.messages;
    body.n_variables = r->listed.count;
    request.body_case = CAIRN__LOCAL__REQUEST__BODY_RESTORE;
    request.restore = &body;
  }
  const int code = lc_send(r->call, &request);
  r->first = r->call->session->call;
  return code;
}

static int restore_once(struct restore* r) {
  bool over = false;
  int code = lc_connect(r->call);
  if (code == CAIRN_OK) code = send_request(r);
  while (code == CAIRN_OK && !over) {
    Cairn__Local__Reply* reply;
    char what[128];
    snprintf(what, sizeof what, "dataset %llu to be %s (%zu of %zu pieces are)", (unsigned long long)r->dataset,
             r->read != NULL ? "read" : "restored", r->done, pieces_of(r));
    code = lc_receive(r->call, r->first, what, &reply);
    if (code != CAIRN_OK) break;
    code = handle(r, reply, &over);
    lc_free_reply(reply);
  }
  return code;
}

static int restore_all(struct restore* r) {
  uint32_t delay_ms = 0;
  int code;
  for (;;) {
    code = restore_once(r);
    if (code != LC_LOST && code != CAIRN_UNAVAILABLE) break;
    if (code == CAIRN_UNAVAILABLE && r->call->session->transport == NULL) break; /* lc_connect's last word */
    lc_log(r->call->session, LC_LOG_INFO, "%s: %s again", r->call->session->error,
           r->read != NULL ? "reading" : "restoring");
    if (!lc_back_off(r->call, &delay_ms)) {
      code = lc_lost_for_good(r->call);
      break;
    }
  }
  free_plan(r);
  return code;
}

/* Arrays with a fill may have holes. */
static int tell_fills(struct lc_call* call, const struct lc_listed* listed) {
  for (size_t i = 0; i < listed->count; ++i) {
    const struct lc_variable* v = listed->variables[i];
    if (v->kind != CAIRN_KIND_ARRAY) continue;
    const struct lc_fill* fill = lc_fills_find(&call->session->fills, v->name);
    if (fill == NULL) continue;
    if ((uint32_t)fill->type != v->type) {
      return lc_fail(call, CAIRN_FAILED_PRECONDITION, "variable %d (\"%.100s\") has type %u, its fill type %d", v->id,
                     v->name, v->type, fill->type);
    }
    listed->messages[i]->holes = true;
  }
  return CAIRN_OK;
}

static int restore_listed(struct lc_call* call, const struct lc_variables* variables, uint64_t dataset,
                          Cairn__Local__Read* read) {
  struct restore r = {.call = call, .dataset = dataset, .read = read};
  if (!lc_list_variables(variables, &r.listed)) {
    return lc_fail(call, CAIRN_RESOURCE_EXHAUSTED, "no memory for the list of variables");
  }
  if (read == NULL) lc_offer_memory(&r.listed);
  int code = tell_fills(call, &r.listed);
  if (code == CAIRN_OK && read != NULL) read->holes = r.listed.messages[0]->holes;
  if (code == CAIRN_OK) code = restore_all(&r);
  /* A read that failed has spoiled what lies there. */
  if (code != CAIRN_OK && read != NULL && r.written &&
      lc_variables_overlap(&call->session->variables, r.listed.variables[0])) {
    lc_variables_spoil(&call->session->variables);
  }
  lc_free_listed(&r.listed);
  return code;
}

int lc_restore(struct lc_call* call, uint64_t dataset) {
  return restore_listed(call, &call->session->variables, dataset, NULL);
}

int lc_read(struct lc_call* call, struct lc_variable* variable, Cairn__Local__Read* read) {
  const struct lc_variables one = {.first = variable, .last = variable, .count = 1};
  return restore_listed(call, &one, read->dataset, read);
}
