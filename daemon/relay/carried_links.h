// The ends of carried links that are in this daemon, of one launch's tree: each is numbered, and survives a change of
// the way. Strand only. No callback of a link runs inside a call.
#ifndef CAIRN_DAEMON_RELAY_CARRIED_LINKS_H_
#define CAIRN_DAEMON_RELAY_CARRIED_LINKS_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "daemon/core/loop.h"
#include "daemon/peers/frames.h"
#include "daemon/peers/link.h"
#include "daemon/peers/member.h"
#include "daemon/relay/settings.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"

namespace cairn {

class CarriedLinks {
 public:
  static constexpr std::size_t kOfNodeMax = 4;      // that one node has to this home; the oldest goes
  static constexpr std::size_t kNodesMax = 16'384;  // that ever had one
  static constexpr std::size_t kLastBytesMax = 8u << 20;
  // Of one frame, with what names its link: more than frames.h lets anybody carry, less than a connection takes.
  static constexpr std::size_t kBytesMax = frames::kCarriedBytesMax + (64 << 10);
  // Of a link, not heard yet: more than a list of all parts of a node may have (away.cc).
  static constexpr std::uint64_t kKeptBytesMax = 288u << 20;

  struct Given {
    Loop& loop;
    RunId run;
    bool home;  // these are the home's ends
    RelaySettings settings;
  };
  struct Reports {
    // On its way to the other end. A follower's: `way` is still to be said. Lost, if there is no way.
    std::function<void(peer::Carried carried)> send;
    std::function<void(std::unique_ptr<PeerLink> link)> on_link;  // the home's: somebody has made one
    std::function<void()> on_empty;                               // the last one has gone
  };
  CarriedLinks(Given given, Reports reports);
  CarriedLinks(const CarriedLinks&) = delete;
  ~CarriedLinks();  // as CloseAll

  // A new one: of this daemon, which is `self`, to a home. No other link of this life of the daemon has the number.
  std::unique_ptr<PeerLink> Make(const PeerIdentity& self, const PeerIdentity& home, std::uint64_t number);
  void OnCarried(const peer::Carried& carried);  // that is for this daemon
  // A follower's: there is a way again, to this life of the home's daemon. All that was not heard is sent again.
  void WayCame(std::uint64_t home_incarnation);
  void CloseAll(const absl::Status& why);
  bool empty() const { return ends_.empty(); }

 private:
  struct Key {
    NodeId node;  // not the home
    std::uint64_t incarnation = 0, number = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct End;
  class Link;
  using EndPtr = std::shared_ptr<End>;

  static Key KeyOf(const peer::Carried& carried);
  peer::Carried NewCarried(const Key& key) const;
  EndPtr EndOf(const peer::Carried& carried);
  EndPtr Begin(const peer::Carried& carried);
  void NodeLost(const peer::Carried& lost);
  void MakeRoomFor(const Key& coming);
  void ComesNewWay(const End& first);
  void WaitFor(const EndPtr& end);
  void SayClosed(const Key& key, std::uint64_t way);
  static void Deliver(const EndPtr& end);
  std::unique_ptr<PeerLink> Own(const EndPtr& end);
  void Arrived(const EndPtr& end, const peer::Carried& carried);
  bool IsForThisEnd(const peer::Carried& carried) const;
  void Pump(End& end);
  void Send(End& end, peer::Carried carried);
  void SayAgain(End& end);
  void SayHeard(End& end);
  void Put(const EndPtr& end, peer::Frame frame);
  void Release(const EndPtr& end);
  void Close(const EndPtr& end, const absl::Status& why);
  void Remove(const Key& key);

  const Given given_;
  const Reports reports_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  std::map<Key, EndPtr> ends_;
  std::map<NodeId, Key> begun_;  // the home's: each node's newest link. None begins twice
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_RELAY_CARRIED_LINKS_H_
