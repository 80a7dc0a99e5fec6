#include "client/cli/all_users.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "storage/base/user_name.h"

namespace cairn::cli {
namespace {

constexpr timeval kPatience{.tv_sec = 10, .tv_usec = 0};
// A supervisor that was not restarted yet since this command came: its workers do not count drains.
constexpr std::size_t kRowBytesMin = offsetof(WorkerStatus, counters) + offsetof(WorkerCounters, drains);
constexpr std::size_t kBytesMax = sizeof(SupervisorStatus) + std::size_t{kStatusRowsMax} * sizeof(WorkerStatus);

std::string UserOf(const WorkerStatus& worker) {
  const std::optional<Account> account = AccountOf(worker.uid);
  return account ? Clean(account->name) : fmt::format("{}", worker.uid);
}

const char* StateOf(const WorkerStatus& worker) {
  if (worker.pid == 0) return worker.pause_ms > 0 ? "pauses" : worker.waiting > 0 ? "waits" : "none";
  if (worker.ending != 0) return "ends";
  if (worker.counters.ready == 0) return "starts";
  return worker.counters.busy != 0 ? "works" : "idle";
}

// Of folders that are drained: how many, and of these how many fail.
std::string DrainsOf(const WorkerCounters& counters) {
  const std::string all = fmt::format("{}", counters.drains);
  return counters.drains_failing == 0 ? all : fmt::format("{} ({} failing)", all, counters.drains_failing);
}

absl::StatusOr<UniqueFd> Connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return InvalidArgument("{}: too long for a socket", path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Unavailable("socket: {}", std::strerror(errno));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EACCES || errno == EPERM) {
      return PermissionDenied("{}: only root sees all users; `cairn status` shows what is yours", path);
    }
    return Unavailable("{}: {}; a daemon of one user has no such socket", path, std::strerror(errno));
  }
  ucred server{};
  socklen_t bytes = sizeof server;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &server, &bytes) != 0) {
    return Unavailable("SO_PEERCRED: {}", std::strerror(errno));
  }
  if (server.uid == 0 || server.uid == ::geteuid()) return fd;
  return PermissionDenied("{}: user {} listens there, neither root nor this user", path, server.uid);
}

}  // namespace

std::string StatusSocketBeside(const std::string& admin_socket) {
  return admin_socket.substr(0, admin_socket.rfind('/') + 1) + kStatusSocketName;
}

absl::StatusOr<AllUsers> AskSupervisor(const std::string& socket) {
  CAIRN_ASSIGN_OR_RETURN(const UniqueFd fd, Connect(socket));
  std::string bytes;
  std::array<char, 1 << 14> block;
  while (bytes.size() <= kBytesMax) {
    const ssize_t n = ::recv(fd.get(), block.data(), block.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Unavailable("{}: {}", socket, std::strerror(errno));
    if (n == 0) break;
    bytes.append(block.data(), static_cast<std::size_t>(n));
  }
  absl::StatusOr<AllUsers> all = ParseAllUsers(bytes);
  if (!all.ok()) return Annotate(all.status(), socket);
  return all;
}

absl::StatusOr<AllUsers> ParseAllUsers(std::string_view bytes) {
  AllUsers all;
  if (bytes.size() < sizeof all.supervisor) return DataLoss("{} bytes, and no status", bytes.size());
  std::memcpy(&all.supervisor, bytes.data(), sizeof all.supervisor);
  const SupervisorStatus& head = all.supervisor;
  if (head.magic != kStatusMagic || head.row_bytes < kRowBytesMin || head.row_bytes > sizeof(WorkerStatus) ||
      head.row_bytes % sizeof(std::uint64_t) != 0 || head.rows > kStatusRowsMax) {
    return DataLoss("a status of another version of cairnd");
  }
  const std::string_view rows = bytes.substr(sizeof head);
  if (rows.size() != std::size_t{head.rows} * head.row_bytes) {
    return DataLoss("{} bytes of {} workers", rows.size(), head.rows);
  }
  all.workers.resize(head.rows);
  for (std::size_t i = 0; i < all.workers.size(); ++i) {
    std::memcpy(&all.workers[i], rows.data() + i * head.row_bytes, head.row_bytes);
  }
  return all;
}

std::string DescribeAllUsers(const AllUsers& all) {
  std::string text =
      fmt::format("cairnd of all users, pid {}, up {}; {} of at most {} workers\n", all.supervisor.pid,
                  Duration(all.supervisor.uptime_ms), all.supervisor.workers, all.supervisor.workers_max);
  std::vector<std::vector<std::string>> rows = {{"USER", "PID", "STATE", "FOR", "SESSIONS", "RUNS", "FLUSHES", "DRAINS",
                                                 "CACHE", "IMAGES", "LOST", "WAITING", "REFUSED"}};
  for (const WorkerStatus& worker : all.workers) {
    const WorkerCounters& counters = worker.counters;
    const auto number = [](std::uint64_t count) { return fmt::format("{}", count); };
    rows.push_back({UserOf(worker), worker.pid == 0 ? "-" : number(worker.pid), StateOf(worker),
                    Duration(worker.pid == 0 ? worker.pause_ms : worker.age_ms), number(counters.sessions),
                    number(counters.runs), number(counters.flushes), DrainsOf(counters),
                    Bytes(counters.cache_bytes_used), Bytes(counters.image_bytes_used), number(worker.lost),
                    number(worker.waiting), number(worker.refused)});
  }
  if (rows.size() > 1) {
    text += Table(rows, {false, true, false, true, true, true, true, true, true, true, true, true, true});
  }
  return text;
}

Json ToJson(const AllUsers& all) {
  Json workers = Json::array();
  for (const WorkerStatus& worker : all.workers) {
    const WorkerCounters& counters = worker.counters;
    workers.push_back({{"user", UserOf(worker)},
                       {"uid", worker.uid},
                       {"pid", worker.pid},
                       {"state", StateOf(worker)},
                       {"age_ms", worker.age_ms},
                       {"pause_ms", worker.pause_ms},
                       {"starts", worker.starts},
                       {"lost", worker.lost},
                       {"waiting", worker.waiting},
                       {"refused", worker.refused},
                       {"connections", counters.connections},
                       {"sessions", counters.sessions},
                       {"runs", counters.runs},
                       {"flushes", counters.flushes},
                       {"warnings", counters.warnings},
                       {"drains", counters.drains},
                       {"drains_failing", counters.drains_failing},
                       {"drain_bytes_left", counters.drain_bytes_left},
                       {"cache_bytes_used", counters.cache_bytes_used},
                       {"cache_bytes_max", counters.cache_bytes_max},
                       {"image_bytes_used", counters.image_bytes_used},
                       {"image_bytes_max", counters.image_bytes_max}});
  }
  return {{"pid", all.supervisor.pid},
          {"uptime_ms", all.supervisor.uptime_ms},
          {"workers_now", all.supervisor.workers},
          {"workers_max", all.supervisor.workers_max},
          {"workers", workers}};
}

}  // namespace cairn::cli
