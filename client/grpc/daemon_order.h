// In which order the daemons of a run are asked, as long as nobody knows which one has a session: by what happened to
// this process with each of them. Any thread.
#ifndef CAIRN_CLIENT_GRPC_DAEMON_ORDER_H_
#define CAIRN_CLIENT_GRPC_DAEMON_ORDER_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/grpc/address.h"

namespace cairn::transport {

// For each address as it was given (`target`). Daemons are known by the names of their files (Address::told_in); one
// without such a file is no one of several, and nothing is noted of it. `session`: the number of the session that asks,
// larger than those of the sessions before it; 0 if it has no daemon yet.
class DaemonOrder {
 public:
  static constexpr std::size_t kSearchesMax = 1000;  // of one target; beyond, the oldest session's is forgotten

  // It has served a session: it is asked first. Another one may have told later, and knows nothing of that session.
  // Where this session has looked for its daemon before is forgotten: it has found it.
  void Served(const std::string& target, std::uint64_t session, const std::string& told_in);
  // This session looks for its daemon, and has had nothing of this one: the session asks it last, behind all of which
  // the same was said before. So of several each has its turn. Sessions of one process may have different daemons, so
  // this counts for no other session, and for none that is new. REQUIRES: session != 0.
  void InVain(const std::string& target, std::uint64_t session, const std::string& told_in);
  // Whoever is not known keeps its place between the first and the last. What is known of others is forgotten.
  void Arrange(const std::string& target, std::uint64_t session, std::vector<Address>* addresses);

 private:
  struct Known {
    std::string served;
    std::map<std::uint64_t, std::vector<std::string>> in_vain;  // of each session that looks; the longest ago first
  };
  absl::Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn::transport

#endif  // CAIRN_CLIENT_GRPC_DAEMON_ORDER_H_
