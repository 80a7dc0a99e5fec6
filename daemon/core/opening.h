// What is kept of an Open until it is answered. Internal to the core.
#ifndef CAIRN_DAEMON_CORE_OPENING_H_
#define CAIRN_DAEMON_CORE_OPENING_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/core_impl.h"

namespace cairn {

struct CoreImpl::Opening {
  std::shared_ptr<Connection> connection;
  CallPtr call;
  local::Open open;
  bool looked = false;  // at what the prefix holds
};

// What the pool found out about a prefix.
struct CoreImpl::Prepared {
  absl::Status status;
  std::string path;  // resolved
  std::shared_ptr<Prefix> prefix;
  bool read_only = false;
  std::optional<LaunchRecord> newest;
  std::vector<std::string> warnings;
  Committed committed;  // if the run was not known, and `cache`, too
  std::shared_ptr<CacheFolder> cache;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_OPENING_H_
