// Links that other members dial, handed on by their first frame: each part of this daemon gets those that are meant for
// it, as if it alone served the run, and none knows the others' frames.
//
// Bounded: so many links that have not said what they want, for so long. Strand only.
#ifndef CAIRN_DAEMON_PEERS_FIRST_FRAME_H_
#define CAIRN_DAEMON_PEERS_FIRST_FRAME_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/loop.h"
#include "daemon/peers/link.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"

namespace cairn {

class FirstFrame {
 public:
  static constexpr std::size_t kNewcomersMax = 256;  // who is here is heard first: beyond, the new link ends

  struct Given {
    Loop& loop;
    PeerNet& net;  // borrowed; nobody else serves this run with it
    RunId run;
    std::chrono::milliseconds silence;  // a link without a frame ends after this
  };
  explicit FirstFrame(const Given& given);
  FirstFrame(const FirstFrame&) = delete;
  // Links that were handed on stay. The nets of its parts are not used any more.
  ~FirstFrame();

  // A net for one part. It dials as the net below does. What it serves with gets links whose first frame has this body,
  // and that frame first; it starts them inside that call. Once for each body; the net lives as long as this.
  PeerNet& With(peer::Frame::BodyCase body);
  // The same for links of which no other part has the body. Without it, or while nobody serves with it, they end.
  PeerNet& Others();

 private:
  using Id = std::uint64_t;
  class Part;
  class Opened;
  struct Opening;
  struct Newcomer {
    std::shared_ptr<PeerLink> link;
    Loop::TimerId timer = 0;
  };

  PeerNet& Add(std::optional<peer::Frame::BodyCase> body);
  void PartServes();
  void OnLink(std::unique_ptr<PeerLink> link);
  void HandOn(Id id, peer::Frame first, std::shared_ptr<Opening> opening);
  void Drop(Id id);

  const Given given_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  std::vector<std::unique_ptr<Part>> parts_;
  std::map<Id, Newcomer> newcomers_;
  Id last_id_ = 0;
  bool serving_ = false;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_FIRST_FRAME_H_
