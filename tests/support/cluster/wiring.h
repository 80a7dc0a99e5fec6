// The switches and cables of a cluster, and what is wrong with them.
#ifndef CAIRN_TESTS_SUPPORT_CLUSTER_WIRING_H_
#define CAIRN_TESTS_SUPPORT_CLUSTER_WIRING_H_

#include <absl/status/status.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/process.h"

namespace cairn::testing {

// Of node k: 10.77.0.k.
std::string AddressOfNode(int node);

// Lives in the process that holds the switches' network namespace, and has the right to change that and the nodes'.
// Each call leaves the network as it then should be, or answers kInternal with what `ip` or `tc` said.
class Wiring {
 public:
  // `agent`: the program to enter namespaces and to delay frames by.
  explicit Wiring(std::string agent) : agent_(std::move(agent)) {}

  // The switch; once, before all else.
  absl::Status Start();
  // A cable to the network namespace of that process, as broken as the node's cable was before.
  absl::Status Connect(int node, pid_t there);
  // Takes the cable off. The namespace may be gone already.
  absl::Status Disconnect(int node);

  absl::Status Plug(int node, bool in);
  absl::Status Lose(int node, bool sent, bool received);
  absl::Status Sever(int one, int other);
  // Groups that share no node. Those that are named in none are together.
  absl::Status Partition(const std::vector<std::vector<int>>& groups);
  absl::Status Throttle(int node, std::uint64_t bits_per_second);
  absl::Status Delay(int node, std::chrono::milliseconds delay);
  absl::Status HealCable(int node);
  absl::Status HealAll();

 private:
  // As it should be.
  struct Fault {
    bool plugged = true, loses_sent = false, loses_received = false;
    std::uint64_t bits_per_second = 0;  // 0: as fast as it goes
    std::chrono::milliseconds delay{0};
    int group = 0;
  };
  // As it is; of a node that is connected.
  struct Cable {
    pid_t there = 0;
    std::string queue_to_node, queue_from_node;  // tc's words; "": the kernel's own
    std::chrono::milliseconds delay{0};
    std::unique_ptr<Process> relay;
  };

  absl::Status Apply(int node);
  absl::Status ApplyDelay(int node, Cable& cable, std::chrono::milliseconds delay);
  absl::Status ApplySevered(int one, int other, bool severed);
  // A script of sh, on the switch or in the network of that process.
  absl::Status Run(const std::string& script) const;
  absl::Status RunAt(pid_t there, const std::string& script) const;

  const std::string agent_;
  int switches_ = 0;
  std::map<int, Fault> faults_;
  std::map<int, Cable> cables_;
  std::set<std::pair<int, int>> severed_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_CLUSTER_WIRING_H_
