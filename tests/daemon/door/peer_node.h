// A daemon as its peers see it: a strand and a peer door on loopback; and its ends of links, for a test's thread to
// use. Every wait ends after a minute, with a failure of the test.
#ifndef CAIRN_TESTS_DAEMON_DOOR_PEER_NODE_H_
#define CAIRN_TESTS_DAEMON_DOOR_PEER_NODE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/core/loop.h"
#include "daemon/door/peer_door.h"
#include "proto/peer.pb.h"

namespace cairn::testing {

// A frame that carries this text, where no version of the protocol has a field.
peer::Frame FrameOf(const std::string& text);
std::string TextOf(const peer::Frame& frame);

class LinkInHand {
 public:
  LinkInHand(Loop& loop, std::unique_ptr<PeerLink> link);
  ~LinkInHand();

  PeerIdentity peer() const;
  void Start();  // before anything else
  void Send(const std::string& text);
  std::optional<std::string> Receive();  // nullopt: it was closed instead
  std::size_t received() const;          // so far, also those that Receive has given
  absl::Status Closed();                 // why; waits for it
  bool closed() const;
  void Close();

 private:
  struct State;
  Loop& loop_;
  const std::shared_ptr<State> state_;
  std::unique_ptr<PeerLink> link_;
};

class PeerNode {
 public:
  // Node `number`, on a free port of loopback. `options` without interface and node are completed.
  explicit PeerNode(std::uint8_t number, PeerDoor::Options options = {});
  ~PeerNode();

  static PeerDoor::Options Loopback(std::uint8_t number, PeerDoor::Options options = {});

  Loop& loop() { return *loop_; }
  std::string address() const { return door_->address(); }
  PeerLines& lines() { return door_->lines(); }
  int port() const;
  const PeerDoor::Options& options() const { return options_; }
  PeerIdentity In(const RunId& run) const;

  void Join(const std::shared_ptr<const Authority>& authority);
  void Leave(const RunId& run);
  void Serve(const RunId& run);
  void ServeNobody(const RunId& run);
  // Both of the above: part of the run, and open to others.
  void Enter(const std::shared_ptr<const Authority>& authority);

  absl::StatusOr<std::unique_ptr<LinkInHand>> Dial(const RunId& run, const std::string& address,
                                                   std::chrono::milliseconds deadline = std::chrono::seconds(60));
  // The next that others have dialled. Null, with a failure, after a minute.
  std::unique_ptr<LinkInHand> Dialled();
  std::size_t dialled() const;
  void Shut();  // the door goes

 private:
  struct Inbox;
  const PeerDoor::Options options_;
  const std::unique_ptr<Loop> loop_;
  const std::shared_ptr<Inbox> inbox_;
  std::unique_ptr<PeerDoor> door_;
};

// What this process logs at warn and above while it lives; one at a time.
class WarningsHeard {
 public:
  WarningsHeard();
  static void Prepare();  // before other threads log
  ~WarningsHeard();
  // Waits for a line with all of this in it.
  bool Wait(const std::string& part) const;
  std::string all() const;

 private:
  struct State;
  class Sink;
  const std::shared_ptr<State> state_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_DAEMON_DOOR_PEER_NODE_H_
