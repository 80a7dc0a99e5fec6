/* Frames of proto/frame.h over a Unix stream socket. The socket never blocks by itself: every wait is a poll with the
 * call's deadline. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/cairn.h"
#include "client/library/clock.h"
#include "client/library/transport.h"
#include "proto/frame.h"

/* Two small messages that follow each other go out together: the first would wake the daemon, perhaps on this core,
 * before the second is sent. */
#define KEPT_BYTES 256u

struct unix_transport {
  struct lc_transport base;
  int fd;
  uint8_t kept[KEPT_BYTES]; /* frames that go with the next one */
  size_t kept_bytes;
  /* The frame that is being received: a deadline may cut it anywhere, the next call goes on. */
  struct cairn_frame_header header;
  size_t header_got;
  uint8_t* message;
  size_t message_got;
  int descriptor; /* came with the header, -1 */
};

static struct unix_transport* self(struct lc_transport* transport) {
  return (struct unix_transport*)transport;
}

static int wait_for(int fd, short events, int64_t deadline, struct lc_why* why) {
  for (;;) {
    struct pollfd entry = {.fd = fd, .events = events};
    const int ready = poll(&entry, 1, lc_left_ms(deadline));
    if (ready > 0) return CAIRN_OK; /* errors show at the next send or receive */
    if (ready == 0 && lc_left_ms(deadline) == 0) return lc_because(why, CAIRN_DEADLINE_EXCEEDED, "deadline passed");
    if (ready < 0 && errno != EINTR) return lc_because(why, CAIRN_UNAVAILABLE, "poll: %s", lc_errno_text(errno));
  }
}

static bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

static bool keep(struct unix_transport* t, const struct cairn_frame_header* header, const uint8_t* message) {
  if (sizeof *header + header->bytes > sizeof t->kept - t->kept_bytes) return false;
  memcpy(t->kept + t->kept_bytes, header, sizeof *header);
  memcpy(t->kept + t->kept_bytes + sizeof *header, message, header->bytes);
  t->kept_bytes += sizeof *header + header->bytes;
  return true;
}

/* Passes over what the kernel has taken. */
static void skip(struct iovec* parts, size_t count, size_t sent) {
  for (size_t i = 0; i < count; ++i) {
    const size_t of_part = sent < parts[i].iov_len ? sent : parts[i].iov_len;
    parts[i].iov_base = (uint8_t*)parts[i].iov_base + of_part;
    parts[i].iov_len -= of_part;
    sent -= of_part;
  }
}

static int unix_send(struct lc_transport* transport, const uint8_t* message, size_t bytes, bool more, int64_t deadline,
                     struct lc_why* why) {
  struct unix_transport* t = self(transport);
  struct cairn_frame_header header = {.magic = CAIRN_FRAME_MAGIC, .bytes = (uint32_t)bytes};
  if (more && keep(t, &header, message)) return CAIRN_OK;
  struct iovec parts[3] = {
      {.iov_base = t->kept, .iov_len = t->kept_bytes},
      {.iov_base = &header, .iov_len = sizeof header},
      {.iov_base = (void*)message, .iov_len = bytes},
  };
  size_t left = t->kept_bytes + sizeof header + bytes;
  t->kept_bytes = 0;
  while (left > 0) {
    const struct msghdr out = {.msg_iov = parts, .msg_iovlen = 3};
    const ssize_t n = sendmsg(t->fd, &out, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      skip(parts, 3, (size_t)n);
      left -= (size_t)n;
    } else if (would_block(errno)) {
      const int code = wait_for(t->fd, POLLOUT, deadline, why);
      if (code != CAIRN_OK) return code;
    } else if (errno != EINTR) {
      return lc_because(why, CAIRN_UNAVAILABLE, "the connection broke: %s", lc_errno_text(errno));
    }
  }
  return CAIRN_OK;
}

/* Keeps the first descriptor that came, closes all others. False: more than one. The kernel may have dropped it: no
 * number is left, or a security module forbids it. Whoever needs it finds that out. */
static bool take_descriptors(struct unix_transport* t, struct msghdr* in) {
  bool good = true;
  for (struct cmsghdr* c = CMSG_FIRSTHDR(in); c != NULL; c = CMSG_NXTHDR(in, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      if (t->descriptor < 0) {
        t->descriptor = fd;
      } else {
        close(fd);
        good = false;
      }
    }
  }
  return good;
}

/* Receives into [target, target + bytes), counting in *got. */
static int receive_bytes(struct unix_transport* t, void* target, size_t bytes, size_t* got, int64_t deadline,
                         struct lc_why* why) {
  while (*got < bytes) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
    struct iovec part = {.iov_base = (uint8_t*)target + *got, .iov_len = bytes - *got};
    struct msghdr in = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    const ssize_t n = recvmsg(t->fd, &in, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n > 0) {
      *got += (size_t)n;
      if (!take_descriptors(t, &in)) return lc_because(why, CAIRN_INTERNAL, "more than one descriptor with a frame");
    } else if (n == 0) {
      return lc_because(why, CAIRN_UNAVAILABLE, "the daemon closed the connection");
    } else if (would_block(errno)) {
      const int code = wait_for(t->fd, POLLIN, deadline, why);
      if (code != CAIRN_OK) return code;
    } else if (errno != EINTR) {
      return lc_because(why, CAIRN_UNAVAILABLE, "the connection broke: %s", lc_errno_text(errno));
    }
  }
  return CAIRN_OK;
}

static int unix_receive(struct lc_transport* transport, uint8_t** message, size_t* bytes, int* descriptor,
                        int64_t deadline, struct lc_why* why) {
  struct unix_transport* t = self(transport);
  int code = receive_bytes(t, &t->header, sizeof t->header, &t->header_got, deadline, why);
  if (code != CAIRN_OK) return code;
  if (t->header.magic != CAIRN_FRAME_MAGIC || t->header.bytes > CAIRN_FRAME_BYTES_MAX) {
    return lc_because(why, CAIRN_INTERNAL, "no frame: magic %08x, %u bytes", t->header.magic, t->header.bytes);
  }
  if (t->message == NULL) t->message = malloc((size_t)t->header.bytes + 1); /* never of no bytes */
  if (t->message == NULL) {
    return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "no memory for a frame of %u bytes", t->header.bytes);
  }
  code = receive_bytes(t, t->message, t->header.bytes, &t->message_got, deadline, why);
  if (code != CAIRN_OK) return code;
  *message = t->message;
  *bytes = t->header.bytes;
  *descriptor = t->descriptor;
  t->message = NULL;
  t->descriptor = -1;
  t->header_got = t->message_got = 0;
  return CAIRN_OK;
}

static void unix_free_message(struct lc_transport* transport, uint8_t* message) {
  (void)transport;
  free(message);
}

/* Closing says nothing to the daemon while another process holds the socket, too: good for a forked child as well. */
static void unix_close(struct lc_transport* transport) {
  struct unix_transport* t = self(transport);
  if (t->descriptor >= 0) close(t->descriptor);
  close(t->fd);
  free(t->message);
  free(t);
}

static const struct lc_transport_ops kUnixOps = {
    .shares_memory = true,
    .send = unix_send,
    .receive = unix_receive,
    .free_message = unix_free_message,
    .close = unix_close,
    .abandon = unix_close,
};

/* A full backlog answers EAGAIN instead of making a non-blocking connect wait: ask again, a little later. */
#define BACKLOG_WAIT_NS (5 * LC_NS_PER_MS)

static int connect_socket(int fd, const struct sockaddr_un* address, int64_t deadline, struct lc_why* why) {
  while (connect(fd, (const struct sockaddr*)address, sizeof *address) != 0) {
    if (errno == EISCONN) return CAIRN_OK;
    if (!would_block(errno) && errno != EINTR) {
      const int code = errno == EACCES || errno == EPERM ? CAIRN_PERMISSION_DENIED : CAIRN_UNAVAILABLE;
      return lc_because(why, code, "%s", lc_errno_text(errno));
    }
    if (lc_left_ms(deadline) == 0) return lc_because(why, CAIRN_UNAVAILABLE, "the daemon accepts no connection");
    if (errno != EINTR) lc_sleep_until(lc_now() + BACKLOG_WAIT_NS);
  }
  return CAIRN_OK;
}

/* The bytes of a checkpoint go to the user's own daemon, or to root's, which has them written by the user's own:
 * anybody may listen at a path that others look at. Who listened is told by the kernel. */
static int check_server(int fd, struct lc_why* why) {
  struct ucred server;
  socklen_t bytes = sizeof server;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &bytes) != 0) {
    return lc_because(why, CAIRN_UNAVAILABLE, "SO_PEERCRED: %s", lc_errno_text(errno));
  }
  if (server.uid == 0 || server.uid == geteuid()) return CAIRN_OK;
  return lc_because(why, CAIRN_PERMISSION_DENIED, "user %u listens there, neither root nor this user, %u",
                    (unsigned)server.uid, (unsigned)geteuid());
}

int lc_unix_connect(const char* path, int64_t deadline, struct lc_transport** transport, struct lc_why* why) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    return lc_because(why, CAIRN_INVALID_ARGUMENT, "the path of a socket has at most %zu bytes",
                      sizeof address.sun_path - 1);
  }
  strcpy(address.sun_path, path);
  struct unix_transport* t = calloc(1, sizeof *t);
  if (t == NULL) return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "no memory for a connection");
  t->base.ops = &kUnixOps;
  t->descriptor = -1;
  t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (t->fd < 0) {
    free(t);
    return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "socket: %s", lc_errno_text(errno));
  }
  int code = connect_socket(t->fd, &address, deadline, why);
  if (code == CAIRN_OK) code = check_server(t->fd, why);
  if (code != CAIRN_OK) {
    unix_close(&t->base);
    return code;
  }
  *transport = &t->base;
  return CAIRN_OK;
}
