// Of the trees that carry links to the homes of launches.
#ifndef CAIRN_DAEMON_RELAY_SETTINGS_H_
#define CAIRN_DAEMON_RELAY_SETTINGS_H_

#include <chrono>
#include <cstddef>

namespace cairn {

struct RelaySettings {
  std::size_t fan_in = 32;                    // links to daemons below, at most; at least 1
  std::size_t depth_max = 16;                 // links between the home and any daemon
  std::chrono::milliseconds deadline{2'000};  // of a dial, and of the answer to an Attach
  // A daemon that has lost its way to the home looks for another for so long, and the home waits for it. Longer than a
  // broken connection takes to be made anew; short, since whoever asks the home waits meanwhile.
  std::chrono::milliseconds patience{5'000};
  std::chrono::milliseconds pause{50}, pause_max{1'000};  // between two attempts; doubled
  std::chrono::milliseconds gather{1};  // so long a daemon on the way keeps what goes up, for more to come
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_RELAY_SETTINGS_H_
