// Links between the daemons of one run on different nodes: frames in order, both ways. Each of the two has proven to
// the other that it is a member of the run before either hears of the link. The peer door makes real ones; a test has a
// network of its own.
//
// Strand only, calls and callbacks. No callback runs inside a call.
#ifndef CAIRN_DAEMON_PEERS_LINK_H_
#define CAIRN_DAEMON_PEERS_LINK_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "storage/base/ids.h"

// Not proto/peer.pb.h: half of the sources that include this send no frames, and a compiler needs a second for it.
namespace cairn::peer {
class Frame;
}

namespace cairn {

// Who is at the other end, as its certificate says.
struct PeerIdentity {
  RunId run;
  std::string node;               // 32 hex digits, of its cache (storage/place/cache/node_identity.h)
  std::uint64_t incarnation = 0;  // one life of the daemon
  friend auto operator<=>(const PeerIdentity&, const PeerIdentity&) = default;
};

// One end of a link. The destructor closes it: what was sent before still goes out if the peer takes it soon, and
// nobody is called any more.
class PeerLink {
 public:
  struct Reports {
    std::function<void(peer::Frame frame)> on_frame;
    // The last report: the peer has closed it (kCancelled), or it broke.
    std::function<void(const absl::Status& why)> on_closed;
  };

  virtual ~PeerLink() = default;
  virtual const PeerIdentity& peer() const = 0;
  // Once, before anything else. What came before is kept until then.
  virtual void Start(Reports reports) = 0;
  // Does not block. A peer that leaves too many bytes unread loses the link (kResourceExhausted).
  virtual void Send(peer::Frame frame) = 0;
};

class PeerNet {
 public:
  using Dialled = std::function<void(absl::StatusOr<std::unique_ptr<PeerLink>> link)>;
  using OnLink = std::function<void(std::unique_ptr<PeerLink> link)>;

  virtual ~PeerNet() = default;
  // Reaches the daemon that listens at `address` ("10.0.0.7:17001", "[fe80::1%ib0]:17001") as a member of `run`.
  // `done` runs once, at the deadline at the latest:
  //   kUnavailable       nobody listens there, it does not serve this run, or the network does not get there
  //   kPermissionDenied  what answers there is no member of the run, or takes us for none
  //   kDeadlineExceeded
  virtual void Dial(const RunId& run, const std::string& address, std::chrono::milliseconds deadline, Dialled done) = 0;
  // Links that other members of the run dial go to `on_link` from now on; null: to nobody, they are refused.
  virtual void Serve(const RunId& run, OnLink on_link) = 0;
  // Where others reach this daemon.
  virtual std::string address() const = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_LINK_H_
