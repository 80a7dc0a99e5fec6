// The process that holds a cluster: its folder, the namespaces of its switches and nodes, and all that is in them.
#ifndef CAIRN_TESTS_SUPPORT_CLUSTER_HOST_H_
#define CAIRN_TESTS_SUPPORT_CLUSTER_HOST_H_

#include <chrono>
#include <map>
#include <string>

namespace cairn::testing {

struct HostOptions {
  std::string agent;   // the program that runs this
  std::string folder;  // made here, removed at the end
  int nodes = 0;
  std::map<int, std::chrono::seconds> clocks_ahead;  // of which nodes, by how much
};

// How RunHost ends.
inline constexpr int kHostEnded = 0, kHostFailed = 1, kHostNotAllowed = 2;

// Makes the folder with a socket that takes commands (control.h), the switch and all nodes, prints "ready" and serves
// until SIGTERM or the end of the thread that started it; then everything is gone, the folder, too. If this process is
// killed, only the folder stays. kHostFailed, kHostNotAllowed (by this machine): nothing is left, and the output says
// why. REQUIRES: the caller has one thread.
int RunHost(const HostOptions& options);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_CLUSTER_HOST_H_
