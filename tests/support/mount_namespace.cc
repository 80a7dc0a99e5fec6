#include "tests/support/mount_namespace.h"

#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>

#include "storage/base/status.h"

namespace cairn {

absl::Status EnterMountNamespace() {
  static thread_local bool entered = false;
  if (entered) return absl::OkStatus();
  if (::unshare(CLONE_NEWNS) != 0) return FailedPrecondition("a mount namespace: {}", std::strerror(errno));
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return FailedPrecondition("private mounts: {}", std::strerror(errno));
  }
  entered = true;
  return absl::OkStatus();
}

}  // namespace cairn
