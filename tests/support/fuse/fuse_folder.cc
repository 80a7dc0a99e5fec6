#include "tests/support/fuse/fuse_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "tests/support/fuse/fuse_control.h"
#include "tests/support/fuse/fuse_server.h"
#include "tests/support/mount_namespace.h"

namespace cairn {
namespace {

absl::Status Cannot(std::string_view what) {
  return FailedPrecondition("{}: {}", what, std::strerror(errno));
}

// What the test has open is none of the server's: a lock of the test's would outlive its file.
void CloseAllBut(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned next = 3;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number > next) ::syscall(SYS_close_range, next, number - 1, 0);
    next = number + 1;
  }
  ::syscall(SYS_close_range, next, ~0U, 0);
}

const char* served_at = nullptr;  // in the server

void UnmountAndExit(int) {
  ::umount2(served_at, MNT_DETACH);
  ::_exit(0);
}

std::uint32_t Tell(int control, FuseControl::Kind kind, const FuseFault& fault = {}) {
  FuseControl message{
      .kind = kind, .opcode = fault.opcode, .error = fault.error, .times = fault.times, .name_part = {}};
  CAIRN_CHECK(fault.name_part.size() < sizeof message.name_part);
  std::memcpy(message.name_part, fault.name_part.data(), fault.name_part.size());
  std::uint32_t hanging = 0;
  if (::send(control, &message, sizeof message, MSG_NOSIGNAL) != sizeof message) return 0;
  return ::recv(control, &hanging, sizeof hanging, 0) == sizeof hanging ? hanging : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FuseFolder>> FuseFolder::Mount(const std::string& folder, const std::string& mount_point,
                                                              const FuseOptions& options) {
  // Whoever waited for an answer may be killed between poll and read; then there is nothing to be read any more.
  const UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!device.valid()) return Cannot("/dev/fuse");
  const UniqueFd root(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return NotFound("{}: {}", folder, std::strerror(errno));
  CAIRN_RETURN_IF_ERROR(EnterMountNamespace());
  const std::string how = fmt::format("fd={},rootmode=40000,user_id={},group_id={},default_permissions,allow_other",
                                      device.get(), ::geteuid(), ::getegid());
  if (::mount("cairn-test", mount_point.c_str(), "fuse.cairn", MS_NOSUID | MS_NODEV, how.c_str()) != 0) {
    return Cannot("mounting");
  }
  int pair[2] = {-1, -1};
  CAIRN_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
  UniqueFd ours(pair[0]);
  const UniqueFd theirs(pair[1]);
  const pid_t test = ::getpid();
  const pid_t server = ::fork();
  CAIRN_CHECK(server >= 0);
  if (server == 0) {
    ::setpgid(0, 0);  // a signal to the test's group is not for it
    // It ends with the test, even if a child of that hangs in a request and still has the other end of `control`.
    served_at = mount_point.c_str();
    ::signal(SIGTERM, UnmountAndExit);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != test) UnmountAndExit(SIGTERM);
    CloseAllBut({device.get(), theirs.get(), root.get()});
    ServeFuse({.device = device.get(), .control = theirs.get(), .root = root.get(), .options = options});
    UnmountAndExit(SIGTERM);
  }
  return std::unique_ptr<FuseFolder>(new FuseFolder(mount_point, std::move(ours), server));
}

FuseFolder::~FuseFolder() {
  Release();
  ::umount2(mount_point_.c_str(), MNT_DETACH);
  control_.Reset();
  for (int i = 0; i < 500; ++i) {
    if (::waitpid(server_, nullptr, WNOHANG) != 0) return;
    ::usleep(10'000);
  }
  ::kill(server_, SIGKILL);
  ::waitpid(server_, nullptr, 0);
}

void FuseFolder::Fail(const FuseFault& fault) {
  Tell(control_.get(), FuseControl::kFail, fault);
}

void FuseFolder::Hang(const FuseFault& fault) {
  Tell(control_.get(), FuseControl::kHang, fault);
}

void FuseFolder::Release() {
  Tell(control_.get(), FuseControl::kRelease);
}

std::uint32_t FuseFolder::hanging() const {
  return Tell(control_.get(), FuseControl::kAsk);
}

}  // namespace cairn
