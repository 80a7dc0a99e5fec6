// cairn-cluster: several nodes on this machine, by hand.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "tests/support/cluster/cluster.h"
#include "tests/support/cluster/control.h"
#include "tests/support/cluster/enter.h"

namespace cairn::testing {
namespace {

using Words = std::vector<std::string>;

constexpr char kUsage[] =
    R"(usage: cairn-cluster [--nodes N] [--ahead K=SECONDS]… [--no-daemons] [--shell | -- COMMAND…]

Starts nodes n1, n2, … on this machine: each with its own network, host name, processes, cache and cairnd; one prefix
for all. Then a shell or a command runs on the network of n1, with `cairn` in its PATH; without either the nodes stay
until Ctrl-C. All of it is gone at the end.

  --nodes N          1 to 250 [3]
  --ahead K=SECONDS  the clocks of node K that count since boot are so much ahead
  --no-daemons       no cairnd runs at first
  --shell            a shell on n1

In that shell, or wherever CAIRN_CLUSTER is set to the folder that is printed at the start:
  node K [COMMAND…]    a shell, or the command, on node K, with CAIRN_ADDRESS and CAIRN_PREFIX set; `node 3 cairn status`
  daemon K [FLAGS…]    start a cairnd on node K, with further flags (`node K pkill -x cairnd` ends it);
                       it reads $CAIRN_CLUSTER/nK/cairnd.toml and writes $CAIRN_CLUSTER/nK/cairnd.log
  cluster COMMAND…     change the cluster:
)";

struct Options {
  Cluster::Options cluster;
  bool daemons = true, shell = false;
  Words command;
};

int Complain(const std::string& message, int exit_code = 1) {
  std::cerr << "cairn-cluster: " << message << "\n";
  return exit_code;
}

std::string Help() {
  std::string help = std::string(kUsage) + kCommands;
  return help + "\nThe nodes' addresses are 10.77.0.K; they know each other as nK.\n";
}

std::string FolderOf(const std::string& cluster, int node) {
  return fmt::format("{}/{}", cluster, Cluster::host(node));
}

// What programs on a node need to know.
std::map<std::string, std::string> EnvironmentOf(const std::string& cluster, int node) {
  return {{"CAIRN_CLUSTER", cluster},
          {"CAIRN_PREFIX", cluster + "/prefix"},
          {"CAIRN_ADDRESS", fmt::format("unix:{}/run/cairnd.sock", FolderOf(cluster, node))}};
}

Words DaemonCommand(const std::string& cluster, int node, const Words& flags) {
  const std::string folder = FolderOf(cluster, node);
  Words command = {DataPath("daemon/cairnd"),
                   "--single-user",
                   "--config",
                   folder + "/cairnd.toml",
                   "--runtime-dir",
                   folder + "/run",
                   "--cache",
                   folder + "/cache",
                   "--log-file",
                   folder + "/cairnd.log",
                   "--background"};
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

std::vector<char*> Pointers(Words& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// --- In the shell ---

// On the node, instead of this process; 125 if that cannot be.
int RunOnNode(const std::string& cluster, const std::string& node, Words command) {
  const auto there = Ask(cluster, "pid " + node);
  if (!there.ok()) return Complain(std::string(MessageOf(there.status())), 125);
  for (const auto& [name, value] : EnvironmentOf(cluster, std::atoi(node.c_str()))) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<char*> argv = Pointers(command);
  return Enter({.there = std::atoi(there->c_str()), .beside = false, .tell = "", .command = argv.data()});
}

int ChangeCluster(const std::string& cluster, const Words& words) {
  const auto answer = Ask(cluster, fmt::format("{}", fmt::join(words, " ")));
  if (!answer.ok()) return Complain(std::string(MessageOf(answer.status())));
  if (!answer->empty()) std::cout << *answer << "\n";
  return 0;
}

// The small commands of the shell.
int RunSmall(const std::string& name, const Words& words) {
  const char* const cluster = std::getenv("CAIRN_CLUSTER");
  if (cluster == nullptr) return Complain("CAIRN_CLUSTER does not say which cluster", 2);
  if (name == "cluster") return ChangeCluster(cluster, words);
  if (words.empty()) return Complain("which node?", 2);
  const Words rest(words.begin() + 1, words.end());
  if (name == "daemon") return RunOnNode(cluster, words[0], DaemonCommand(cluster, std::atoi(words[0].c_str()), rest));
  return RunOnNode(cluster, words[0], rest.empty() ? Words{"bash"} : rest);
}

// --- The cluster itself ---

absl::StatusOr<Options> ReadOptions(const Words& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string value = i + 1 < words.size() ? words[i + 1] : "";
    if (word == "--shell") {
      options.shell = true;
    } else if (word == "--no-daemons") {
      options.daemons = false;
    } else if (word == "--nodes" && std::atoi(value.c_str()) > 0) {
      options.cluster.nodes = std::atoi(value.c_str());
      ++i;
    } else if (word == "--ahead" && value.find('=') != std::string::npos) {
      options.cluster.clocks_ahead[std::atoi(value.c_str())] =
          std::chrono::seconds(std::atoll(value.c_str() + value.find('=') + 1));
      ++i;
    } else if (word == "--" && i + 1 < words.size()) {
      options.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      break;
    } else {
      return InvalidArgument("{} is no option, or lacks its value; try --help", word);
    }
  }
  if (options.shell) options.command = {"bash"};
  return options;
}

// A folder of small programs for PATH.
absl::Status WritePrograms(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directory(folder, error);
  std::filesystem::create_symlink(DataPath("client/cli/cairn"), folder + "/cairn", error);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return Unavailable("{}: {}", folder, error.message());
  for (const char* name : {"node", "daemon", "cluster"}) {
    const std::string path = fmt::format("{}/{}", folder, name);
    std::ofstream(path) << fmt::format("#!/bin/sh\nexec '{}' {} \"$@\"\n", self, name);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
    if (error) return Unavailable("{}: {}", path, error.message());
  }
  return absl::OkStatus();
}

absl::Status StartDaemons(Cluster& cluster) {
  for (int node = 1; node <= cluster.nodes(); ++node) {
    std::ofstream(FolderOf(cluster.folder(), node) + "/cairnd.toml").flush();
    const Ending ending = cluster.Run(
        node, {.arguments = DaemonCommand(cluster.folder(), node, {}), .environment = {}, .working_directory = {}});
    if (ending.exit_code != 0) return Unavailable("cairnd on {}: {}", Cluster::host(node), ending.output);
  }
  return absl::OkStatus();
}

// Beside what runs on n1, so that it can go to the others. How it ended, as a shell tells it.
int RunBeside(Cluster& cluster, Words command) {
  const int there = std::atoi(cluster.Command("pid 1").c_str());
  const std::string path = fmt::format("{}/bin:{}", cluster.folder(), std::getenv("PATH"));
  std::vector<char*> argv = Pointers(command);
  const pid_t starter = ::getpid(), pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGHUP);
    if (::getppid() != starter) std::_Exit(125);
    for (const auto& [name, value] : EnvironmentOf(cluster.folder(), 1)) ::setenv(name.c_str(), value.c_str(), 1);
    ::setenv("PATH", path.c_str(), 1);
    std::_Exit(Enter({.there = there, .beside = true, .tell = "", .command = argv.data()}));
  }
  // Keys of the terminal are for the command.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGQUIT, SIG_IGN);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return Complain(std::strerror(errno));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Main(const Words& words) {
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
    std::cout << Help();
    return 0;
  }
  const auto options = ReadOptions(words);
  if (!options.ok()) return Complain(std::string(MessageOf(options.status())), 2);
  // So that Ctrl-C does not leave anything out.
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends, signal);
  const bool waits = options->command.empty();
  if (waits) ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  auto cluster = Cluster::Start(options->cluster);
  if (!cluster.ok()) return Complain(std::string(MessageOf(cluster.status())));
  absl::Status ready = WritePrograms((*cluster)->folder() + "/bin");
  if (ready.ok() && options->daemons) ready = StartDaemons(**cluster);
  if (!ready.ok()) return Complain(std::string(MessageOf(ready)));
  std::cout << fmt::format("{} nodes in {}; `cairn-cluster --help` tells what can be done to them\n",
                           options->cluster.nodes, (*cluster)->folder())
            << std::flush;
  if (!waits) return RunBeside(**cluster, options->command);
  int signal = 0;
  ::sigwait(&ends, &signal);
  return 0;
}

}  // namespace
}  // namespace cairn::testing

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string first = words.empty() ? "" : words[0];
  if (first == "node" || first == "daemon" || first == "cluster") {
    return cairn::testing::RunSmall(first, {words.begin() + 1, words.end()});
  }
  return cairn::testing::Main(words);
}
