#include "daemon/supervisor/project_quota.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace cairn {
namespace {

constexpr std::uint64_t kBlockBytes = 1024;  // of the limits, on every file system (QIF_DQBLKSIZE)
constexpr std::uint64_t kNoProject = 0xffff'ffff;

absl::Status QuotaError(const char* what) {
  return Unavailable("{}: {}", what, std::strerror(errno));
}

}  // namespace

ProjectQuota::Kernel ProjectQuota::Kernel::Real() {
  return {.ioctl = [](int fd, unsigned long request, void* argument) { return ::ioctl(fd, request, argument); },
          .quotactl =
              [](int fd, unsigned command, unsigned id, void* argument) {
                return static_cast<int>(::syscall(SYS_quotactl_fd, fd, command, id, argument));
              },
          .privileged =
              [] {
                __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
                std::array<__user_cap_data_struct, 2> has{};
                return ::syscall(SYS_capget, &header, has.data()) == 0 &&
                       (has[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN)) != 0;
              }};
}

ProjectQuota::ProjectQuota(std::uint32_t first, Bytes bytes, Kernel kernel)
    : first_(first), bytes_(std::move(bytes)), kernel_(std::move(kernel)) {}

absl::Status ProjectQuota::Check(int folder) const {
  if (!wanted()) return absl::OkStatus();
  fsxattr attributes{};
  if (kernel_.ioctl(folder, FS_IOC_FSGETXATTR, &attributes) != 0) return QuotaError("projects");
  // Q_GETFMT knows nothing of XFS, and says nothing of limits.
  fs_quota_stat state{};
  if (kernel_.quotactl(folder, QCMD(Q_XGETQSTAT, PRJQUOTA), 0, &state) != 0) return QuotaError("project quotas");
  if ((state.qs_flags & FS_QUOTA_PDQ_ENFD) == 0) {
    return Unavailable("project quotas: the file system counts at most, it limits nothing: mount it with prjquota");
  }
  if (!kernel_.privileged()) return Unavailable("project quotas need CAP_SYS_ADMIN, which cairnd does not have");
  return absl::OkStatus();
}

absl::Status ProjectQuota::Limit(int parent, const std::string& name, uid_t user) const {
  if (!wanted()) return absl::OkStatus();
  const std::uint64_t project = std::uint64_t{first_} + user;
  if (project >= kNoProject) return InvalidArgument("supervisor.projects: there is no project {}", project);
  // The user's own, in a folder of ours: nobody else can put a link there.
  const UniqueFd folder(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) return QuotaError(name.c_str());
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t bytes, bytes_(name));
  fsxattr attributes{};
  if (kernel_.ioctl(folder.get(), FS_IOC_FSGETXATTR, &attributes) != 0) return QuotaError("project of a folder");
  // A project that is not ours is the site's: the folder is not taken out of it.
  if (attributes.fsx_projid != 0 && attributes.fsx_projid != project) {
    return FailedPrecondition("it belongs to project {}, supervisor.projects would make that {}", attributes.fsx_projid,
                              project);
  }
  // The limit first: nothing is written without it.
  if_dqblk limit{};
  limit.dqb_bhardlimit = limit.dqb_bsoftlimit = bytes / kBlockBytes + 1;
  limit.dqb_valid = QIF_BLIMITS;
  if (kernel_.quotactl(folder.get(), QCMD(Q_SETQUOTA, PRJQUOTA), static_cast<unsigned>(project), &limit) != 0) {
    return QuotaError("limit of a project");
  }
  const bool is_set = attributes.fsx_projid == project && (attributes.fsx_xflags & FS_XFLAG_PROJINHERIT) != 0;
  attributes.fsx_projid = static_cast<std::uint32_t>(project);
  attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
  if (!is_set && kernel_.ioctl(folder.get(), FS_IOC_FSSETXATTR, &attributes) != 0) {
    return QuotaError("project of a folder");
  }
  return absl::OkStatus();
}

}  // namespace cairn
