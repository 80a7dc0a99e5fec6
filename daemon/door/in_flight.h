// What one connection has handed to the core and the core has not finished with: a door reads no further while there is
// too much of it. The count hangs on the pointer that a request travels with: Receive gets a pointer to the connection
// of its own, and when the last copy of that pointer is gone, the request counts as done. The core needs to do nothing
// for it but let go of the pointer together with the request.
//
// Only for requests that are never answered (Piece, Filled, Copied): the answers of all others are bounded by the queue
// of replies, and what opens a session may keep its pointer for good.
#ifndef CAIRN_DAEMON_DOOR_IN_FLIGHT_H_
#define CAIRN_DAEMON_DOOR_IN_FLIGHT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/core/door.h"

namespace cairn {

// Thread-safe. Lives inside its connection.
class InFlight {
 public:
  // `on_room` runs when the amount falls to `amount_max` or below after Full() was seen; any thread, must only post or
  // start an operation.
  InFlight(std::uint64_t amount_max, std::function<void()> on_room)
      : amount_max_(amount_max), on_room_(std::move(on_room)) {}

  // `connection` (which owns this object), counting `amount` until the last copy is gone.
  std::shared_ptr<Connection> Lease(std::shared_ptr<Connection> connection, std::uint64_t amount) {
    amount_ += amount;
    Connection* const target = connection.get();
    auto token = std::shared_ptr<void>(nullptr, [this, amount, owner = std::move(connection)](void*) {
      amount_ -= amount;
      if (amount_ <= amount_max_ && waiting_.exchange(false)) on_room_();
    });
    return {std::move(token), target};
  }

  // True: stop reading, on_room will come. False: go on.
  bool Full() {
    if (amount_ <= amount_max_) return false;
    waiting_ = true;
    // A lease may have ended just before: then nobody else may see the flag.
    return !(amount_ <= amount_max_ && waiting_.exchange(false));
  }

  static bool Counts(const local::Request& request) {
    return request.has_piece() || request.has_filled() || request.has_copied();
  }

 private:
  const std::uint64_t amount_max_;
  const std::function<void()> on_room_;
  std::atomic<std::uint64_t> amount_{0};
  std::atomic<bool> waiting_{false};
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_IN_FLIGHT_H_
