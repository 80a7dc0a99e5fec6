#include "tests/systemd/machine.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "storage/base/status.h"
#include "tests/integration/notify_socket.h"

namespace cairn::testing {
namespace {

using std::chrono::seconds;

// It ends at once, without stopping what runs in it (systemd(1), "Signals").
const int kHalt = SIGRTMIN + 13;

absl::Status CheckMachine() {
  if (::geteuid() != 0) return FailedPrecondition("only root can boot a machine");
  if (RunProcess({.arguments = {"systemd-nspawn", "--version"}, .environment = {}, .working_directory = ""})
          .exit_code != 0) {
    return FailedPrecondition("systemd-nspawn (Debian's systemd-container) is not installed");
  }
  return absl::OkStatus();
}

std::string GroupOf(const std::string& folder) {
  return folder.substr(folder.rfind('/') + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Machine>> Machine::Start() {
  CAIRN_RETURN_IF_ERROR(CheckMachine());
  std::string folder = "/tmp/cairn-machine.XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return Unavailable("{}: {}", folder, std::strerror(errno));
  std::unique_ptr<Machine> machine(new Machine(folder));
  CAIRN_RETURN_IF_ERROR(machine->Boot());
  return machine;
}

absl::Status Machine::Boot() {
  const std::string root = folder_ + "/root";
  std::filesystem::create_directory(root);
  NotifySocket notified(folder_ + "/notify");
  const std::string script = DataPath("tests/systemd/make_root.sh");
  const std::string checkout = script.substr(0, script.size() - std::string("/tests/systemd/make_root.sh").size());
  // In control groups of its own: those of two machines in one group would be the same.
  const std::string boot =
      "\"$1\" \"$2\" \"$3\" || exit 100\n"
      "for tree in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do\n"
      "  [ ! -w $tree/cgroup.procs ] || { mkdir -p $tree/$4 && echo $$ >$tree/$4/cgroup.procs; } || exit 100\n"
      "done\n"
      "exec systemd-nspawn --boot --register=no --keep-unit --private-users=no --notify-ready=yes --console=pipe "
      "--hostname=machine -D \"$2\"";
  process_ = Process::Start({.arguments = {"unshare", "--mount", "--propagation", "private", "sh", "-c", boot, "sh",
                                           script, root, checkout, GroupOf(folder_)},
                             .environment = {{"NOTIFY_SOCKET", folder_ + "/notify"}},
                             .working_directory = ""});
  constexpr std::string_view kLeader = "X_NSPAWN_LEADER_PID=", kReady = "READY=1";
  bool ready = false;
  while (leader_ == 0 || !ready) {
    const std::string message = notified.Await(*process_, seconds(90));
    if (message.empty()) break;
    ready = ready || message.find(kReady) != std::string::npos;
    if (const std::size_t at = message.find(kLeader); at != std::string::npos) {
      std::from_chars(message.data() + at + kLeader.size(), message.data() + message.size(), leader_);
    }
  }
  if (leader_ != 0 && ready) return absl::OkStatus();
  const Ending ending = process_->Wait(seconds(0));
  if (ending.exit_code == 100) return FailedPrecondition("{}", ending.output);
  return Unavailable("the machine does not boot: {}", ending.output);
}

Machine::~Machine() {
  if (leader_ != 0) ::kill(leader_, kHalt);
  if (process_) process_->Wait(seconds(20));
  RunProcess({.arguments = {"sh", "-c",
                            "for tree in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do "
                            "[ ! -d $tree/$1 ] || find $tree/$1 -depth -type d -exec rmdir {} \\;; done",
                            "sh", GroupOf(folder_)},
              .environment = {},
              .working_directory = ""});
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Process::Options Machine::Command(const std::string& user, std::vector<std::string> arguments,
                                  const std::map<std::string, std::string>& environment) const {
  Process::Options options;
  options.arguments = {"nsenter", "--target", std::to_string(leader_), "--all"};
  // The signal comes last: changing ids takes it away.
  options.arguments.insert(options.arguments.end(),
                           {"setpriv", "--reuid", user, "--regid", user, "--init-groups", "--pdeathsig", "KILL", "env",
                            "-i", "PATH=/usr/bin:/usr/sbin", "LANG=C.UTF-8"});
  for (const auto& [name, value] : environment) options.arguments.push_back(name + "=" + value);
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  return options;
}

Ending Machine::Run(const std::string& line, const std::string& user) const {
  return RunProcess(Command(user, {"sh", "-c", line}));
}

}  // namespace cairn::testing
