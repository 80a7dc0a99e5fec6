#include "daemon/supervisor/start.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "daemon/supervisor/folders.h"
#include "daemon/supervisor/hand_over.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kCapabilitiesMax = 64;
constexpr int kAbove = 16;  // descriptors are moved there while the first ones are put in their places
constexpr rlim_t kFilesMax = 65'536;

absl::Status Errno(const char* what) {
  return Unavailable("{}: {}", what, std::strerror(errno));
}

// --- In the new process ---

absl::Status MakePlaces(uid_t user, const Account& account, const WorkerSetting& setting) {
  const Owner owner{.user = user, .group = account.group};
  CAIRN_RETURN_IF_ERROR(Annotate(MakeUserFolder(setting.runtime, fmt::format("{}", user), owner), setting.runtime_dir));
  CAIRN_RETURN_IF_ERROR(Annotate(MakeUserFolder(setting.cache, account.name, owner), setting.cache_dir));
  CAIRN_RETURN_IF_ERROR(Annotate(setting.quota.Limit(setting.cache, account.name, user), setting.cache_dir));
  return Annotate(MakeUserFile(setting.cache, fmt::format("cairnd.{}.lock", user), owner), setting.cache_dir);
}

// Without control groups. RLIMIT_NPROC is none of them: it counts what else the user runs, too.
absl::Status SetLimits(const WorkerSetting& setting) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return Errno("RLIMIT_NOFILE");
  files.rlim_max = std::min(files.rlim_max, kFilesMax);
  files.rlim_cur = files.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return Errno("RLIMIT_NOFILE");
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};  // what users checkpoint is not left in core files
  if (::setrlimit(RLIMIT_CORE, &none) != 0) return Errno("RLIMIT_CORE");
  if (setting.groups.there() || setting.limits.memory_bytes == 0) return absl::OkStatus();
  const rlimit memory{.rlim_cur = setting.limits.memory_bytes, .rlim_max = setting.limits.memory_bytes};
  if (::setrlimit(RLIMIT_DATA, &memory) != 0) return Errno("RLIMIT_DATA");
  return absl::OkStatus();
}

// From here on the process is the user's, for good.
absl::Status BecomeUser(uid_t user, const Account& account) {
  for (int capability = 0; capability < kCapabilitiesMax; ++capability) {
    // EINVAL: the kernel has no more of them.
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL) return Errno("bounding set");
  }
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return Errno("ambient capabilities");
  if (::prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) != 0) return Errno("keep capabilities");
  if (::setgroups(account.groups.size(), account.groups.data()) != 0) return Errno("setgroups");
  if (::setresgid(account.group, account.group, account.group) != 0) return Errno("setresgid");
  if (::setresuid(user, user, user) != 0) return Errno("setresuid");
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> nothing{};
  if (::syscall(SYS_capset, &header, nothing.data()) != 0) return Errno("capset");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Errno("no new privileges");
  return absl::OkStatus();
}

// What the kernel says, not what it was asked for.
absl::Status CheckIsUser(uid_t user, const Account& account) {
  uid_t users[3];
  gid_t groups[3];
  if (::getresuid(&users[0], &users[1], &users[2]) != 0 || ::getresgid(&groups[0], &groups[1], &groups[2]) != 0) {
    return Errno("ids");
  }
  const bool ids = std::ranges::all_of(users, [&](uid_t id) { return id == user; }) &&
                   std::ranges::all_of(groups, [&](gid_t id) { return id == account.group; });
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> has{};
  if (::syscall(SYS_capget, &header, has.data()) != 0) return Errno("capget");
  const bool none = std::ranges::all_of(
      has, [](const auto& part) { return part.effective == 0 && part.permitted == 0 && part.inheritable == 0; });
  if (!ids || !none || ::setuid(0) == 0) return Internal("user {} could not be become", user);
  return absl::OkStatus();
}

absl::Status OpenStandardStreams(const std::string& folder) {
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  // With the user's rights, in the user's folder.
  const UniqueFd log(::open((folder + "/cairnd.log").c_str(),
                            O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!null.valid() || !log.valid()) return Errno(null.valid() ? "cairnd.log" : "/dev/null");
  struct stat info {};
  if (::fstat(log.get(), &info) != 0 || !S_ISREG(info.st_mode)) return PermissionDenied("cairnd.log: not a file");
  if (::dup2(null.get(), STDIN_FILENO) < 0 || ::dup2(log.get(), STDOUT_FILENO) < 0 ||
      ::dup2(log.get(), STDERR_FILENO) < 0) {
    return Errno("standard streams");
  }
  return absl::OkStatus();
}

void SetSignals() {
  sigset_t kept;
  sigemptyset(&kept);
  // Until the worker waits for them: they would end it.
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&kept, signal);
  ::sigprocmask(SIG_SETMASK, &kept, nullptr);
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, SIG_DFL);
  }
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Ends {
  int link, page, deposits, report;
  std::vector<int> left;
};

// Returns only if it fails.
absl::Status BecomeWorker(uid_t user, const WorkerSetting& setting, const Ends& ends) {
  ::setsid();
  SetSignals();
  if (user == 0 || user < setting.uid_min) {
    return PermissionDenied("no worker for it: supervisor.uid_min is {}", setting.uid_min);
  }
  const std::optional<Account> account = setting.account(user);
  if (!account) return PermissionDenied("the system does not know it");
  CAIRN_RETURN_IF_ERROR(MakePlaces(user, *account, setting));
  CAIRN_RETURN_IF_ERROR(setting.groups.Enter(user, setting.limits, ::getpid()));
  CAIRN_RETURN_IF_ERROR(SetLimits(setting));
  CAIRN_RETURN_IF_ERROR(BecomeUser(user, *account));
  CAIRN_RETURN_IF_ERROR(CheckIsUser(user, *account));
  ::umask(077);
  if (::chdir("/") != 0) return Errno("/");
  const std::string folder = fmt::format("{}/{}", setting.runtime_dir, user);
  CAIRN_RETURN_IF_ERROR(OpenStandardStreams(folder));

  std::vector<std::string> arguments = {"cairnd", "--worker"};
  arguments.insert(arguments.end(), setting.arguments.begin(), setting.arguments.end());
  arguments.insert(arguments.end(), {"--runtime-dir", folder, "--cache", setting.cache_dir});
  std::vector<std::string> environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + account->home,
                                          "USER=" + account->name, "LOGNAME=" + account->name, "LANG=C.UTF-8"};
  if (::dup2(ends.link, kLinkFd) < 0 || ::dup2(ends.page, kPageFd) < 0 || ::dup2(ends.deposits, kDepositFd) < 0) {
    return Errno("descriptors");
  }
  int next = kFirstLeftFd;
  for (const int left : ends.left) {
    if (::dup2(left, next++) < 0) return Errno("descriptors");
  }
  if (::close_range(static_cast<unsigned>(next), ~0U, CLOSE_RANGE_CLOEXEC) != 0) return Errno("close_range");
  ::execveat(setting.program, "", Pointers(arguments).data(), Pointers(environment).data(), AT_EMPTY_PATH);
  return Errno("the program");
}

// What is moved there is in nobody's place.
int AboveAll(std::size_t left) {
  return kFirstLeftFd + static_cast<int>(left) + kAbove;
}

[[noreturn]] void RunChild(uid_t user, const WorkerSetting& setting, Ends ends) {
  absl::Status why;
  std::vector<int*> all = {&ends.link, &ends.page, &ends.deposits, &ends.report};
  for (int& left : ends.left) all.push_back(&left);
  for (int* end : all) {
    *end = ::fcntl(*end, F_DUPFD_CLOEXEC, AboveAll(ends.left.size()));
    if (*end < 0) std::_Exit(1);
  }
  try {
    why = BecomeWorker(user, setting, ends);
  } catch (const std::exception& error) {
    why = Internal("{}", error.what());
  }
  const std::string_view text = MessageOf(why).substr(0, kReportBytesMax);
  if (::write(ends.report, text.data(), text.size()) < 0) std::_Exit(2);
  std::_Exit(1);
}

}  // namespace

absl::StatusOr<StartedWorker> StartWorker(uid_t user, const WorkerSetting& setting, const std::vector<int>& left) {
  CAIRN_ASSIGN_OR_RETURN(Link link, MakeLink());
  CAIRN_ASSIGN_OR_RETURN(CountersPage page, CountersPage::Make());
  int report[2];
  if (::pipe2(report, O_CLOEXEC | O_NONBLOCK) != 0) return Errno("pipe");
  UniqueFd reader(report[0]), writer(report[1]);
  CAIRN_ASSIGN_OR_RETURN(Link deposits, MakeDepositLink());
  UniqueFd program(::fcntl(setting.program, F_DUPFD_CLOEXEC, AboveAll(left.size())));
  if (!program.valid()) return Errno("the program");
  WorkerSetting moved = setting;  // whatever its number, it must not be one of those that are replaced
  moved.program = program.get();
  const pid_t pid = ::fork();
  if (pid < 0) return Errno("fork");
  if (pid == 0) {
    RunChild(user, moved,
             {.link = link.worker.get(),
              .page = page.fd(),
              .deposits = deposits.worker.get(),
              .report = writer.get(),
              .left = left});
  }
  return StartedWorker{.pid = pid,
                       .link = std::move(link.supervisor),
                       .report = std::move(reader),
                       .page = std::move(page),
                       .deposits = std::move(deposits.supervisor)};
}

}  // namespace cairn
