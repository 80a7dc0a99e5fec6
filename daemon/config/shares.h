// How the node's cache and memory are divided among users by one daemon for all of them. Pure; stateless, hence
// thread-safe.
#ifndef CAIRN_DAEMON_CONFIG_SHARES_H_
#define CAIRN_DAEMON_CONFIG_SHARES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "daemon/config/config.h"

namespace cairn {

// "alice=10, bob=2". kInvalidArgument: not that, a name twice, a number that is not in 1..65536.
absl::StatusOr<std::map<std::string, std::uint32_t>> ParseShares(std::string_view text);

// What there is to divide.
struct Machine {
  std::uint64_t cache_bytes = 0;   // the size of the cache's file system
  std::uint64_t memory_bytes = 0;  // of the machine
  std::uint64_t memory_here = 0;   // of it, what control groups leave to the worker
};

// The settings of the worker of `user`: where they leave it open, its cache and its images get what its shares are of
// the machine's, and the file system keeps a reserve. What the settings name counts as it is, for each worker.
// REQUIRES: valid settings.
Config WithShares(Config config, std::string_view user, const Machine& machine);

// The bytes of the kernel's quota for the user's cache: what the worker may use, and a sixteenth for its records.
std::uint64_t QuotaOf(const Config& config, std::string_view user, const Machine& machine);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_SHARES_H_
