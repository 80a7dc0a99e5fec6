#include "daemon/supervisor/listeners.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "daemon/supervisor/deposits.h"
#include "daemon/supervisor/given.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

struct Place {
  Door door;
  std::string_view name;
  mode_t mode;
};
constexpr std::array<Place, 3> kPlaces{{{Door::kStatus, kStatusSocketName, 0600},
                                        {Door::kGrpc, kGrpcSocketName, 0666},
                                        {Door::kLocal, kLocalSocketName, 0666}}};

// The path that a socket is bound to; empty: none.
std::string PathOf(int fd) {
  sockaddr_un address{};
  socklen_t bytes = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0 || address.sun_family != AF_UNIX ||
      bytes <= offsetof(sockaddr_un, sun_path) || address.sun_path[0] != '/') {
    return "";
  }
  return {address.sun_path, ::strnlen(address.sun_path, bytes - offsetof(sockaddr_un, sun_path))};
}

absl::StatusOr<Listener> ListenerOf(int fd) {
  int type = 0, listens = 0;
  socklen_t bytes = sizeof type;
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_STREAM ||
      ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens == 0) {
    return InvalidArgument("LISTEN_FDS: descriptor {} is no listening socket", fd);
  }
  const std::string path = PathOf(fd);
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  const auto* const place = std::ranges::find(kPlaces, name, &Place::name);
  if (place == kPlaces.end()) {
    return InvalidArgument("LISTEN_FDS: descriptor {} at \"{}\" is none of {}, {} and {}", fd, path, kLocalSocketName,
                           kGrpcSocketName, kStatusSocketName);
  }
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || ::fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
    return Unavailable("LISTEN_FDS: descriptor {}: {}", fd, std::strerror(errno));
  }
  return Listener{.door = place->door, .fd = UniqueFd(fd), .path = {}};
}

absl::StatusOr<Listener> Make(const std::string& runtime_dir, const Place& place) {
  Listener listener{.door = place.door, .fd = {}, .path = fmt::format("{}/{}", runtime_dir, place.name)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (listener.path.size() >= sizeof address.sun_path) return InvalidArgument("{}: too long", listener.path);
  std::memcpy(address.sun_path, listener.path.c_str(), listener.path.size() + 1);
  struct stat info {};
  if (::lstat(listener.path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) return FailedPrecondition("{} is there and is not a socket", listener.path);
    if (::unlink(listener.path.c_str()) != 0) return Unavailable("{}: {}", listener.path, std::strerror(errno));
  }
  listener.fd = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Before bind: the mode is then right from the first instant. The folder is ours, so the name stays what it is.
  if (!listener.fd.valid() || ::fchmod(listener.fd.get(), 0600) != 0 ||
      ::bind(listener.fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.fd.get(), SOMAXCONN) != 0 || ::chmod(listener.path.c_str(), place.mode) != 0) {
    return Unavailable("listen on {}: {}", listener.path, std::strerror(errno));
  }
  return listener;
}

}  // namespace

absl::StatusOr<std::vector<Listener>> TakeGivenListeners() {
  const std::vector<Given> given = LookAtGiven();
  for (const char* variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(variable);
  std::vector<Listener> listeners;
  for (const Given& one : given) {
    if (IsDepositName(one.name)) continue;
    CAIRN_ASSIGN_OR_RETURN(Listener listener, ListenerOf(one.fd));
    listeners.push_back(std::move(listener));
  }
  return listeners;
}

absl::Status MakeListeners(const std::string& runtime_dir, std::vector<Listener>* listeners) {
  for (const Place& place : kPlaces) {
    if (std::ranges::find(*listeners, place.door, &Listener::door) != listeners->end()) continue;
    CAIRN_ASSIGN_OR_RETURN(Listener listener, Make(runtime_dir, place));
    listeners->push_back(std::move(listener));
  }
  return absl::OkStatus();
}

void CloseListener(Listener* listener) {
  if (!listener->fd.valid()) return;
  listener->fd.Reset();
  if (!listener->path.empty()) ::unlink(listener->path.c_str());
}

}  // namespace cairn
