#include "tests/support/cluster/node.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "tests/support/cluster/enter.h"

namespace cairn::testing {
namespace {

absl::Status NotAllowed(std::string_view what) {
  return PermissionDenied("{}: {}", what, std::strerror(errno));
}

absl::Status WriteProc(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid() || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return NotAllowed(path);
  }
  return absl::OkStatus();
}

// Everybody is in there under the same number as here.
absl::Status EnterUserNamespace() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER) != 0) return NotAllowed("a user namespace");
  // The kernel has just made this process unreadable for the user that it belongs to.
  if (::prctl(PR_SET_DUMPABLE, 1) != 0) return NotAllowed("a process that can be entered");
  CAIRN_RETURN_IF_ERROR(WriteProc("/proc/self/setgroups", "deny"));
  CAIRN_RETURN_IF_ERROR(WriteProc("/proc/self/uid_map", fmt::format("{0} {0} 1", user)));
  CAIRN_RETURN_IF_ERROR(WriteProc("/proc/self/gid_map", fmt::format("{0} {0} 1", group)));
  if (!KeepRightsOverExec()) return NotAllowed("capabilities");
  return absl::OkStatus();
}

// The next process that is made runs by these clocks. A process cannot change its own.
absl::Status SetClocksOfNext(std::chrono::seconds ahead) {
  if (::unshare(CLONE_NEWTIME) != 0) return NotAllowed("a time namespace");
  return WriteProc("/proc/self/timens_offsets", fmt::format("monotonic {0} 0\nboottime {0} 0\n", ahead.count()));
}

absl::Status Furnish(const Node::Options& options) {
  if (::sethostname(options.host_name.data(), options.host_name.size()) != 0) return NotAllowed("a host name");
  // What is mounted here must not show on the machine.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return NotAllowed("mounts of its own");
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) return NotAllowed("/proc");
  if (::mount(options.hosts_file.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) != 0)
    return NotAllowed("/etc/hosts");
  return absl::OkStatus();
}

// The node's first process. It tells how it went by one line, "" if well.
[[noreturn]] void BeFirstProcess(const Node::Options& options, UniqueFd tell) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, options.host_name.c_str());
  const absl::Status furnished = Furnish(options);
  const std::string line = std::string(MessageOf(furnished)) + "\n";
  // This also fails if our parent died before we asked to die with it.
  ::signal(SIGPIPE, SIG_IGN);
  if (::write(tell.get(), line.data(), line.size()) < 0 || !furnished.ok()) std::_Exit(1);
  ::syscall(SYS_close_range, 0, ~0U, 0);
  ::signal(SIGCHLD, SIG_IGN);  // whoever is left to us is gone when it ends
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (;;) ::pause();
}

std::string ReadLine(int fd) {
  std::string line;
  for (char c; ::read(fd, &c, 1) == 1;) {
    if (c == '\n') return line;
    line += c;
  }
  return "it died";
}

}  // namespace

absl::Status LeaveTheMachine() {
  if (::unshare(CLONE_NEWNET) == 0) return absl::OkStatus();
  if (errno != EPERM) return NotAllowed("a network namespace");
  CAIRN_RETURN_IF_ERROR(EnterUserNamespace());
  return ::unshare(CLONE_NEWNET) == 0 ? absl::OkStatus() : NotAllowed("a network namespace");
}

absl::StatusOr<std::unique_ptr<Node>> Node::Start(const Options& options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return NotAllowed("a pipe");
  UniqueFd hear(ends[0]), tell(ends[1]);
  if (options.clocks_ahead.has_value()) CAIRN_RETURN_IF_ERROR(SetClocksOfNext(*options.clocks_ahead));
  const long pid = ::syscall(SYS_clone, SIGCHLD | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWPID | CLONE_NEWNS, 0, 0, 0, 0);
  if (pid == 0) {
    hear.Reset();
    BeFirstProcess(options, std::move(tell));
  }
  if (pid < 0) return NotAllowed("namespaces");
  auto node = std::unique_ptr<Node>(new Node(static_cast<pid_t>(pid)));
  tell.Reset();
  const std::string line = ReadLine(hear.get());
  if (!line.empty()) return PermissionDenied("{}: {}", options.host_name, line);
  return node;
}

Node::~Node() {
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  ::kill(pid_, SIGKILL);
  pollfd poll{.fd = fd.get(), .events = POLLIN, .revents = 0};
  ::poll(&poll, 1, 30'000);
  ::waitpid(pid_, nullptr, WNOHANG);
}

bool Node::running() const {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

}  // namespace cairn::testing
