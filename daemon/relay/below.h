// The daemons below this one in a launch's tree: links of those that have attached here, at most `fan_in`, and by way
// of which of them each node is reached. Who finds no room is sent to one of these. Strand only.
#ifndef CAIRN_DAEMON_RELAY_BELOW_H_
#define CAIRN_DAEMON_RELAY_BELOW_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/loop.h"
#include "daemon/peers/link.h"
#include "daemon/peers/member.h"
#include "daemon/relay/hop.h"
#include "daemon/relay/settings.h"
#include "proto/peer.pb.h"

namespace cairn {

class Below {
 public:
  struct Given {
    Loop& loop;
    NodeId self;
    RelaySettings settings;
  };
  struct Reports {
    // What comes from below, and which way it came is known. Valid, but for what its body says. Also LOST: no way leads
    // to that node any more.
    std::function<void(const peer::Carried& carried)> on_carried;
    std::function<void()> on_empty;  // the last one has gone
  };
  Below(Given given, Reports reports) : given_(std::move(given)), reports_(std::move(reports)) {}
  Below(const Below&) = delete;

  // A link whose first frame is still to come, and is to be its Attach. `path`: from the home down to this daemon, both
  // included; empty: it is not attached itself.
  void Take(std::shared_ptr<Hop> hop, const std::string& address, std::uint64_t home_incarnation,
            const std::vector<NodeId>& path);
  void OnCarried(const Hop& hop, const peer::Carried& carried);
  void OnClosed(const Hop& hop);
  // To the node that it names; lost if no way leads there.
  void Send(const peer::Carried& carried);
  bool empty() const { return children_.empty(); }
  void IsMissing(const NodeId& node);  // if it has attached here, its link leads nowhere
  void LetGo();                        // all of them, to look for another place. Nothing is reported

 private:
  struct Child {
    std::shared_ptr<Hop> hop;
    std::string address;
    std::size_t sent_there = 0;  // so many that found no room here
  };
  struct Route {
    Child* child = nullptr;
    std::uint64_t incarnation = 0, way = 0;
  };
  using Children = std::map<const Hop*, std::unique_ptr<Child>>;
  std::string WhyNot(const Hop& hop, const std::vector<NodeId>& path) const;
  absl::Status Check(const Hop& hop, const peer::Carried& carried) const;
  Children::iterator Find(const NodeId& node);
  void Lose(Children::iterator child);
  void Forget(std::map<NodeId, Route>::iterator route);

  const Given given_;
  const Reports reports_;
  Children children_;
  std::map<NodeId, Route> routes_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_RELAY_BELOW_H_
