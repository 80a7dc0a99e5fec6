// One daemon for all users of a node: accepts connections, learns from the kernel whose they are, and hands each to the
// worker of that user, a process with that user's rights (start.h). It reads nothing from users, and listens on no
// network. See README.md.
#ifndef CAIRN_DAEMON_SUPERVISOR_SUPERVISOR_H_
#define CAIRN_DAEMON_SUPERVISOR_SUPERVISOR_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/supervisor/cgroup.h"
#include "daemon/supervisor/deposits.h"
#include "daemon/supervisor/listeners.h"
#include "daemon/supervisor/project_quota.h"
#include "storage/base/user_name.h"

namespace cairn {

enum class Tone : std::uint8_t { kInfo, kWarning, kError };

class Supervisor {
 public:
  using Milliseconds = std::chrono::milliseconds;
  struct Options {
    std::string program = "/proc/self/exe";  // of the workers; opened once
    std::vector<std::string> arguments;      // start.h
    std::string runtime_dir, cache_dir;
    std::vector<Listener> listeners;  // that were given; the others are made
    uid_t uid_min = 1000;
    std::size_t workers_max = 512;
    Milliseconds idle{900'000};  // a worker that has had nothing to do for so long is ended; 0: none is
    Milliseconds stop{70'000};   // from SIGTERM to a worker until SIGKILL
    WorkerLimits limits;
    WorkerGroups groups;
    ProjectQuota quota;   // of users' caches; where there can be none, the log says so
    std::string refusal;  // sent to who is refused at cairnd.sock: bytes that mean nothing here
    std::function<void(Tone, std::string_view)> log;
    std::function<void(std::string_view)> notify;  // the service manager: "READY=1", …
    // The same, with a descriptor or without (-1): "FDSTORE=1…", "FDSTOREREMOVE=1…". Null: it holds none.
    DepositDesk::Notify notify_holder;
    std::vector<GivenDeposit> deposits;    // that it has held for a supervisor before this one
    HeldDeposits::Max deposits_max;        // of one user
    std::optional<Milliseconds> watchdog;  // so often notify("WATCHDOG=1"), from the loop that does the work

    // Bounds, and what tests look up or wait for otherwise.
    std::size_t waiting_max = 1024;                   // connections that wait for a worker
    std::size_t waiting_max_user = 64;                // of one user
    Milliseconds wait{30'000};                        // so long, then they are refused
    Milliseconds ready{300'000};                      // until a worker must say that it serves
    Milliseconds pause_min{1000}, pause_max{60'000};  // pace.h
    std::uint32_t start_burst = 32;
    Milliseconds start_every{50};
    std::function<std::optional<Account>(uid_t)> account = AccountOf;
  };

  // Makes folders and sockets. REQUIRES: this process has one thread and keeps to one, and holds the lock of
  // runtime_dir. Blocks SIGCHLD, SIGTERM, SIGINT and SIGHUP.
  //   kPermissionDenied  a folder is not ours alone to change
  //   others             as MakeListeners; kUnavailable: the kernel refuses something
  static absl::StatusOr<std::unique_ptr<Supervisor>> Open(Options options);

  // Serves until SIGTERM or SIGINT and the end of all workers: SIGTERM to each, after `stop` SIGKILL; a second signal
  // leaves them 2 s. SIGHUP is passed on. Users who have something in the cache get a worker at once. False: some
  // worker did not end in order.
  virtual bool Run() = 0;
  virtual ~Supervisor() = default;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_SUPERVISOR_H_
