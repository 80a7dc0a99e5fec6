/* A session, a call on it, and how calls talk to the daemon. */
#ifndef CAIRN_CLIENT_LIBRARY_SESSION_H_
#define CAIRN_CLIENT_LIBRARY_SESSION_H_

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/cairn.h"
#include "client/library/attempts.h"
#include "client/library/fills.h"
#include "client/library/images.h"
#include "client/library/settings.h"
#include "client/library/transport.h"
#include "client/library/variables.h"
#include "proto/local.pb-c.h"

enum lc_log_level { LC_LOG_NONE, LC_LOG_ERROR, LC_LOG_INFO, LC_LOG_DEBUG };

/* A dataset of files that was begun and not ended. */
struct lc_output {
  bool open;
  uint64_t dataset;
  uint64_t connection; /* in which it was begun */
};

struct cairn_session {
  pid_t pid;       /* that opened it */
  uint64_t number; /* from 1, in this process */
  struct lc_settings settings;
  const char* address; /* the one that answered: where reconnects go; NULL before */
  enum lc_log_level log_level;
  char error[1024];

  struct lc_transport* transport; /* NULL: not connected */
  uint64_t connection;            /* counts them */
  uint32_t protocol;              /* that this connection speaks */
  uint64_t call;                  /* number of the last request */
  bool joined;                    /* Open was answered once */
  uint64_t launch;
  ProtobufCBinaryData token;

  struct lc_variables variables;
  struct lc_fills fills;
  struct lc_attempts attempts;
  uint64_t begins;                     /* calls that begin a dataset: the label that stands for step 0 */
  uint64_t exit_asks, checkpoint_asks; /* calls of cairn_should_exit and cairn_need_checkpoint */
  char* name;                          /* of the next dataset that is begun; NULL: none */
  struct lc_scheme scheme;             /* of redundancy, of all that are begun */
  struct lc_output output;
  int32_t tier;
  uint64_t restored; /* dataset, by the last restore; 0: it did not succeed */
  uint64_t expected; /* told to the daemon: the bytes of all variables */
  bool dirty;        /* told to the daemon: some variable was spoiled when this call began, or its last restore ended */

  struct lc_images images;           /* of this connection */
  Cairn__Local__Plan* plan;          /* of the last BeginReply, NULL: none */
  uint64_t plan_connection;          /* where it came from */
  Cairn__Local__StoredReply* stored; /* of dataset stored_dataset, NULL: none */
  uint64_t stored_dataset;
};

/* One call of the interface, from lc_enter to lc_leave. */
struct lc_call {
  cairn_session* session;
  const char* name;
  uint32_t timeout_ms;
  int64_t started;
  int64_t deadline;
  int saved_errno; /* the application's own */
  int file;        /* the descriptor that came with the last StraightFile, -1; lc_take_file */
};

/* Not a code of the interface: the connection broke, and cairn_error says how. The caller decides what to repeat. */
#define LC_LOST (-1)

/* CAIRN_INVALID_ARGUMENT: no session; CAIRN_FORKED. Every lc_enter has its lc_leave, which returns `code`. */
int lc_enter(struct lc_call* call, cairn_session* session, const char* name);
int lc_leave(struct lc_call* call, int code);
void lc_set_timeout(struct lc_call* call, uint32_t timeout_ms);

/* Writes the session's error, with the call's name before it, and returns `code`. */
int lc_fail(struct lc_call* call, int code, const char* format, ...) __attribute__((format(printf, 3, 4)));
/* The session's error without the "name: " that lc_fail has put before it. */
const char* lc_reason(const struct lc_call* call);
/* CAIRN_DEADLINE_EXCEEDED; `what` is what the call waited for. */
int lc_late(struct lc_call* call, const char* what);
/* For cairn_error(NULL): of this thread. */
void lc_keep_open_error(const char* text);

void lc_log(const cairn_session* session, enum lc_log_level level, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
enum lc_log_level lc_log_level_of(const char* value);

/* connection.c: connects if there is no connection, says Hello and joins the launch, or joins it again. Tries until the
 * deadline; when the session is new (no address yet) only until every address was tried once. Never LC_LOST. */
int lc_connect(struct lc_call* call);
void lc_disconnect(cairn_session* session);
/* Sleeps before another try, longer each time (start with *delay_ms 0). False: the deadline comes first. */
bool lc_back_off(struct lc_call* call, uint32_t* delay_ms);

/* exchange.c: messages over the connection that lc_connect made. */
/* Numbers, packs and sends. LC_LOST, or an error. */
int lc_send(struct lc_call* call, Cairn__Local__Request* request);
/* The same, but it may go together with the next one. REQUIRES: lc_send follows, with nothing in between that waits. */
int lc_send_before(struct lc_call* call, Cairn__Local__Request* request);
/* Receives the next reply to one of the requests from number `first` on, and drops replies to older ones. `what` says
 * in words what the call waits for. The session keeps images and plans that come along. If the reply has a status that
 * is not OK, that is the answer, and *reply is NULL; otherwise free it with lc_free_reply. */
int lc_receive(struct lc_call* call, uint64_t first, const char* what, Cairn__Local__Reply** reply);
void lc_free_reply(Cairn__Local__Reply* reply);
/* Of the StraightFile that was received last; the caller closes it. -1: it has not come, or was dropped on its way. */
int lc_take_file(struct lc_call* call);
/* lc_connect, lc_send and lc_receive, again as long as the connection breaks or the daemon says UNAVAILABLE. The answer
 * must have body `expected`. Never LC_LOST. */
int lc_ask(struct lc_call* call, Cairn__Local__Request* request, Cairn__Local__Reply__BodyCase expected,
           const char* what, Cairn__Local__Reply** reply);
/* Tells the daemon that this rank gives up what it has begun, so that the other ranks need not wait for it. Does not
 * wait for an answer. The session's error stays, and is the reason in the message. */
void lc_send_abort(struct lc_call* call);
/* The daemon broke the protocol: CAIRN_INTERNAL, and the connection is closed. */
int lc_protocol_error(struct lc_call* call, const char* format, ...) __attribute__((format(printf, 2, 3)));
/* The code to answer after an LC_LOST when no time is left. */
int lc_lost_for_good(struct lc_call* call);

/* Counts one more begin of a dataset; a *step of 0 becomes the count. */
int lc_next_attempt(struct lc_call* call, uint64_t* step, uint32_t* attempt);

/* names.c */
/* The name of the dataset that this call begins; "": none. */
char* lc_name_of_next(const cairn_session* session);
/* Drops the name after its one call, whatever that has answered. */
void lc_forget_name(cairn_session* session);

/* files.c: `found`, which is `what`, into the caller's `text`. CAIRN_INVALID_ARGUMENT: it has no room for that. */
int lc_give_text(struct lc_call* call, const char* what, const char* found, char* text, size_t text_bytes);

/* restart.c: the mark of memory that may hold part of a restore that did not succeed (variables.h). */
/* Tells the daemon the mark, and for how many bytes it may prepare, if there is a connection. Does not wait for an
 * answer. */
void lc_tell_mark(struct lc_call* call);
/* CAIRN_DIRTY if memory is marked. First tells the daemon, for which it tries a second at most. */
int lc_check_clean(struct lc_call* call);

/* stored.c */
void lc_forget_stored(cairn_session* session);
/* The array or value of that name, of the lowest id if several have it, kept until another dataset is asked for;
 * *variable is NULL if there is none. */
int lc_find_stored(struct lc_call* call, uint64_t dataset, const char* name, const Cairn__Local__Variable** variable);

#endif /* CAIRN_CLIENT_LIBRARY_SESSION_H_ */
