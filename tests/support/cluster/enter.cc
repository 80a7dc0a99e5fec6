#include "tests/support/cluster/enter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "storage/base/unique_fd.h"

namespace cairn::testing {
namespace {

constexpr int kNotThere = 125, kNotStarted = 127;

int Complain(const std::string& about, int exit_code) {
  fmt::print(stderr, "{}: {}\n", about, std::strerror(errno));
  return exit_code;
}

// Is a namespace of that process, for example "user", not ours?
bool IsOther(pid_t there, const char* name) {
  struct stat ours, theirs;
  return ::stat(fmt::format("/proc/self/ns/{}", name).c_str(), &ours) == 0 &&
         ::stat(fmt::format("/proc/{}/ns/{}", there, name).c_str(), &theirs) == 0 && ours.st_ino != theirs.st_ino;
}

[[noreturn]] void Execute(char** command) {
  ::execvp(command[0], command);
  std::_Exit(Complain(command[0], kNotStarted));
}

bool Tell(const std::string& path, pid_t pid) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const std::string text = std::to_string(pid);
  return ::sendto(fd.get(), text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
         static_cast<ssize_t>(text.size());
}

// So that whoever waits for us sees how the program ended.
int EndAs(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(WTERMSIG(status), SIG_DFL);
  ::kill(::getpid(), WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

// In a node's namespaces GCC 12's LeakSanitizer waits for ever for its own tracer: a node's programs go without it.
void WithoutLeakSanitizer() {
  const char* options = std::getenv("ASAN_OPTIONS");
  if (options != nullptr) ::setenv("ASAN_OPTIONS", fmt::format("{}:detect_leaks=0", options).c_str(), 1);
}

// The program: not before its starter has told of it, and not without its starter.
[[noreturn]] void BecomeProgram(int go, const std::string& directory, char** command) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  char byte;
  if (::read(go, &byte, 1) != 1) std::_Exit(kNotThere);
  if (::chdir(directory.c_str()) != 0) std::_Exit(Complain(directory, kNotThere));
  WithoutLeakSanitizer();
  Execute(command);
}

int RunAndWait(const Entrance& entrance, const std::string& directory) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Complain("pipe", kNotThere);
  UniqueFd go(ends[0]), say_go(ends[1]);
  const pid_t program = ::fork();
  if (program < 0) return Complain("fork", kNotThere);  // ENOMEM: the node has lost its first process
  if (program == 0) {
    say_go.Reset();
    BecomeProgram(go.get(), directory, entrance.command);
  }
  // Keys of a terminal are for the program.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGQUIT, SIG_IGN);
  if (!entrance.tell.empty() && !Tell(entrance.tell, program)) return Complain(entrance.tell, kNotThere);
  if (::write(say_go.get(), "g", 1) != 1) return Complain("pipe", kNotThere);
  int status = 0;
  while (::waitpid(program, &status, 0) < 0) {
    if (errno != EINTR) return Complain("waitpid", kNotThere);
  }
  return EndAs(status);
}

}  // namespace

bool KeepRightsOverExec() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return false;
  for (auto& set : sets) set.inheritable = set.permitted;
  if (::syscall(SYS_capset, &header, sets.data()) != 0) return false;
  for (unsigned i = 0; i < 64; ++i) {
    if ((sets[i / 32].permitted >> (i % 32) & 1) == 0) continue;
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0) != 0) return false;
  }
  return true;
}

int Enter(const Entrance& entrance) {
  std::error_code error;
  const std::string directory = std::filesystem::current_path(error).string();
  if (error) return Complain("working directory", kNotThere);
  const UniqueFd there(static_cast<int>(::syscall(SYS_pidfd_open, entrance.there, 0)));
  if (!there.valid()) return Complain(fmt::format("process {}", entrance.there), kNotThere);
  int namespaces = CLONE_NEWNET | CLONE_NEWUTS;
  if (!entrance.beside) namespaces |= CLONE_NEWNS | CLONE_NEWPID;
  // Nobody can enter the user namespace that he is in, and an ordinary user no time namespace of the machine's.
  if (IsOther(entrance.there, "user")) namespaces |= CLONE_NEWUSER;
  if (!entrance.beside && IsOther(entrance.there, "time")) namespaces |= CLONE_NEWTIME;
  if (::setns(there.get(), namespaces) != 0) {
    return Complain(fmt::format("the namespaces of process {}", entrance.there), kNotThere);
  }
  if (!entrance.beside) return RunAndWait(entrance, directory);
  if (!KeepRightsOverExec()) return Complain("capabilities", kNotThere);
  Execute(entrance.command);
}

}  // namespace cairn::testing
