#include "tests/daemon/peers/sim_network.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "storage/base/status.h"

namespace cairn {

struct SimNetwork::Host {
  std::string address;
  PeerIdentity identity;
  Loop* loop = nullptr;
  bool alive = true;
  std::map<RunId, PeerNet::OnLink> serves;
  std::unique_ptr<Net> net;
};

// A link. End 0 is who dialled.
struct SimNetwork::Wire {
  struct End {
    std::shared_ptr<Host> host;
    Link* link = nullptr;  // null: not there yet, or closed
    std::optional<PeerLink::Reports> reports;
    std::deque<std::function<void()>> early;  // before Start
    // To this end: on the way, those that have arrived and wait behind a block.
    std::deque<std::function<void()>> coming;
    std::size_t due = 0;  // of these
    bool closed = false;
  };
  End ends[2];
  bool broken = false;

  // Nothing arrives any more: what was on the way holds the wire.
  void Empty() {
    broken = true;
    for (End& end : ends) {
      const auto early = std::exchange(end.early, {}), coming = std::exchange(end.coming, {});
    }
  }
};

class SimNetwork::Link final : public PeerLink {
 public:
  Link(SimNetwork& network, std::shared_ptr<Wire> wire, int end)
      : network_(network), wire_(std::move(wire)), end_(end) {
    mine().link = this;
  }
  ~Link() override {
    mine().link = nullptr;
    mine().closed = true;
    mine().reports.reset();
    if (!wire_->broken && mine().host->alive) {
      network_.Put(wire_, 1 - end_,
                   [wire = wire_, to = 1 - end_] { Closed(wire, to, absl::CancelledError("closed")); });
    }
  }
  const PeerIdentity& peer() const override { return other().host->identity; }
  void Start(Reports reports) override {
    mine().reports = std::move(reports);
    mine().host->loop->Post([wire = wire_, end = end_] {
      while (wire->ends[end].reports && !wire->ends[end].early.empty()) {
        auto next = std::move(wire->ends[end].early.front());
        wire->ends[end].early.pop_front();
        next();
      }
    });
  }
  void Send(peer::Frame frame) override {
    const std::string &from = mine().host->address, &to = other().host->address;
    if (network_.on_send) network_.on_send(from, to, frame);
    const std::uint64_t bytes = frame.ByteSizeLong();
    Traffic& out = network_.traffic_[from];
    ++out.frames_out;
    out.bytes_out += bytes;
    network_.Put(wire_, 1 - end_, [network = &network_, wire = wire_, end = 1 - end_, bytes, frame = std::move(frame)] {
      Traffic& in = network->traffic_[wire->ends[end].host->address];
      ++in.frames_in;
      in.bytes_in += bytes;
      if (wire->ends[end].reports) wire->ends[end].reports->on_frame(frame);
    });
  }

  static void Closed(const std::shared_ptr<Wire>& wire, int end, const absl::Status& why) {
    Wire::End& at = wire->ends[end];
    if (std::exchange(at.closed, true) || !at.reports) return;
    const auto on_closed = at.reports->on_closed;
    on_closed(why);
  }

 private:
  Wire::End& mine() const { return wire_->ends[end_]; }
  Wire::End& other() const { return wire_->ends[1 - end_]; }

  SimNetwork& network_;
  const std::shared_ptr<Wire> wire_;
  const int end_;
};

class SimNetwork::Net final : public PeerNet {
 public:
  Net(SimNetwork& network, Host& host) : network_(network), host_(host) {}
  void Dial(const RunId& run, const std::string& address, std::chrono::milliseconds deadline, Dialled done) override {
    network_.Dial(host_, run, address, deadline, std::move(done));
  }
  void Serve(const RunId& run, OnLink on_link) override {
    host_.serves.erase(run);
    if (on_link != nullptr) host_.serves[run] = std::move(on_link);
  }
  std::string address() const override { return host_.address; }

 private:
  SimNetwork& network_;
  Host& host_;
};

PeerNet& SimNetwork::Open(const std::string& address, const PeerIdentity& identity, Loop& loop) {
  auto host = std::make_shared<Host>();
  host->address = address;
  host->identity = identity;
  host->loop = &loop;
  host->net = std::make_unique<Net>(*this, *host);
  hosts_[address] = host;
  return *host->net;
}

SimNetwork::~SimNetwork() {
  for (const auto& wire : wires_) wire->Empty();
}

// One thing arrives at an end after a while, behind all that went there before.
void SimNetwork::Put(const std::shared_ptr<Wire>& wire, int to_end, std::function<void()> deliver) {
  Wire::End& to = wire->ends[to_end];
  if (wire->broken || !to.host->alive || !wire->ends[1 - to_end].host->alive) return;
  to.coming.push_back(std::move(deliver));
  std::chrono::milliseconds delay = delay_();
  for (const Wire::End& end : wire->ends) {
    if (const auto slow = slow_.find(end.host->address); slow != slow_.end()) delay += slow->second;
  }
  to.host->loop->After(delay, [this, wire, to_end] {
    ++wire->ends[to_end].due;
    Pump(wire, to_end);
  });
}

void SimNetwork::Pump(const std::shared_ptr<Wire>& wire, int to_end) {
  Wire::End& to = wire->ends[to_end];
  while (to.due > 0 && !to.coming.empty() && !wire->broken &&
         !IsBlocked(wire->ends[1 - to_end].host->address, to.host->address)) {
    --to.due;
    auto next = std::move(to.coming.front());
    to.coming.pop_front();
    if (to.link == nullptr && to.closed) continue;
    to.reports&& to.early.empty() ? next() : to.early.push_back(std::move(next));
  }
}

void SimNetwork::Dial(Host& from, const RunId& run, const std::string& address, std::chrono::milliseconds deadline,
                      Dialled done) {
  const auto me = hosts_.find(from.address);
  if (me == hosts_.end() || me->second.get() != &from) return;
  const std::shared_ptr<Host> host = me->second;
  // Whatever happens to the other end.
  auto once = [done = std::make_shared<Dialled>(std::move(done))](absl::StatusOr<std::unique_ptr<PeerLink>> link) {
    if (*done != nullptr) std::exchange(*done, nullptr)(std::move(link));
  };
  from.loop->After(deadline, [once, address] { once(DeadlineExceeded("{}: no answer", address)); });
  const auto there = hosts_.find(address);
  if (there == hosts_.end()) {
    from.loop->After(delay_(), [once, address] { once(Unavailable("{}: nobody listens", address)); });
  } else if (!IsBlocked(from.address, address) && !IsBlocked(address, from.address)) {
    ++traffic_[from.address].links;
    ++traffic_[address].links;
    there->second->loop->After(delay_(),
                               [this, host, there = there->second, run, once] { Connect(host, there, run, once); });
  }
}

// On the loop of who is dialled.
void SimNetwork::Connect(const std::shared_ptr<Host>& from, const std::shared_ptr<Host>& to, const RunId& run,
                         const Dialled& done) {
  if (!from->alive) return;
  const auto serves = to->serves.find(run);
  if (!to->alive || serves == to->serves.end() || run != from->identity.run) {
    from->loop->After(delay_(), [done] { done(Unavailable("does not serve the run")); });
    return;
  }
  auto wire = std::make_shared<Wire>();
  wire->ends[0].host = from;
  wire->ends[1].host = to;
  std::erase_if(wires_, [](const auto& old) {
    const bool over = old->ends[0].closed && old->ends[1].closed;
    if (over) old->Empty();
    return over;
  });
  wires_.push_back(wire);
  auto client = std::make_shared<std::unique_ptr<PeerLink>>(std::make_unique<Link>(*this, wire, 0));
  const auto on_link = serves->second;
  on_link(std::make_unique<Link>(*this, wire, 1));
  from->loop->After(delay_(), [client, done] { done(std::move(*client)); });
}

void SimNetwork::Unblock(const std::string& from, const std::string& to) {
  blocked_.erase({from, to});
  const auto wires = wires_;
  for (const auto& wire : wires) {
    for (const int end : {0, 1}) {
      if (wire->ends[end].host->address != to || wire->ends[1 - end].host->address != from) continue;
      if (wire->ends[end].host->alive) wire->ends[end].host->loop->Post([this, wire, end] { Pump(wire, end); });
    }
  }
}

void SimNetwork::UnblockAll() {
  while (!blocked_.empty()) {
    const auto [from, to] = *blocked_.begin();
    Unblock(from, to);
  }
}

void SimNetwork::BreakLinks(const std::string& a, const std::string& b) {
  for (const auto& wire : wires_) {
    const std::string &first = wire->ends[0].host->address, &second = wire->ends[1].host->address;
    if (wire->broken || !((first == a && second == b) || (first == b && second == a))) continue;
    wire->broken = true;
    for (const int end : {0, 1}) {
      Wire::End& at = wire->ends[end];
      if (!at.host->alive) continue;
      at.host->loop->After(delay_(), [wire, end] { Link::Closed(wire, end, absl::UnavailableError("broken")); });
    }
  }
}

void SimNetwork::Forget(const std::string& address, bool tell) {
  const auto found = hosts_.find(address);
  if (found == hosts_.end()) return;
  const std::shared_ptr<Host> host = found->second;
  host->alive = false;
  host->serves.clear();
  gone_.push_back(host);
  hosts_.erase(found);
  for (const auto& wire : wires_) {
    for (const int end : {0, 1}) {
      Wire::End& other = wire->ends[1 - end];
      if (wire->ends[end].host != host || wire->broken) continue;
      if (!tell || !other.host->alive) continue;
      wire->broken = true;
      other.host->loop->After(delay_(),
                              [wire, end = 1 - end] { Link::Closed(wire, end, absl::UnavailableError("reset")); });
    }
  }
}

void SimNetwork::Vanish(const std::string& address) {
  Forget(address, /*tell=*/false);
}

void SimNetwork::Die(const std::string& address) {
  Forget(address, /*tell=*/true);
}

std::vector<std::pair<std::string, std::string>> SimNetwork::links() const {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& wire : wires_) {
    if (wire->broken || wire->ends[0].closed || wire->ends[1].closed) continue;
    if (!wire->ends[0].host->alive || !wire->ends[1].host->alive) continue;
    list.emplace_back(wire->ends[0].host->address, wire->ends[1].host->address);
  }
  return list;
}

}  // namespace cairn
