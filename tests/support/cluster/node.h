// A node of a cluster: a process whose namespaces are the node's, the first process there. When it dies, the kernel
// kills all others there.
#ifndef CAIRN_TESTS_SUPPORT_CLUSTER_NODE_H_
#define CAIRN_TESTS_SUPPORT_CLUSTER_NODE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace cairn::testing {

// Network, host name, processes and mounts of this process' own, below a user namespace if it may not do so otherwise;
// from then on it has all rights in there, and programs that it executes have them, too.
//   kPermissionDenied  the machine does not let us
absl::Status LeaveTheMachine();

class Node {
 public:
  struct Options {
    std::string host_name;
    std::string hosts_file;  // lies over /etc/hosts there
    // If any: a time namespace, with clocks since boot so much ahead. It is also that of all other processes that this
    // one makes from then on, until the next node: an ordinary user finds no way back from it.
    std::optional<std::chrono::seconds> clocks_ahead;
  };
  // It dies with this process. REQUIRES: this process has one thread and has left the machine.
  //   kPermissionDenied  the machine does not let us
  static absl::StatusOr<std::unique_ptr<Node>> Start(const Options& options);
  // Kills it, and waits until all that ran there is gone, half a minute at most.
  ~Node();
  pid_t pid() const { return pid_; }
  bool running() const;

 private:
  explicit Node(pid_t pid) : pid_(pid) {}
  const pid_t pid_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_CLUSTER_NODE_H_
