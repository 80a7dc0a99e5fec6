#include "tests/support/cluster/wiring.h"

#include <signal.h>

#include <algorithm>

#include "storage/base/status.h"

namespace cairn::testing {
namespace {

constexpr char kPath[] = "PATH=/usr/sbin:/sbin:/usr/bin:/bin\n";

// Whom a node has found it does not look for again: else a cable that is mute in one direction would soon be so in
// both.
constexpr int kKnownForMs = 86'400'000;
// Of nobody.
constexpr char kNoHardwareAddress[] = "02:00:00:00:00:00";

// So that a node that was off has the one again that the others know.
std::string HardwareAddressOf(int node) {
  return fmt::format("02:00:0a:4d:{:02x}:{:02x}", node / 256, node % 256);
}

// A node's end of its cable is eth0 there. The switch's end is port<k>; with a relay in between, that ends at port<k>,
// and at relay<k>, whose other end is far<k> in the switch.
std::string Port(int node) {
  return fmt::format("port{}", node);
}

absl::Status Check(const Ending& ending) {
  if (ending.exit_code == 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal, "{}", ending.output);
}

// For tc, to one direction of a cable. It takes bursts of 10 ms, and at least a large segment of TCP; up to 50 ms of
// frames wait.
std::string QueueOf(bool loses, std::uint64_t bits_per_second) {
  if (loses) return "pfifo limit 0";
  if (bits_per_second == 0) return "";
  const std::uint64_t burst = std::max<std::uint64_t>(bits_per_second / 8 / 100, 64 << 10);
  return fmt::format("tbf rate {}bit burst {} latency 50ms", bits_per_second, burst);
}

std::string ReplaceQueue(const std::string& device, const std::string& from, const std::string& to) {
  if (from == to) return "";
  if (to.empty()) return fmt::format("tc qdisc delete dev {} root\n", device);
  return fmt::format("tc qdisc replace dev {} root {}\n", device, to);
}

}  // namespace

std::string AddressOfNode(int node) {
  return fmt::format("10.77.{}.{}", node / 256, node % 256);
}

absl::Status Wiring::Run(const std::string& script) const {
  return Check(
      RunProcess({.arguments = {"/bin/sh", "-exc", kPath + script}, .environment = {}, .working_directory = {}}));
}

absl::Status Wiring::RunAt(pid_t there, const std::string& script) const {
  return Check(RunProcess({.arguments = {agent_, "beside", std::to_string(there), "/bin/sh", "-exc", kPath + script},
                           .environment = {},
                           .working_directory = {}}));
}

absl::Status Wiring::Start() {
  return Partition({});
}

absl::Status Wiring::Connect(int node, pid_t there) {
  CAIRN_RETURN_IF_ERROR(Run(fmt::format("ip link add {} type veth peer name eth0 address {} netns {}\n", Port(node),
                                        HardwareAddressOf(node), there)));
  CAIRN_RETURN_IF_ERROR(RunAt(there, fmt::format("ip link set lo up\n"
                                                 "ip address add {}/16 dev eth0\n"
                                                 "ip link set eth0 up\n"
                                                 "ip ntable change name arp_cache dev eth0 base_reachable {}\n",
                                                 AddressOfNode(node), kKnownForMs)));
  cables_[node].there = there;
  CAIRN_RETURN_IF_ERROR(Apply(node));
  for (const auto& [one, other] : severed_) {
    if (one == node || other == node) CAIRN_RETURN_IF_ERROR(ApplySevered(one, other, true));
  }
  return absl::OkStatus();
}

absl::Status Wiring::Disconnect(int node) {
  const auto cable = cables_.find(node);
  if (cable == cables_.end()) return absl::OkStatus();
  const absl::Status direct = ApplyDelay(node, cable->second, std::chrono::milliseconds(0));
  cables_.erase(cable);
  CAIRN_RETURN_IF_ERROR(direct);
  // The kernel takes it off by itself, in its own time, when the node's namespace is gone.
  return Run(fmt::format("! ip link show {0} >/dev/null 2>&1 || ip link delete {0} || ! ip link show {0}", Port(node)));
}

absl::Status Wiring::ApplyDelay(int node, Cable& cable, std::chrono::milliseconds delay) {
  if (cable.delay == delay) return absl::OkStatus();
  if (cable.relay != nullptr) {
    cable.relay.reset();
    CAIRN_RETURN_IF_ERROR(Run(fmt::format("ip link delete relay{}\n", node)));
  }
  cable.delay = std::chrono::milliseconds(0);
  if (delay.count() == 0) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(
      Run(fmt::format("ip link set {0} nomaster\n"
                      "ip link add relay{1} type veth peer name far{1}\n"
                      "ip link set relay{1} up\n",
                      Port(node), node)));
  cable.relay = Process::Start(
      {.arguments = {agent_, "relay", Port(node), fmt::format("relay{}", node), std::to_string(delay.count())},
       .environment = {},
       .working_directory = {}});
  cable.delay = delay;
  if (cable.relay != nullptr && cable.relay->WaitForOutput("ready\n")) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal, "the relay of n{}: {}", node,
                   cable.relay ? cable.relay->Wait(std::chrono::seconds(0)).output : "not started");
}

absl::Status Wiring::Apply(int node) {
  const auto found = cables_.find(node);
  if (found == cables_.end()) return absl::OkStatus();  // when it is connected
  Cable& cable = found->second;
  const Fault& fault = faults_[node];
  CAIRN_RETURN_IF_ERROR(ApplyDelay(node, cable, fault.delay));
  const std::string to_node = QueueOf(fault.loses_received, fault.bits_per_second);
  const std::string from_node = QueueOf(fault.loses_sent, fault.bits_per_second);
  const std::string at_switch = fault.delay.count() == 0 ? Port(node) : fmt::format("far{}", node);
  std::string script = fmt::format("ip link set {} master switch{} up\n", at_switch, fault.group);
  script += ReplaceQueue(Port(node), cable.queue_to_node, to_node);
  script += fmt::format("ip link set {} {}\n", Port(node), fault.plugged ? "up" : "down");
  CAIRN_RETURN_IF_ERROR(Run(script));
  cable.queue_to_node = to_node;
  if (from_node != cable.queue_from_node) {
    CAIRN_RETURN_IF_ERROR(RunAt(cable.there, ReplaceQueue("eth0", cable.queue_from_node, from_node)));
    cable.queue_from_node = from_node;
  }
  return absl::OkStatus();
}

// By an address of the other that nobody has: frames to it get lost, and nobody is told.
absl::Status Wiring::ApplySevered(int one, int other, bool severed) {
  for (const auto& [from, to] : {std::pair(one, other), std::pair(other, one)}) {
    const auto cable = cables_.find(from);
    if (cable == cables_.end()) continue;
    CAIRN_RETURN_IF_ERROR(RunAt(cable->second.there,
                                fmt::format("ip neighbour replace {} lladdr {} dev eth0 nud permanent\n",
                                            AddressOfNode(to), severed ? kNoHardwareAddress : HardwareAddressOf(to))));
  }
  return absl::OkStatus();
}

absl::Status Wiring::Plug(int node, bool in) {
  faults_[node].plugged = in;
  return Apply(node);
}

absl::Status Wiring::Lose(int node, bool sent, bool received) {
  faults_[node].loses_sent |= sent;
  faults_[node].loses_received |= received;
  return Apply(node);
}

absl::Status Wiring::Sever(int one, int other) {
  severed_.insert(std::minmax(one, other));
  return ApplySevered(one, other, true);
}

absl::Status Wiring::Partition(const std::vector<std::vector<int>>& groups) {
  for (; switches_ <= static_cast<int>(groups.size()); ++switches_) {
    CAIRN_RETURN_IF_ERROR(
        Run(fmt::format("ip link add switch{0} type bridge mcast_snooping 0\n"
                        "ip link set switch{0} up\n",
                        switches_)));
  }
  for (auto& [node, fault] : faults_) fault.group = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const int node : groups[i]) faults_[node].group = static_cast<int>(i + 1);
  }
  for (const auto& [node, fault] : faults_) CAIRN_RETURN_IF_ERROR(Apply(node));
  return absl::OkStatus();
}

absl::Status Wiring::Throttle(int node, std::uint64_t bits_per_second) {
  faults_[node].bits_per_second = bits_per_second;
  return Apply(node);
}

absl::Status Wiring::Delay(int node, std::chrono::milliseconds delay) {
  faults_[node].delay = delay;
  return Apply(node);
}

absl::Status Wiring::HealCable(int node) {
  faults_[node] = {.group = faults_[node].group};
  return Apply(node);
}

absl::Status Wiring::HealAll() {
  for (auto& [node, fault] : faults_) fault = {};
  for (const auto& [node, fault] : faults_) CAIRN_RETURN_IF_ERROR(Apply(node));
  while (!severed_.empty()) {
    const auto [one, other] = *severed_.begin();
    severed_.erase(severed_.begin());
    CAIRN_RETURN_IF_ERROR(ApplySevered(one, other, false));
  }
  return absl::OkStatus();
}

}  // namespace cairn::testing
