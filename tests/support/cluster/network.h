// Which network a process has, as /proc names it: "net:[4026531840]". The kernel gives the name of a network that is
// gone to the next one that is made, perhaps by another cluster. So a network whose name is still asked for is held.
#ifndef CAIRN_TESTS_SUPPORT_CLUSTER_NETWORK_H_
#define CAIRN_TESTS_SUPPORT_CLUSTER_NETWORK_H_

#include <map>
#include <string>

#include "storage/base/unique_fd.h"

namespace cairn::testing {

// "" of what is no process, or not ours. `pid` may be "self".
std::string NetworkOf(const std::string& pid);

// While this lives, its networks do, and no other has the name of one of them.
class HeldNetworks {
 public:
  // The network of that process. False: there is no such process, or /proc does not tell us.
  bool Add(const std::string& pid);
  bool Contains(const std::string& name) const { return held_.contains(name); }
  std::size_t size() const { return held_.size(); }

 private:
  std::map<std::string, UniqueFd> held_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_CLUSTER_NETWORK_H_
