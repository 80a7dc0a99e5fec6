// Hard limits of workers by the kernel's control groups, of version 2 or 1 (cgroups(7), kernel: admin-guide/cgroup-v2
// and cgroup-v1). One group for each user, "user-<uid>", below a parent that belongs to the supervisor.
#ifndef CAIRN_DAEMON_SUPERVISOR_CGROUP_H_
#define CAIRN_DAEMON_SUPERVISOR_CGROUP_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

struct WorkerLimits {
  std::uint64_t memory_bytes = 0;  // 0: no limit
  std::uint32_t cpu_weight = 100;  // 1..10000; 100 is what everybody else has
  std::uint32_t io_weight = 100;   // the same, of disks; where the kernel does not share them by weights: as many
  std::uint32_t tasks_max = 0;     // processes and threads; 0: no limit
};

// One thread at a time; Enter is for a process of its own.
class WorkerGroups {
 public:
  // No groups: there are none here, or none are wanted. Enter and Remove do nothing.
  WorkerGroups() = default;
  // `root`: where control groups are mounted. `own`: the text of /proc/self/cgroup. `parent`: a group's name such as
  // "/cairn"; empty: the group that this process is in (a service with Delegate=yes). In version 2 this process leaves
  // the parent for the group "supervisor" below it: a group with controllers has no processes of its own.
  // `weighs_io`: a weight for disks is wanted; else nothing is changed for that.
  //   kUnavailable  there is no tree that this process may change; the message says what was tried
  static absl::StatusOr<WorkerGroups> Open(const std::string& root, std::string_view own, const std::string& parent,
                                           pid_t self, bool weighs_io);

  bool there() const { return !trees_.empty(); }
  // The version, the parents, and what is limited: for the log.
  std::string Describe() const;
  bool weighs_io() const;  // it is wanted, and there is a controller for that
  // Makes the user's group and sets its limits, then puts process `pid` there.
  //   kUnavailable  a file cannot be written, or no group of the kernel's has io_weight, which is not 100: the message
  //                 names it. What can be limited is.
  absl::Status Enter(uid_t user, const WorkerLimits& limits, pid_t pid) const;
  // Once the last process of the group has gone; before that it does nothing.
  void Remove(uid_t user) const;

 private:
  struct Tree {
    bool v2 = false;
    std::string folder;  // the parent
    bool memory = false, cpu = false, tasks = false, io = false;
  };
  std::vector<Tree> trees_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_CGROUP_H_
