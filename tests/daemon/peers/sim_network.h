// A network in memory between members that a test steps: frames take the time that the test says, in order within each
// direction of a link, and in any order across links. Its faults:
//   Block(from, to)   what goes from one address to another waits until Unblock, in that direction alone; a dial
//                     between the two fails at its deadline
//   Slow(a, more)     frames from there, and to there, take so much longer
//   BreakLinks(a, b)  links between the two break: both ends hear of it, what is in flight is lost
//   Vanish(a)         the host is gone without a word: nothing comes from there any more, nobody is told
//   Die(a)            the process is gone: its links break, and those at the other ends hear of it
// Everything runs on the loops of those who receive. One thread.
#ifndef CAIRN_TESTS_DAEMON_PEERS_SIM_NETWORK_H_
#define CAIRN_TESTS_DAEMON_PEERS_SIM_NETWORK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/loop.h"
#include "daemon/peers/link.h"
#include "proto/peer.pb.h"

namespace cairn {

class SimNetwork {
 public:
  using Delay = std::function<std::chrono::milliseconds()>;  // of the next frame
  struct Traffic {
    std::uint64_t frames_in = 0, frames_out = 0, bytes_in = 0, bytes_out = 0, links = 0;
  };

  explicit SimNetwork(Delay delay) : delay_(std::move(delay)) {}
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;

  // A daemon's own. It lives until Die or Vanish; the network and `loop` outlive it.
  PeerNet& Open(const std::string& address, const PeerIdentity& identity, Loop& loop);

  void Block(const std::string& from, const std::string& to) { blocked_.emplace(from, to); }
  void Unblock(const std::string& from, const std::string& to);
  void UnblockAll();
  void Slow(const std::string& address, std::chrono::milliseconds more) { slow_[address] = more; }
  void BreakLinks(const std::string& a, const std::string& b);
  void Vanish(const std::string& address);
  void Die(const std::string& address);

  bool IsOpen(const std::string& address) const { return hosts_.contains(address); }
  Traffic& traffic(const std::string& address) { return traffic_[address]; }
  // Links that were dialled and live: (who dialled, to whom).
  std::vector<std::pair<std::string, std::string>> links() const;
  // Sees each frame that is sent, and may change it.
  std::function<void(const std::string& from, const std::string& to, peer::Frame& frame)> on_send;

 private:
  using Dialled = PeerNet::Dialled;
  struct Host;
  struct Wire;
  class Link;
  class Net;
  void Put(const std::shared_ptr<Wire>& wire, int to_end, std::function<void()> deliver);
  void Pump(const std::shared_ptr<Wire>& wire, int to_end);
  void Dial(Host& from, const RunId& run, const std::string& address, std::chrono::milliseconds deadline, Dialled done);
  void Connect(const std::shared_ptr<Host>& from, const std::shared_ptr<Host>& to, const RunId& run,
               const Dialled& done);
  void Forget(const std::string& address, bool tell);
  bool IsBlocked(const std::string& from, const std::string& to) const { return blocked_.contains({from, to}); }

  const Delay delay_;
  std::map<std::string, std::shared_ptr<Host>> hosts_;
  std::vector<std::shared_ptr<Host>> gone_;  // their links may still hold them
  std::set<std::pair<std::string, std::string>> blocked_;
  std::map<std::string, std::chrono::milliseconds> slow_;
  std::vector<std::shared_ptr<Wire>> wires_;
  std::map<std::string, Traffic> traffic_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_PEERS_SIM_NETWORK_H_
