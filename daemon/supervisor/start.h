// Makes a process the worker of one user. Everything that may wait (directory services, file systems) and everything
// that needs root's rights for that user happens in the new process, before it gives those rights up: the supervisor
// itself waits for nothing.
#ifndef CAIRN_DAEMON_SUPERVISOR_START_H_
#define CAIRN_DAEMON_SUPERVISOR_START_H_

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/supervisor/cgroup.h"
#include "daemon/supervisor/page.h"
#include "daemon/supervisor/project_quota.h"
#include "storage/base/unique_fd.h"
#include "storage/base/user_name.h"

namespace cairn {

struct WorkerSetting {
  int program = -1;                    // descriptor of the executable
  std::vector<std::string> arguments;  // beyond its name, "--worker", and its two folders
  std::string runtime_dir, cache_dir;  // the supervisor's, opened below
  int runtime = -1, cache = -1;        // descriptors of the same
  uid_t uid_min = 1000;                // less is refused, and 0 always
  WorkerLimits limits;
  WorkerGroups groups;
  ProjectQuota quota;
  std::function<std::optional<Account>(uid_t)> account = AccountOf;
};

struct StartedWorker {
  pid_t pid = 0;
  UniqueFd link;    // connections go there (hand_over.h)
  UniqueFd report;  // why it did not come to be executed: text of ours, at most kReportBytesMax; the end: it was
  CountersPage page;
  UniqueFd deposits;  // requests for memory come from there (proto/supervisor.h); does not block
};
inline constexpr std::size_t kReportBytesMax = 1000;

// Forks. REQUIRES: this process has one thread, and every descriptor that is not the worker's is close-on-exec.
// The worker is executed with
// - the user's ids and groups as the system has them, no capabilities, none in the bounding set, no new privileges;
// - a session of its own, "/" as folder, umask 077, SIGTERM, SIGINT and SIGHUP blocked, all other signals by default;
// - /dev/null as input, <runtime_dir>/<uid>/cairnd.log, opened with the user's rights, as output and error, its link,
//   page and socket for deposits (proto/supervisor.h), `left`, and no other descriptor;
// - an environment of PATH, HOME, USER, LOGNAME and LANG;
// - the folders <runtime_dir>/<uid> and <cache_dir>/<user>, and the lock file <cache_dir>/cairnd.<uid>.lock, of its
// own. kUnavailable: no process, no sockets, no memory.
absl::StatusOr<StartedWorker> StartWorker(uid_t user, const WorkerSetting& setting, const std::vector<int>& left);

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_START_H_
