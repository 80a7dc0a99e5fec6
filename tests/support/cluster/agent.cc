// What a cluster is made of, as processes: cluster_agent host|enter|beside|relay. Started by cluster.h and
// cairn-cluster only.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/cluster/enter.h"
#include "tests/support/cluster/host.h"
#include "tests/support/cluster/relay.h"

namespace cairn::testing {
namespace {

// host FOLDER NODES [NODE=SECONDS…]
int Host(int argc, char** argv) {
  HostOptions options{.agent = argv[0], .folder = argv[2], .nodes = std::atoi(argv[3]), .clocks_ahead = {}};
  for (int i = 4; i < argc; ++i) {
    const char* const seconds = std::strchr(argv[i], '=');
    if (seconds == nullptr) return kHostFailed;
    options.clocks_ahead[std::atoi(argv[i])] = std::chrono::seconds(std::atoll(seconds + 1));
  }
  return RunHost(options);
}

int Main(int argc, char** argv) {
  const std::string what = argc < 2 ? "" : argv[1];
  if (what == "host" && argc >= 4) return Host(argc, argv);
  // enter PID SOCKET COMMAND…
  if (what == "enter" && argc >= 5) {
    return Enter({.there = std::atoi(argv[2]), .beside = false, .tell = argv[3], .command = argv + 4});
  }
  // beside PID COMMAND…
  if (what == "beside" && argc >= 4) {
    return Enter({.there = std::atoi(argv[2]), .beside = true, .tell = "", .command = argv + 3});
  }
  // relay DEVICE DEVICE MS
  if (what == "relay" && argc == 5) return RunRelay(argv[2], argv[3], std::chrono::milliseconds(std::atoi(argv[4])));
  fmt::print(stderr, "cluster_agent is started by tests/support/cluster only\n");
  return 2;
}

}  // namespace
}  // namespace cairn::testing

// Without what a program's end does besides: in a node's namespaces GCC 12's LeakSanitizer waits for ever for its own
// tracer, and whoever waits for this process does so, too.
int main(int argc, char** argv) {
  const int exit_code = cairn::testing::Main(argc, argv);
  std::fflush(nullptr);
  std::_Exit(exit_code);
}
