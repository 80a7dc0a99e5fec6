// Plays libcairn_grpc.so for the tests of libcairn: "grpc+unix:PATH" and "grpc+run:PATH" lead to a FakeDaemon's socket,
// messages travel in its frames. No gRPC in it: what is tested is the other side of client/grpc_transport.h.
//   FAKE_GRPC_ALONE      if set, "grpc+run:" leads to the only daemon, else to one of two
//   FAKE_GRPC_UNREACHED  if set, the other one is out of reach
//   FAKE_GRPC_SESSIONS   it writes there the numbers of the sessions that connect
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "client/cairn.h"
#include "client/grpc_transport.h"
#include "proto/frame.h"

struct cairn_grpc {
  int fd;
  std::uint32_t others;
  std::string got;  // of the frame that is being received
};

namespace {

int Because(int code, const char* text, char* error, std::size_t error_bytes) {
  std::snprintf(error, error_bytes, "%s", text);
  return code;
}

}  // namespace

extern "C" {

uint32_t cairn_grpc_abi(void) {
  return CAIRN_GRPC_ABI;
}

int cairn_grpc_connect(const char* target, uint64_t session, uint32_t, cairn_grpc** handle, char* error,
                       size_t error_bytes) {
  const char* const before = std::getenv("FAKE_GRPC_SESSIONS");
  const std::string sessions = (before == nullptr ? "" : before) + std::to_string(session) + " ";
  setenv("FAKE_GRPC_SESSIONS", sessions.c_str(), 1);
  const std::string_view whole = target;
  const std::string_view path = whole.substr(std::min(whole.find(':'), whole.size() - 1) + 1);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Because(CAIRN_INVALID_ARGUMENT, "too long", error, error_bytes);
  std::copy(path.begin(), path.end(), address.sun_path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return Because(CAIRN_UNAVAILABLE, "nobody answers there", error, error_bytes);
  }
  *handle =
      new cairn_grpc{fd, whole.starts_with("grpc+run:") && std::getenv("FAKE_GRPC_ALONE") == nullptr ? 1U : 0U, {}};
  return CAIRN_OK;
}

uint32_t cairn_grpc_others(const cairn_grpc* handle, uint32_t* unreached) {
  *unreached = std::getenv("FAKE_GRPC_UNREACHED") == nullptr ? 0 : handle->others;
  return handle->others;
}

int cairn_grpc_send(cairn_grpc* handle, const void* request, size_t bytes, uint32_t, char* error, size_t error_bytes) {
  const cairn_frame_header header{CAIRN_FRAME_MAGIC, static_cast<std::uint32_t>(bytes)};
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  frame.append(static_cast<const char*>(request), bytes);
  for (std::string_view rest = frame; !rest.empty();) {
    const ssize_t n = send(handle->fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0) return Because(CAIRN_UNAVAILABLE, "the stream broke", error, error_bytes);
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  return CAIRN_OK;
}

int cairn_grpc_receive(cairn_grpc* handle, void** reply, size_t* bytes, uint32_t deadline_ms, char* error,
                       size_t error_bytes) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms);
  for (;;) {
    cairn_frame_header header;
    std::size_t wanted = sizeof header;
    if (handle->got.size() >= sizeof header) {
      std::memcpy(&header, handle->got.data(), sizeof header);
      wanted += header.bytes;
      if (handle->got.size() == wanted) {
        *bytes = header.bytes;
        *reply = std::malloc(header.bytes + 1);
        std::memcpy(*reply, handle->got.data() + sizeof header, header.bytes);
        handle->got.clear();
        return CAIRN_OK;
      }
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd entry{.fd = handle->fd, .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, std::max(0, static_cast<int>(left.count()))) == 0) {
      return Because(CAIRN_DEADLINE_EXCEEDED, "nothing came", error, error_bytes);
    }
    char buffer[65536];
    const ssize_t n = read(handle->fd, buffer, std::min(sizeof buffer, wanted - handle->got.size()));
    if (n <= 0) return Because(CAIRN_UNAVAILABLE, "the stream was ended", error, error_bytes);
    handle->got.append(buffer, static_cast<std::size_t>(n));
  }
}

void cairn_grpc_free(void* reply) {
  std::free(reply);
}

void cairn_grpc_close(cairn_grpc* handle) {
  if (handle == nullptr) return;
  close(handle->fd);
  delete handle;
}

}  // extern "C"
