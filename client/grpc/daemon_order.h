// In which order the daemons of a run are asked, as long as nobody knows which one has a session: by what happened to
// this process with each of them. Any thread.
#ifndef CAIRN_CLIENT_GRPC_DAEMON_ORDER_H_
#define CAIRN_CLIENT_GRPC_DAEMON_ORDER_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <map>
#include <string>
#include <vector>

#include "client/grpc/address.h"

namespace cairn::transport {

// For each address as it was given (`target`). Daemons are known by the names of their files (Address::told_in); one
// without such a file is no one of several, and nothing is noted of it.
class DaemonOrder {
 public:
  // It has served a session: it is asked first. Another one may have told later, and knows nothing of that session.
  void Served(const std::string& target, const std::string& told_in);
  // A session that looked for its daemon has had nothing of this one: it is asked last, behind all of which the same
  // was said before. So of several each has its turn.
  void InVain(const std::string& target, const std::string& told_in);
  // Whoever is not known keeps its place between the first and the last. What is known of others is forgotten.
  void Arrange(const std::string& target, std::vector<Address>* addresses);

 private:
  struct Known {
    std::string served;
    std::vector<std::string> in_vain;  // the longest ago first
  };
  absl::Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn::transport

#endif  // CAIRN_CLIENT_GRPC_DAEMON_ORDER_H_
