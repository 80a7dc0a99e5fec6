// Hard limits of users' caches by the kernel's project quotas, where the cache's file system has them (quotactl(2),
// ioctl_xfs_fsgetxattr(2)): what is made in a user's folder belongs to the user's project, whoever makes it.
#ifndef CAIRN_DAEMON_SUPERVISOR_PROJECT_QUOTA_H_
#define CAIRN_DAEMON_SUPERVISOR_PROJECT_QUOTA_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace cairn {

class ProjectQuota {
 public:
  // Two system calls, which answer 0, or -1 and errno; and whether this process may set quotas.
  struct Kernel {
    std::function<int(int fd, unsigned long request, void* argument)> ioctl;
    std::function<int(int fd, unsigned command, unsigned id, void* argument)> quotactl;  // quotactl_fd(2)
    std::function<bool()> privileged;
    static Kernel Real();
  };
  using Bytes =
      std::function<absl::StatusOr<std::uint64_t>(const std::string& user)>;  // that the user's cache may have

  // None is wanted: Limit does nothing.
  ProjectQuota() = default;
  // `first`: a user's project is this plus the uid. REQUIRES: first != 0.
  ProjectQuota(std::uint32_t first, Bytes bytes, Kernel kernel = Kernel::Real());

  bool wanted() const { return first_ != 0; }
  // Of the folder that holds users' folders. kUnavailable: its file system has no project quotas, or limits nothing by
  // them, or we may not set them.
  absl::Status Check(int folder) const;
  // Makes `name` in `parent` the root of the user's project, and sets the project's limit. What was in it before does
  // not count unless it already belongs to the project.
  //   kInvalidArgument     there is no such project's number
  //   kFailedPrecondition  the folder belongs to another project
  //   kUnavailable         the folder cannot be opened, or the kernel refuses
  //   others               of Bytes
  absl::Status Limit(int parent, const std::string& name, uid_t user) const;

 private:
  std::uint32_t first_ = 0;
  Bytes bytes_;
  Kernel kernel_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_PROJECT_QUOTA_H_
