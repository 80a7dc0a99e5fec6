/* From no connection to a joined launch, and back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/library/clock.h"
#include "client/library/session.h"
#include "proto/frame.h"

#define BACK_OFF_MS_MIN 50u
#define BACK_OFF_MS_MAX 1000u

bool lc_back_off(struct lc_call* call, uint32_t* delay_ms) {
  *delay_ms = *delay_ms == 0 ? BACK_OFF_MS_MIN : *delay_ms * 2;
  if (*delay_ms > BACK_OFF_MS_MAX) *delay_ms = BACK_OFF_MS_MAX;
  const int64_t until = lc_now() + (int64_t)*delay_ms * LC_NS_PER_MS;
  const bool in_time = until < call->deadline;
  lc_sleep_until(in_time ? until : call->deadline);
  return in_time;
}

void lc_disconnect(cairn_session* session) {
  if (session->transport == NULL) return;
  session->transport->ops->close(session->transport);
  session->transport = NULL;
  lc_images_free(&session->images); /* their numbers mean nothing to another connection */
}

static int say_hello(struct lc_call* call) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0 || !lc_is_utf8(host)) host[0] = '\0';
  char* program = program_invocation_short_name;
  Cairn__Local__Hello hello = CAIRN__LOCAL__HELLO__INIT;
  hello.protocol_min = CAIRN_PROTOCOL_OLDEST;
  hello.protocol_max = CAIRN_PROTOCOL_NEWEST;
  hello.client = "libcairn " CAIRN_VERSION;
  hello.host = host;
  hello.pid = (uint32_t)getpid();
  hello.program = program != NULL && lc_is_utf8(program) ? program : "";
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_HELLO;
  request.hello = &hello;
  Cairn__Local__Reply* reply;
  int code = lc_send(call, &request);
  if (code == CAIRN_OK) code = lc_receive(call, call->session->call, "the answer to Hello", &reply);
  if (code != CAIRN_OK) return code;
  if (reply->body_case != CAIRN__LOCAL__REPLY__BODY_HELLO) {
    code = lc_protocol_error(call, "Hello was answered with something else");
  } else if (reply->hello->protocol < CAIRN_PROTOCOL_OLDEST || reply->hello->protocol > CAIRN_PROTOCOL_NEWEST) {
    code = lc_fail(call, CAIRN_UNSUPPORTED, "the daemon (%.100s) speaks protocol %u, this library %u to %u",
                   reply->hello->daemon, reply->hello->protocol, CAIRN_PROTOCOL_OLDEST, CAIRN_PROTOCOL_NEWEST);
  } else {
    call->session->protocol = reply->hello->protocol;
    lc_log(call->session, LC_LOG_INFO, "connected to %s (process %u) at %s", reply->hello->daemon, reply->hello->pid,
           call->session->address);
  }
  lc_free_reply(reply);
  return code;
}

/* Launch and token come once; every reconnect shows them and stays in the launch. */
static int keep_launch(struct lc_call* call, const Cairn__Local__OpenReply* open) {
  cairn_session* session = call->session;
  session->joined = true;
  if (session->settings.observer) return CAIRN_OK;
  if (session->launch != 0) {
    return open->launch == session->launch
               ? CAIRN_OK
               : lc_protocol_error(call, "reconnected to launch %llu instead of %llu", (unsigned long long)open->launch,
                                   (unsigned long long)session->launch);
  }
  if (open->launch == 0) return lc_protocol_error(call, "Open was answered without a launch");
  session->token.data = malloc(open->token.len + 1);
  if (session->token.data == NULL) return lc_fail(call, CAIRN_RESOURCE_EXHAUSTED, "no memory for the session's token");
  if (open->token.len > 0) memcpy(session->token.data, open->token.data, open->token.len);
  session->token.len = open->token.len;
  session->launch = open->launch;
  return CAIRN_OK;
}

/* False: the environment says nothing. */
static bool tell_rhythm(const struct lc_rhythm* wanted, Cairn__Local__Rhythm* told) {
  told->has_every = wanted->has_every;
  told->every = wanted->every;
  told->has_interval = wanted->has_interval;
  told->interval_ms = wanted->interval_ms;
  told->has_overhead = wanted->has_overhead;
  told->overhead_percent = wanted->overhead_percent;
  told->has_mtbf = wanted->has_mtbf;
  told->mtbf_ms = wanted->mtbf_ms;
  return wanted->has_every || wanted->has_interval || wanted->has_overhead || wanted->has_mtbf;
}

static int join_launch(struct lc_call* call) {
  cairn_session* session = call->session;
  Cairn__Local__Open open = CAIRN__LOCAL__OPEN__INIT;
  Cairn__Local__Rhythm rhythm = CAIRN__LOCAL__RHYTHM__INIT;
  open.prefix = session->settings.prefix;
  open.observer = session->settings.observer;
  if (!open.observer) {
    open.rank = session->settings.rank;
    open.nranks = session->settings.nranks;
    open.launch_key = session->settings.launch_key;
    open.takeover = session->settings.takeover && session->launch == 0; /* once */
    open.launch = session->launch;
    open.token = session->token;
    open.dirty = session->dirty;
    open.end_time_s = session->settings.rhythm.end_time_s;
    if (tell_rhythm(&session->settings.rhythm, &rhythm)) open.rhythm = &rhythm;
  }
  Cairn__Local__Request request = CAIRN__LOCAL__REQUEST__INIT;
  request.body_case = CAIRN__LOCAL__REQUEST__BODY_OPEN;
  request.open = &open;
  Cairn__Local__Reply* reply;
  int code = lc_send(call, &request);
  if (code == CAIRN_OK) code = lc_receive(call, session->call, "the answer to Open", &reply);
  if (code != CAIRN_OK) return code;
  code = reply->body_case == CAIRN__LOCAL__REPLY__BODY_OPEN
             ? keep_launch(call, reply->open)
             : lc_protocol_error(call, "Open was answered with something else");
  lc_free_reply(reply);
  return code;
}

static int greet(struct lc_call* call) {
  int code = say_hello(call);
  if (code == CAIRN_OK) code = join_launch(call);
  if (code == CAIRN_OK && call->session->settings.observer) {
    lc_log(call->session, LC_LOG_INFO, "observer of %s", call->session->settings.prefix);
    return CAIRN_OK;
  }
  if (code == CAIRN_OK) {
    lc_log(call->session, LC_LOG_INFO, "rank %u of %u in launch %llu of %s", call->session->settings.rank,
           call->session->settings.nranks, (unsigned long long)call->session->launch, call->session->settings.prefix);
    return CAIRN_OK;
  }
  lc_disconnect(call->session);
  return code;
}

static int connect_to(struct lc_call* call, const char* address, struct lc_why* why) {
  cairn_session* session = call->session;
  why->text[0] = '\0';
  const uint64_t looking = session->joined ? session->number : 0;
  const int code = lc_transport_connect(address, looking, call->deadline, &session->transport, why);
  if (code != CAIRN_OK) return code;
  session->address = address;
  ++session->connection;
  return CAIRN_OK;
}

/* Each address in turn; the error names all of them. The first that answers stays the session's. */
static int connect_first(struct lc_call* call) {
  const struct lc_settings* settings = &call->session->settings;
  char tried[800] = "";
  size_t used = 0;
  int code = CAIRN_UNAVAILABLE;
  for (int i = 0; i < settings->address_count; ++i) {
    struct lc_why why;
    code = connect_to(call, settings->addresses[i], &why);
    if (code == CAIRN_OK) return CAIRN_OK;
    const int n =
        snprintf(tried + used, sizeof tried - used, "%s%s: %s", i == 0 ? "" : "; ", settings->addresses[i], why.text);
    used += n > 0 ? (size_t)n : 0;
    if (used >= sizeof tried) used = sizeof tried - 1;
  }
  /* With one address its own code tells most; of a search only that nobody answered. */
  if (settings->address_count > 1) code = CAIRN_UNAVAILABLE;
  const bool unanswered = code == CAIRN_UNAVAILABLE || code == CAIRN_DEADLINE_EXCEEDED;
  return lc_fail(call, code, "%s%s", unanswered ? "no daemon: " : "", tried);
}

/* What daemons have said that do not know the session, while another may. */
struct refusal {
  int code;          /* CAIRN_OK: none has said anything */
  uint32_t in_a_row; /* the last ones, while no daemon was out of reach; each has its turn */
  bool of_all;       /* each has refused it since one was out of reach */
  char text[sizeof(((cairn_session*)0)->error)];
};

/* A daemon is out of reach: it may be the one that knows the session. */
static void not_all_refuse(struct refusal* refusal) {
  refusal->in_a_row = 0;
  refusal->of_all = false;
}

/* The address and the certificates were good before: what TLS takes for a refusal may be a daemon on its way out. */
static int connect_again(struct lc_call* call, struct refusal* refusal) {
  struct lc_why why;
  const int code = connect_to(call, call->session->address, &why);
  if (code == CAIRN_OK) return CAIRN_OK;
  lc_fail(call, code, "%s: %s", call->session->address, why.text);
  if (code != CAIRN_DEADLINE_EXCEEDED) not_all_refuse(refusal); /* the call's last moment tells nothing new */
  const bool may_pass = code == CAIRN_UNAVAILABLE || code == CAIRN_DEADLINE_EXCEEDED || code == CAIRN_PERMISSION_DENIED;
  return may_pass ? LC_LOST : code;
}

/* One of several daemons has answered that does not know us: ours may be on its way back. */
static int keep_refusal(struct lc_call* call, int code, uint32_t others, uint32_t unreached, struct refusal* refusal) {
  refusal->code = code;
  refusal->in_a_row = unreached == 0 ? refusal->in_a_row + 1 : 0;
  refusal->of_all = refusal->in_a_row > others || (refusal->of_all && unreached == 0);
  snprintf(refusal->text, sizeof refusal->text, "%s", lc_reason(call));
  return LC_LOST;
}

/* Nobody has said anything else until the deadline: then that was the answer, if all have said it. */
static int last_word(struct lc_call* call, int code, const struct refusal* refusal) {
  if (refusal->code != CAIRN_OK) {
    return lc_fail(call, refusal->of_all ? refusal->code : CAIRN_UNAVAILABLE,
                   "%.800s (no other daemon knew the session within %u ms)", refusal->text, call->timeout_ms);
  }
  return code == LC_LOST ? lc_lost_for_good(call) : code;
}

int lc_connect(struct lc_call* call) {
  uint32_t delay_ms = 0;
  struct refusal refusal = {.code = CAIRN_OK};
  cairn_session* session = call->session;
  if (session->transport != NULL) return CAIRN_OK;
  for (;;) {
    int code = session->joined ? connect_again(call, &refusal) : connect_first(call);
    if (code == CAIRN_OK) {
      const uint32_t others = session->joined ? session->transport->others : 0;
      const uint32_t unreached = session->transport->unreached;
      code = greet(call);
      if (code == CAIRN_UNAVAILABLE) code = LC_LOST; /* it is going away: its successor may be near */
      if (code == LC_LOST) not_all_refuse(&refusal);
      if (code == CAIRN_FAILED_PRECONDITION && others > 0) {
        code = keep_refusal(call, code, others, unreached, &refusal);
      }
      if (code == CAIRN_DEADLINE_EXCEEDED) return last_word(call, code, &refusal);
    }
    if (code != LC_LOST) return code;
    if (!lc_back_off(call, &delay_ms)) return last_word(call, code, &refusal);
  }
}
