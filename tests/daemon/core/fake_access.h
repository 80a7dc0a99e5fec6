// Other nodes, as a test has them: links by a simulated network without trust, which can refuse to let this daemon be a
// member, and their files on disks that the test gives.
#ifndef CAIRN_TESTS_DAEMON_CORE_FAKE_ACCESS_H_
#define CAIRN_TESTS_DAEMON_CORE_FAKE_ACCESS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "daemon/bulk/net.h"
#include "daemon/peers/access.h"
#include "tests/daemon/peers/sim_network.h"
#include "tests/support/fake_disk.h"

namespace cairn {

// Strand only.
class FakeBulk final : public BulkNet {
 public:
  std::shared_ptr<Disk> DiskOf(const RunId&, const std::string& node, const std::string&) override {
    const auto at = disks.find(node);
    return at == disks.end() ? std::make_shared<FakeDisk>() : at->second;
  }
  void Serve(const RunId&, Disk&, const std::string& folder) override { served = folder; }
  void Unserve(const RunId&) override { served.clear(); }

  std::map<std::string, std::shared_ptr<Disk>> disks;  // by node; else it has no files
  std::string served;                                  // this daemon's folder; empty: none
};

class FakeAccess final : public PeerAccess {
 public:
  FakeAccess(SimNetwork& network, std::string address) : network_(network), address_(std::move(address)) {}
  absl::Status Open(Loop& loop, const std::string& node, std::uint64_t incarnation) override {
    net_ = &network_.Open(address_, {.run = run, .node = node, .incarnation = incarnation}, loop);
    return absl::OkStatus();
  }
  PeerNet& net() override { return *net_; }
  FakeBulk& bulk() override { return bulk_; }
  absl::StatusOr<std::function<void()>> Enter(Disk&, const std::string& prefix, const RunId&) override {
    ++entered;
    entered_at = prefix;
    if (!refuse.ok()) return refuse;
    return [this] { member = true; };
  }
  void Leave(const RunId&) override { member = false; }
  void Close() override {}

  RunId run;
  absl::Status refuse;
  int entered = 0;
  std::string entered_at;  // the prefix
  bool member = false;

 private:
  SimNetwork& network_;
  const std::string address_;
  PeerNet* net_ = nullptr;
  FakeBulk bulk_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_FAKE_ACCESS_H_
