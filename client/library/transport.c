#include "client/library/transport.h"

#include <string.h>

int lc_transport_connect(const char* address, uint64_t session, int64_t deadline, struct lc_transport** transport,
                         struct lc_why* why) {
  static const char kUnix[] = "unix:";
  if (strncmp(address, kUnix, sizeof kUnix - 1) == 0) {
    return lc_unix_connect(address + sizeof kUnix - 1, deadline, transport, why);
  }
  return lc_grpc_connect(address, session, deadline, transport, why);
}
