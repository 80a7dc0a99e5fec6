/* cairn_restore: verified pieces out of an image, or out of Pieces, into protected memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/library/capture.h"
#include "client/library/crc32c.h"
#include "client/library/messages.h"

struct restore {
  struct lc_call* call;
  struct lc_listed listed;
  uint64_t dataset;
  uint64_t first;           /* number of the request */
  Cairn__Local__Plan* plan; /* NULL: no pieces, or no plan yet */
  const uint8_t* image;
  uint32_t round; /* of the plan */
  size_t done;
  uint64_t untold_bytes;
};

static size_t pieces_of(const struct restore* r) {
  return r->plan != NULL ? r->plan->n_bytes : 0;
}

static int send_copied(struct restore* r) {
  Cairn__Local__Copied copied = CAIRN__LOCAL__COPIED__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  copied.pieces = r->done;
  copied.round = r->round;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_COPIED;
  request.copied = &copied;
  r->untold_bytes = 0;
  return lc_send(r->call, &request);
}

/* Takes the plan out of the reply; all starts over with it. */
static int take_plan(struct restore* r, Cairn__Local__RestoreReply* reply) {
  struct lc_call* call = r->call;
  const bool shared = call->session->transport->ops->shares_memory;
  const uint64_t image_bytes = reply->image != NULL ? reply->image->bytes : 0;
  struct lc_why why;
  if (r->plan != NULL) cairn__local__plan__free_unpacked(r->plan, NULL);
  r->plan = reply->plan;
  r->round = reply->round;
  reply->plan = NULL;
  r->image = NULL;
  r->done = 0;
  r->untold_bytes = 0;
  const int code = lc_check_plan(r->plan, &r->listed, shared ? &image_bytes : NULL, false, &why);
  if (code == CAIRN_INTERNAL) return lc_protocol_error(call, "%s", why.text);
  if (code != CAIRN_OK) {
    lc_disconnect(call->session); /* nobody will copy: ends the restore for all ranks now, not at the deadline */
    return lc_fail(call, code, "%s", why.text);
  }
  if (!shared || pieces_of(r) == 0) return CAIRN_OK;
  r->image = lc_images_find(&call->session->images, reply->image->id, image_bytes);
  if (r->image != NULL) return CAIRN_OK;
  lc_disconnect(call->session); /* a new connection brings it again */
  lc_fail(call, LC_LOST, "image %llu is not mapped any more", (unsigned long long)reply->image->id);
  return LC_LOST;
}

static void put_piece(struct restore* r, const uint8_t* data) {
  const size_t i = r->done++;
  const struct lc_variable* v = r->listed.variables[r->plan->variable[i]];
  lc_scatter(v->data, data, &v->box, r->plan->variable_offset[i], r->plan->bytes[i]);
  r->untold_bytes += r->plan->bytes[i];
}

static int copy_ready(struct restore* r, uint64_t ready) {
  if (ready > pieces_of(r) || (ready > 0 && r->image == NULL)) {
    return lc_protocol_error(r->call, "%llu pieces are said to be ready, of %zu", (unsigned long long)ready,
                             pieces_of(r));
  }
  while (r->done < ready) {
    put_piece(r, r->image + r->plan->image_offset[r->done]);
    if (r->untold_bytes < r->plan->doorbell_bytes && r->done < ready) continue;
    const int code = send_copied(r);
    if (code != CAIRN_OK) return code;
  }
  return CAIRN_OK;
}

static int take_piece(struct restore* r, const Cairn__Local__Piece* piece) {
  const size_t i = r->done;
  if (r->call->session->transport->ops->shares_memory || i >= pieces_of(r) || piece->index != i ||
      piece->offset != r->plan->variable_offset[i] || piece->data.len != r->plan->bytes[i] ||
      piece->id != r->listed.variables[r->plan->variable[i]]->id) {
    return lc_protocol_error(r->call, "a Piece came that is not the next one, %zu of %zu", i, pieces_of(r));
  }
  if (lc_crc32c(0, piece->data.data, piece->data.len) != piece->crc32c) {
    lc_disconnect(r->call->session);
    lc_fail(r->call, LC_LOST, "piece %zu of dataset %llu was damaged on its way", i, (unsigned long long)r->dataset);
    return LC_LOST;
  }
  put_piece(r, piece->data.data);
  return r->untold_bytes >= r->plan->doorbell_bytes || r->done == pieces_of(r) ? send_copied(r) : CAIRN_OK;
}

/* The last word. Without any plan before it the dataset is one of files. */
static int finish(struct restore* r, const Cairn__Local__RestoreEnd* end) {
  if (r->done < pieces_of(r)) {
    return lc_protocol_error(r->call, "the restore is said to be over after piece %zu of %zu", r->done, pieces_of(r));
  }
  r->call->session->tier = (int32_t)end->tier;
  return CAIRN_OK;
}

static int handle(struct restore* r, Cairn__Local__Reply* reply, bool* over) {
  switch (reply->body_case) {
    case CAIRN__LOCAL__REPLY__BODY_RESTORE:
      return take_plan(r, reply->restore);
    case CAIRN__LOCAL__REPLY__BODY_READY:
      return copy_ready(r, reply->ready->pieces);
    case CAIRN__LOCAL__REPLY__BODY_PIECE:
      return take_piece(r, reply->piece);
    case CAIRN__LOCAL__REPLY__BODY_RESTORE_END:
      *over = true;
      return finish(r, reply->restore_end);
    default:
      return lc_protocol_error(r->call, "Restore was answered with something else");
  }
}

static int restore_once(struct restore* r) {
  Cairn__Local__Restore body = CAIRN__LOCAL__RESTORE__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  bool over = false;
  int code = lc_connect(r->call);
  if (code != CAIRN_OK) return code;
  body.dataset = r->dataset;
  body.variables = r->listed.messages;
  body.n_variables = r->listed.count;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_RESTORE;
  request.restore = &body;
  code = lc_send(r->call, &request);
  r->first = r->call->session->call;
  while (code == CAIRN_OK && !over) {
    Cairn__Local__Reply* reply;
    char what[128];
    snprintf(what, sizeof what, "dataset %llu to be restored (%zu of %zu pieces are)", (unsigned long long)r->dataset,
             r->done, pieces_of(r));
    code = lc_receive(r->call, r->first, what, &reply);
    if (code != CAIRN_OK) break;
    code = handle(r, reply, &over);
    lc_free_reply(reply);
  }
  return code;
}

int lc_restore(struct lc_call* call, uint64_t dataset) {
  struct restore r = {.call = call, .dataset = dataset};
  uint32_t delay_ms = 0;
  int code;
  if (!lc_list_variables(&call->session->variables, &r.listed)) {
    return lc_fail(call, CAIRN_RESOURCE_EXHAUSTED, "no memory for the list of variables");
  }
  for (;;) {
    code = restore_once(&r);
    if (code != LC_LOST && code != CAIRN_UNAVAILABLE) break;
    if (code == CAIRN_UNAVAILABLE && call->session->transport == NULL) break; /* lc_connect's last word */
    lc_log(call->session, LC_LOG_INFO, "%s: restoring again", call->session->error);
    if (!lc_back_off(call, &delay_ms)) {
      code = lc_lost_for_good(call);
      break;
    }
  }
  if (r.plan != NULL) cairn__local__plan__free_unpacked(r.plan, NULL);
  lc_free_listed(&r.listed);
  return code;
}
