/* One request, its replies. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/library/clock.h"
#include "client/library/session.h"
#include "proto/frame.h"

/* Doorbells fit: no allocation for them. */
#define SMALL_MESSAGE_BYTES 256u

/* The daemon is given a little less time than the call has, so that its answer, which says more, is here first. */
#define HEAD_START_MS_MAX 100

/* An Abort may take this much longer than the deadline, if the daemon does not read. */
#define ABORT_MS 50

static uint32_t daemon_deadline_ms(const struct lc_call* call) {
  const int left = lc_left_ms(call->deadline);
  const int head_start = left / 8 < HEAD_START_MS_MAX ? left / 8 : HEAD_START_MS_MAX;
  return left - head_start > 0 ? (uint32_t)(left - head_start) : 1;
}

int lc_protocol_error(struct lc_call* call, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  lc_disconnect(call->session);
  return lc_fail(call, CAIRN_INTERNAL, "the daemon broke the protocol: %s", text);
}

const char* lc_reason(const struct lc_call* call) {
  const size_t name = strlen(call->name) + 2;
  return strlen(call->session->error) > name ? call->session->error + name : "";
}

int lc_lost_for_good(struct lc_call* call) {
  return lc_fail(call, CAIRN_UNAVAILABLE, "no daemon answered within %u ms (%.700s)", call->timeout_ms,
                 lc_reason(call));
}

/* What the transport said, as the call sees it. */
static int transport_failed(struct lc_call* call, int code, const char* what, const struct lc_why* why) {
  cairn_session* session = call->session;
  switch (code) {
    case CAIRN_DEADLINE_EXCEEDED:
      return lc_late(call, what);
    case CAIRN_INTERNAL:
      return lc_protocol_error(call, "%s", why->text);
    case CAIRN_UNAVAILABLE:
      lc_disconnect(session);
      lc_fail(call, LC_LOST, "%s: %s (waiting for %s)", session->address, why->text, what);
      return LC_LOST;
    default:
      lc_disconnect(session);
      return lc_fail(call, code, "%s: %s", session->address, why->text);
  }
}

/* Something in a request, over which an older daemon would pass. */
struct need {
  uint32_t protocol; /* that a daemon must speak */
  const char* what;  /* needs it; NULL: nothing */
};

static struct need need_of_begin(const char* name, Cairn__Local__Scheme scheme, uint32_t members) {
  if (members != 0) return (struct need){CAIRN_PROTOCOL_OF_SET_SIZES, "sizes of redundancy sets need"};
  if (scheme != CAIRN__LOCAL__SCHEME__SCHEME_NOT_GIVEN) {
    return (struct need){CAIRN_PROTOCOL_OF_SCHEMES, "redundancy schemes of datasets need"};
  }
  if (name[0] != '\0') return (struct need){CAIRN_PROTOCOL_OF_NAMES, "names and rejections of datasets need"};
  return (struct need){0};
}

static struct need need_of(const Cairn__Local__Request* request) {
  switch (request->body_case) {
    case CAIRN__LOCAL__REQUEST__BODY_FIND:
    case CAIRN__LOCAL__REQUEST__BODY_REJECT:
      return (struct need){CAIRN_PROTOCOL_OF_NAMES, "names and rejections of datasets need"};
    case CAIRN__LOCAL__REQUEST__BODY_BEGIN:
      return need_of_begin(request->begin->name, request->begin->scheme, request->begin->scheme_members);
    case CAIRN__LOCAL__REQUEST__BODY_OUTPUT_BEGIN:
      return need_of_begin(request->output_begin->name, request->output_begin->scheme,
                           request->output_begin->scheme_members);
    default:
      return (struct need){0};
  }
}

static int send_request(struct lc_call* call, Cairn__Local__Request* request, bool more) {
  cairn_session* session = call->session;
  const struct need need = need_of(request);
  if (session->protocol < need.protocol) {
    return lc_fail(call, CAIRN_UNSUPPORTED, "the daemon speaks protocol %u, %s %u: it is older than this library",
                   session->protocol, need.what, need.protocol);
  }
  uint8_t small[SMALL_MESSAGE_BYTES];
  struct lc_why why;
  request->call = ++session->call;
  request->deadline_ms = daemon_deadline_ms(call);
  request->dirty = session->dirty;
  const size_t bytes = cairn__local__request__get_packed_size(request);
  if (bytes > CAIRN_FRAME_BYTES_MAX) {
    return lc_fail(call, CAIRN_RESOURCE_EXHAUSTED, "a message of %zu bytes: at most %u can be sent", bytes,
                   CAIRN_FRAME_BYTES_MAX);
  }
  uint8_t* message = bytes <= sizeof small ? small : malloc(bytes);
  if (message == NULL) return lc_fail(call, CAIRN_RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", bytes);
  cairn__local__request__pack(request, message);
  const int code = session->transport->ops->send(session->transport, message, bytes, more, call->deadline, &why);
  if (message != small) free(message);
  if (code == CAIRN_OK) return CAIRN_OK;
  if (code == CAIRN_DEADLINE_EXCEEDED) lc_disconnect(session); /* half a frame may be out */
  return transport_failed(call, code, "room to send a request", &why);
}

int lc_send(struct lc_call* call, Cairn__Local__Request* request) {
  return send_request(call, request, false);
}

int lc_send_before(struct lc_call* call, Cairn__Local__Request* request) {
  return send_request(call, request, true);
}

void lc_send_abort(struct lc_call* call) {
  cairn_session* session = call->session;
  if (session->transport == NULL) return;
  char error[sizeof session->error];
  memcpy(error, session->error, sizeof error);
  Cairn__Local__Abort body = CAIRN__LOCAL__ABORT__INIT;
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  body.reason = lc_is_utf8(error) ? error : "the client gave up";
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_ABORT;
  request.abort = &body;
  call->deadline = lc_now() + ABORT_MS * LC_NS_PER_MS;
  if (lc_send(call, &request) != CAIRN_OK) lc_disconnect(session); /* which says it, too */
  memcpy(session->error, error, sizeof error);
}

void lc_free_reply(Cairn__Local__Reply* reply) {
  if (reply != NULL) cairn__local__reply__free_unpacked(reply, NULL);
}

int lc_take_file(struct lc_call* call) {
  const int file = call->file;
  call->file = -1;
  return file;
}

static const Cairn__Local__Image* image_of(const Cairn__Local__Reply* reply) {
  if (reply->body_case == CAIRN__LOCAL__REPLY__BODY_BEGIN) return reply->begin->image;
  if (reply->body_case == CAIRN__LOCAL__REPLY__BODY_RESTORE) return reply->restore->image;
  return NULL;
}

/* Keeps what later replies of this connection refer to, also if nobody waits for this one any more. */
static int keep_from(struct lc_call* call, Cairn__Local__Reply* reply, int descriptor) {
  cairn_session* session = call->session;
  const Cairn__Local__Image* image = image_of(reply);
  struct lc_why why;
  int code = CAIRN_OK;
  if (reply->body_case == CAIRN__LOCAL__REPLY__BODY_STRAIGHT_FILE) {
    if (call->file >= 0) close(call->file); /* of an earlier one that nobody waits for */
    call->file = descriptor;
    return CAIRN_OK;
  }
  if (descriptor >= 0 && (image == NULL || !image->fresh)) {
    code = lc_protocol_error(call, "a descriptor came with a reply that names no fresh image");
  } else if (image != NULL && image->fresh) {
    if (descriptor < 0)
      return lc_protocol_error(call, "image %llu came without its descriptor", (unsigned long long)image->id);
    code = lc_images_adopt(&session->images, image->id, image->bytes, descriptor, &why);
    if (code == CAIRN_INTERNAL) code = lc_protocol_error(call, "%s", why.text);
    if (code == CAIRN_RESOURCE_EXHAUSTED) {
      lc_disconnect(session); /* the next connection gets the descriptor once more */
      code = lc_fail(call, code, "%s", why.text);
    }
  }
  if (descriptor >= 0) close(descriptor);
  if (code == CAIRN_OK && reply->body_case == CAIRN__LOCAL__REPLY__BODY_BEGIN && !reply->begin->same_plan) {
    if (session->plan != NULL) cairn__local__plan__free_unpacked(session->plan, NULL);
    session->plan = reply->begin->plan;
    session->plan_connection = session->connection;
    reply->begin->plan = NULL;
  }
  return code;
}

static int check_status(struct lc_call* call, const Cairn__Local__Reply* reply, const char* what) {
  const Cairn__Local__Status* status = reply->status;
  if (status == NULL || status->code == CAIRN__LOCAL__CODE__OK) return CAIRN_OK;
  const int code = (int)status->code;
  if (code < 0 || code > CAIRN_DIRTY) return lc_protocol_error(call, "there is no code %d", code);
  const char* text = status->message[0] != '\0' ? status->message : cairn_strerror(code);
  if (code != CAIRN_DEADLINE_EXCEEDED) return lc_fail(call, code, "%s", text);
  return lc_fail(call, code, "waited %u ms for %s: %s", call->timeout_ms, what, text);
}

/* Memory for an unpacked reply; remembers that there was none, which unpacking alone does not tell from nonsense. */
static void* allocate(void* exhausted, size_t bytes) {
  void* memory = malloc(bytes);
  if (memory == NULL) *(bool*)exhausted = true;
  return memory;
}

static void deallocate(void* exhausted, void* memory) {
  (void)exhausted;
  free(memory);
}

/* The next reply, whatever request it belongs to. */
static int receive_any(struct lc_call* call, const char* what, Cairn__Local__Reply** reply, int* descriptor) {
  struct lc_transport* transport = call->session->transport;
  struct lc_why why;
  uint8_t* message = NULL;
  size_t bytes = 0;
  *descriptor = -1;
  const int code = transport->ops->receive(transport, &message, &bytes, descriptor, call->deadline, &why);
  if (code != CAIRN_OK) return transport_failed(call, code, what, &why);
  bool exhausted = false;
  ProtobufCAllocator allocator = {.alloc = allocate, .free = deallocate, .allocator_data = &exhausted};
  *reply = cairn__local__reply__unpack(&allocator, bytes, message);
  transport->ops->free_message(transport, message);
  if (*reply != NULL) return CAIRN_OK;
  if (*descriptor >= 0) close(*descriptor);
  if (!exhausted) return lc_protocol_error(call, "a reply of %zu bytes cannot be read", bytes);
  lc_disconnect(call->session); /* what it said is lost */
  return lc_fail(call, CAIRN_RESOURCE_EXHAUSTED, "no memory for a reply of %zu bytes", bytes);
}

int lc_receive(struct lc_call* call, uint64_t first, const char* what, Cairn__Local__Reply** reply) {
  for (;;) {
    Cairn__Local__Reply* got;
    int descriptor;
    int code = receive_any(call, what, &got, &descriptor);
    if (code != CAIRN_OK) return code;
    code = keep_from(call, got, descriptor);
    if (code == CAIRN_OK && got->call > call->session->call) {
      code = lc_protocol_error(call, "a reply to request %llu, which was never made", (unsigned long long)got->call);
    }
    /* Number 0: the daemon refuses the connection, not a request. */
    const bool refused = code == CAIRN_OK && got->call == 0;
    const bool wanted = refused || got->call >= first;
    if (code == CAIRN_OK && wanted) code = check_status(call, got, what);
    if (refused) {
      lc_disconnect(call->session);
      if (code == CAIRN_OK) code = lc_protocol_error(call, "a reply without a number");
    }
    if (code == CAIRN_OK && wanted) {
      *reply = got;
      return CAIRN_OK;
    }
    lc_free_reply(got);
    if (code != CAIRN_OK) return code;
  }
}

static int ask_once(struct lc_call* call, Cairn__Local__Request* request, Cairn__Local__Reply__BodyCase expected,
                    const char* what, Cairn__Local__Reply** reply) {
  int code = lc_send(call, request);
  if (code == CAIRN_OK) code = lc_receive(call, call->session->call, what, reply);
  if (code != CAIRN_OK || (*reply)->body_case == expected) return code;
  lc_free_reply(*reply);
  return lc_protocol_error(call, "%s is something else", what);
}

int lc_ask(struct lc_call* call, Cairn__Local__Request* request, Cairn__Local__Reply__BodyCase expected,
           const char* what, Cairn__Local__Reply** reply) {
  uint32_t delay_ms = 0;
  for (;;) {
    int code = lc_connect(call);
    if (code != CAIRN_OK) return code;
    code = ask_once(call, request, expected, what, reply);
    if (code != LC_LOST && code != CAIRN_UNAVAILABLE) return code;
    lc_log(call->session, LC_LOG_INFO, "%s, trying again", call->session->error);
    if (!lc_back_off(call, &delay_ms)) return lc_lost_for_good(call);
  }
}
