#include "daemon/door/peer_access.h"

#include <utility>

#include "daemon/bulk/bulk.h"
#include "daemon/door/peer_door.h"
#include "daemon/trust/authority.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

class DoorAccess final : public PeerAccess {
 public:
  explicit DoorAccess(Config::Peers peers) : peers_(std::move(peers)) {}

  absl::Status Open(Loop& loop, const std::string& node, std::uint64_t incarnation) override {
    PeerDoor::Options options;
    options.peers = peers_;
    options.node = node;
    options.incarnation = incarnation;
    CAIRN_ASSIGN_OR_RETURN(door_, PeerDoor::Listen(std::move(options), loop));
    bulk_ = MakeBulk({}, door_->lines());
    return absl::OkStatus();
  }

  PeerNet& net() override {
    CAIRN_CHECK(door_ != nullptr);
    return *door_;
  }

  BulkNet& bulk() override {
    CAIRN_CHECK(bulk_ != nullptr);
    return *bulk_;
  }

  absl::StatusOr<std::function<void()>> Enter(Disk& disk, const std::string& prefix, const RunId& run) override {
    CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<const Authority> authority, OpenAuthority(disk, prefix, run));
    return [this, authority = std::move(authority)] { door_->Join(authority); };
  }

  void Leave(const RunId& run) override { door_->Leave(run); }
  void Close() override {
    bulk_.reset();
    door_.reset();
  }

 private:
  const Config::Peers peers_;
  std::unique_ptr<PeerDoor> door_;
  std::unique_ptr<BulkNet> bulk_;  // by the door's connections
};

}  // namespace

std::unique_ptr<PeerAccess> MakePeerAccess(const Config::Peers& peers) {
  return peers.interface.empty() ? nullptr : std::make_unique<DoorAccess>(peers);
}

}  // namespace cairn
