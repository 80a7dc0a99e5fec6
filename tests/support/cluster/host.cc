#include "tests/support/cluster/host.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include "storage/base/status.h"
#include "tests/support/cluster/control.h"
#include "tests/support/cluster/network.h"
#include "tests/support/cluster/node.h"
#include "tests/support/cluster/wiring.h"

namespace cairn::testing {
namespace {

using Words = std::vector<std::string>;
using Answer = absl::StatusOr<std::string>;

constexpr std::uint64_t kBitsMin = 8'000, kBitsMax = 1'000'000'000'000;
constexpr std::uint64_t kDelayMsMax = 60'000;
constexpr int kRoundsMax = 1'000;

absl::StatusOr<std::uint64_t> NumberIn(const std::string& text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) {
    return InvalidArgument("{} is no number from {} to {}", text, least, most);
  }
  return number;
}

class Host {
 public:
  explicit Host(const HostOptions& options) : options_(options), wiring_(options.agent) {}
  ~Host() {
    nodes_.clear();
    KillThoseBeside();
    std::error_code error;
    if (made_folder_) std::filesystem::remove_all(options_.folder, error);
    if (error) fmt::print("{}: {}\n", options_.folder, error.message());
  }

  absl::Status Start() {
    if (::mkdir(options_.folder.c_str(), 0700) != 0) {
      return Unavailable("{}: {}", options_.folder, std::strerror(errno));
    }
    made_folder_ = true;
    WriteHosts();
    CAIRN_RETURN_IF_ERROR(wiring_.Start());
    for (int node = 1; node <= options_.nodes; ++node) CAIRN_RETURN_IF_ERROR(PowerOn(node));
    return absl::OkStatus();
  }

  Answer Handle(const Words& words) {
    if (words.empty()) return InvalidArgument("no command");
    const std::string& verb = words[0];
    if (verb == "partition") return Say(Partition(words));
    if (verb == "heal" && words.size() == 1) return Say(wiring_.HealAll());
    if (words.size() == 2) return HandleNode(verb, words[1]);
    if (words.size() == 3) return Say(HandlePair(verb, words[1], words[2]));
    return Unknown(verb);
  }

 private:
  static Answer Say(const absl::Status& status) {
    if (!status.ok()) return status;
    return std::string();
  }
  static absl::Status Unknown(const std::string& verb) {
    return InvalidArgument("\"{}\" with so many words is no command; there are\n{}", verb, kCommands);
  }

  absl::StatusOr<int> NodeIn(const std::string& text) const {
    CAIRN_ASSIGN_OR_RETURN(const auto number, NumberIn(text, 1, static_cast<std::uint64_t>(options_.nodes)));
    return static_cast<int>(number);
  }

  Answer HandleNode(const std::string& verb, const std::string& name) {
    CAIRN_ASSIGN_OR_RETURN(const int node, NodeIn(name));
    if (verb == "pid") {
      if (!IsOn(node)) return FailedPrecondition("n{} is off", node);
      return std::to_string(nodes_[node]->pid());
    }
    if (verb == "on") return Say(PowerOn(node));
    if (verb == "off") return Say(PowerOff(node));
    if (verb == "cut") return Say(wiring_.Plug(node, false));
    if (verb == "mute") return Say(wiring_.Lose(node, /*sent=*/true, /*received=*/false));
    if (verb == "deafen") return Say(wiring_.Lose(node, /*sent=*/false, /*received=*/true));
    if (verb == "heal") return Say(wiring_.HealCable(node));
    return Unknown(verb);
  }

  absl::Status HandlePair(const std::string& verb, const std::string& name, const std::string& value) {
    CAIRN_ASSIGN_OR_RETURN(const int node, NodeIn(name));
    if (verb == "sever") {
      CAIRN_ASSIGN_OR_RETURN(const int other, NodeIn(value));
      return node == other ? InvalidArgument("a node hears itself always") : wiring_.Sever(node, other);
    }
    if (verb == "throttle") {
      CAIRN_ASSIGN_OR_RETURN(const auto bits, NumberIn(value, kBitsMin, kBitsMax));
      return wiring_.Throttle(node, bits);
    }
    if (verb == "delay") {
      CAIRN_ASSIGN_OR_RETURN(const auto ms, NumberIn(value, 0, kDelayMsMax));
      return wiring_.Delay(node, std::chrono::milliseconds(ms));
    }
    if (verb == "partition") return Partition({verb, name, value});
    return Unknown(verb);
  }

  absl::Status Partition(const Words& words) {
    std::vector<std::vector<int>> groups;
    std::set<int> named;
    for (std::size_t i = 1; i < words.size(); ++i) {
      groups.emplace_back();
      std::istringstream group(words[i]);
      for (std::string name; std::getline(group, name, ',');) {
        CAIRN_ASSIGN_OR_RETURN(const int node, NodeIn(name));
        if (!named.insert(node).second) return InvalidArgument("n{} is in two groups", node);
        groups.back().push_back(node);
      }
    }
    return wiring_.Partition(groups);
  }

  bool IsOn(int node) {
    const auto found = nodes_.find(node);
    return found != nodes_.end() && found->second->running();
  }

  absl::Status PowerOn(int node) {
    if (IsOn(node)) return FailedPrecondition("n{} is on", node);
    CAIRN_RETURN_IF_ERROR(PowerOff(node));  // what is left of one that died by itself
    Node::Options options{.host_name = fmt::format("n{}", node), .hosts_file = HostsFile(), .clocks_ahead = {}};
    if (!options_.clocks_ahead.empty()) {
      const auto ahead = options_.clocks_ahead.find(node);
      options.clocks_ahead = ahead == options_.clocks_ahead.end() ? std::chrono::seconds(0) : ahead->second;
    }
    CAIRN_ASSIGN_OR_RETURN(nodes_[node], Node::Start(options));
    if (!networks_.Add(std::to_string(nodes_[node]->pid()))) {
      return PermissionDenied("/proc does not tell which network n{} has", node);
    }
    return wiring_.Connect(node, nodes_[node]->pid());
  }

  absl::Status PowerOff(int node) {
    const absl::Status disconnected = wiring_.Disconnect(node);
    nodes_.erase(node);
    return disconnected;
  }

  // Programs that were on a node's network, but not among its processes: a shell's, for example. Each round ends those
  // that are there, and there are no more when one has found none.
  void KillThoseBeside() const {
    for (int round = 0, found = 1; found > 0 && round < kRoundsMax; ++round) {
      found = 0;
      std::error_code error;
      for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
        const std::string name = entry.path().filename();
        if (!networks_.Contains(NetworkOf(name))) continue;
        ++found;
        ::kill(std::atoi(name.c_str()), SIGKILL);
      }
      if (found > 0) ::poll(nullptr, 0, 10);
    }
  }

  std::string HostsFile() const { return options_.folder + "/hosts"; }
  void WriteHosts() const {
    std::ofstream file(HostsFile());
    file << "127.0.0.1 localhost\n";
    for (int node = 1; node <= options_.nodes; ++node) file << AddressOfNode(node) << " n" << node << "\n";
  }

  const HostOptions options_;
  bool made_folder_ = false;
  Wiring wiring_;
  std::map<int, std::unique_ptr<Node>> nodes_;
  HeldNetworks networks_;  // of all nodes that ever were
};

int Fail(const absl::Status& status) {
  fmt::print("{}\n", MessageOf(status));
  // kInternal: what `ip` said, for example that the kernel has no such device.
  const bool machine =
      status.code() == absl::StatusCode::kPermissionDenied || status.code() == absl::StatusCode::kInternal;
  return machine ? kHostNotAllowed : kHostFailed;
}

// Read when they come, by whoever waits for them anyway.
UniqueFd EndSignals() {
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  return UniqueFd(::signalfd(-1, &ends, SFD_CLOEXEC));
}

}  // namespace

int RunHost(const HostOptions& options) {
  // Who ends the test's whole process group leaves it to us to put things away.
  ::setsid();
  const UniqueFd end = EndSignals();
  const pid_t starter = ::getppid();
  if (const absl::Status left = LeaveTheMachine(); !left.ok()) return Fail(left);
  // After the last change of our rights, which would undo it.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != starter) return kHostFailed;
  Host host(options);
  if (const absl::Status started = host.Start(); !started.ok()) return Fail(started);
  auto control = ControlServer::Listen(options.folder);
  if (!control.ok()) return Fail(control.status());
  fmt::print("ready\n");
  std::fflush(stdout);
  for (;;) {
    std::array<pollfd, 2> polls{
        {{.fd = end.get(), .events = POLLIN, .revents = 0}, {.fd = control->fd(), .events = POLLIN, .revents = 0}}};
    if (::poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return kHostFailed;
    if (polls[0].revents != 0) return kHostEnded;
    if (polls[1].revents != 0) control->ServeOne([&host](const Words& words) { return host.Handle(words); });
  }
}

}  // namespace cairn::testing
