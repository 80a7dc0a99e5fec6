/* How serialized messages reach a daemon: over its Unix socket, or over gRPC through a library loaded on demand. */
#ifndef CAIRN_CLIENT_LIBRARY_TRANSPORT_H_
#define CAIRN_CLIENT_LIBRARY_TRANSPORT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/library/text.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lc_transport;

/* Codes besides CAIRN_OK: CAIRN_UNAVAILABLE (the connection is broken), CAIRN_DEADLINE_EXCEEDED, CAIRN_INTERNAL (the
 * other side sent something that is no message), CAIRN_RESOURCE_EXHAUSTED. After any of them the transport can only be
 * closed, except after CAIRN_DEADLINE_EXCEEDED of a receive. */
struct lc_transport_ops {
  bool shares_memory; /* payload goes through images; else it travels in Pieces */
  /* `more`: another one follows at once, and this one may go with it. */
  int (*send)(struct lc_transport* transport, const uint8_t* message, size_t bytes, bool more, int64_t deadline,
              struct lc_why* why);
  /* The message is freed with free_message; *descriptor is the caller's, -1 if none came. */
  int (*receive)(struct lc_transport* transport, uint8_t** message, size_t* bytes, int* descriptor, int64_t deadline,
                 struct lc_why* why);
  void (*free_message)(struct lc_transport* transport, uint8_t* message);
  void (*close)(struct lc_transport* transport);
  /* In a forked child: frees what can be freed without a word to the daemon. */
  void (*abandon)(struct lc_transport* transport);
};

/* The first member of each kind of transport. */
struct lc_transport {
  const struct lc_transport_ops* ops;
  uint32_t others;    /* daemons that tell of themselves at this address: what this one does not know they may */
  uint32_t unreached; /* of those, when this one was found: they did not answer, or cannot be read */
};

/* Connects to unix:PATH, grpc://HOST:PORT, grpc+unix:PATH or grpc+run:DIR. `session`: the number of the session that
 * looks for the daemon that it had; 0: it has had none. CAIRN_UNAVAILABLE: nobody answers. */
int lc_transport_connect(const char* address, uint64_t session, int64_t deadline, struct lc_transport** transport,
                         struct lc_why* why);

int lc_unix_connect(const char* path, int64_t deadline, struct lc_transport** transport, struct lc_why* why);
int lc_grpc_connect(const char* address, uint64_t session, int64_t deadline, struct lc_transport** transport,
                    struct lc_why* why);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_TRANSPORT_H_ */
