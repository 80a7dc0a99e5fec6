#include "daemon/relay/carried_links.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/relay/numbered_frames.h"
#include "storage/base/status.h"

namespace cairn {

struct CarriedLinks::End {
  Key key;
  PeerIdentity peer;
  NumberedFrames frames;
  std::uint64_t way = 0;       // the home's: the newest that has come
  Loop::TimerId patience = 0;  // the home's: while no way leads there
  bool over = false;
  // Of the owner.
  bool owned = true;
  std::shared_ptr<const PeerLink::Reports> reports;  // null: not started
  std::deque<peer::Frame> came;                      // not told yet
  std::optional<absl::Status> closed;                // neither is this
};

// What the owner has of an end. It may outlive all the others.
class CarriedLinks::Link final : public PeerLink {
 public:
  Link(CarriedLinks& all, EndPtr end) : loop_(all.given_.loop), all_(all), alive_(all.alive_), end_(std::move(end)) {}
  ~Link() override {
    end_->owned = false;
    if (!alive_.expired() && !end_->over) all_.Release(end_);
  }
  const PeerIdentity& peer() const override { return end_->peer; }
  void Start(Reports reports) override {
    end_->reports = std::make_shared<const Reports>(std::move(reports));
    loop_.Post([end = end_] { Deliver(end); });
  }
  void Send(peer::Frame frame) override {
    if (!alive_.expired() && !end_->over) all_.Put(end_, std::move(frame));
  }

 private:
  Loop& loop_;
  CarriedLinks& all_;
  const std::weak_ptr<int> alive_;
  const EndPtr end_;
};

CarriedLinks::CarriedLinks(Given given, Reports reports) : given_(std::move(given)), reports_(std::move(reports)) {}

CarriedLinks::~CarriedLinks() {
  CloseAll(Cancelled("this daemon stops"));
}

CarriedLinks::Key CarriedLinks::KeyOf(const peer::Carried& carried) {
  return {.node = carried.node(), .incarnation = carried.incarnation(), .number = carried.link()};
}

peer::Carried CarriedLinks::NewCarried(const Key& key) const {
  peer::Carried carried;
  carried.set_node(key.node);
  carried.set_incarnation(key.incarnation);
  carried.set_link(key.number);
  return carried;
}

// --- A link begins ---

std::unique_ptr<PeerLink> CarriedLinks::Own(const EndPtr& end) {
  ends_[end->key] = end;
  return std::make_unique<Link>(*this, end);
}

std::unique_ptr<PeerLink> CarriedLinks::Make(const PeerIdentity& self, const PeerIdentity& home, std::uint64_t number) {
  const auto end = std::make_shared<End>();
  end->key = {.node = self.node, .incarnation = self.incarnation, .number = number};
  end->peer = home;
  return Own(end);
}

CarriedLinks::EndPtr CarriedLinks::EndOf(const peer::Carried& carried) {
  const auto known = ends_.find(KeyOf(carried));
  if (known != ends_.end()) return known->second;
  return given_.home ? Begin(carried) : nullptr;
}

// The home's end of one that a node has made. Its first frame says so.
CarriedLinks::EndPtr CarriedLinks::Begin(const peer::Carried& carried) {
  const Key key = KeyOf(carried);
  const auto newest = begun_.find(key.node);
  if (carried.kind() != peer::Carried::FRAME || carried.number() != 1 ||
      (newest == begun_.end() ? begun_.size() >= kNodesMax : newest->second >= key)) {
    return nullptr;
  }
  MakeRoomFor(key);
  begun_[key.node] = key;
  const auto end = std::make_shared<End>();
  end->key = key;
  end->peer = {.run = given_.run, .node = key.node, .incarnation = key.incarnation};
  end->way = carried.way();
  ComesNewWay(*end);
  reports_.on_link(Own(end));
  return end->over || !end->owned ? nullptr : end;
}

// --- What comes ---

void CarriedLinks::OnCarried(const peer::Carried& carried) {
  if (carried.kind() == peer::Carried::LOST) return NodeLost(carried);
  const EndPtr end = EndOf(carried);
  if (end != nullptr) return Arrived(end, carried);
  if (carried.kind() != peer::Carried::CLOSED) SayClosed(KeyOf(carried), carried.way());
}

bool CarriedLinks::IsForThisEnd(const peer::Carried& carried) const {
  if (carried.number() == 0) return true;
  return given_.home ? carried.has_to_home() : carried.has_from_home();
}

void CarriedLinks::Arrived(const EndPtr& end, const peer::Carried& carried) {
  const bool new_way = given_.home && carried.way() > end->way;
  if (given_.home && carried.way() < end->way) return;  // sent before what has come another way
  if (new_way) {
    end->way = carried.way();
    if (end->patience != 0) given_.loop.Cancel(std::exchange(end->patience, 0));
    ComesNewWay(*end);
  }
  if (carried.kind() == peer::Carried::CLOSED) return Close(end, Cancelled("the peer has closed the link"));
  const auto came = IsForThisEnd(carried) ? end->frames.Take(carried) : NumberedFrames::Came::kWrong;
  if (came == NumberedFrames::Came::kWrong) {
    SayClosed(end->key, end->way);
    return Close(end,
                 InvalidArgument("carried: frame {} is not what is to come, or of the wrong kind", carried.number()));
  }
  new_way ? SayAgain(*end) : Pump(*end);
  if (came == NumberedFrames::Came::kKnown) return;
  peer::Frame frame;
  if (given_.home) {
    *frame.mutable_to_home() = carried.to_home();
  } else {
    *frame.mutable_from_home() = carried.from_home();
  }
  end->came.push_back(std::move(frame));
  if (end->frames.owes_word()) SayHeard(*end);
  Deliver(end);
}

// The owner may let go of the link in each report.
void CarriedLinks::Deliver(const EndPtr& end) {
  while (end->owned && end->reports != nullptr && !end->came.empty()) {
    peer::Frame frame = std::move(end->came.front());
    end->came.pop_front();
    const auto reports = end->reports;
    reports->on_frame(std::move(frame));
  }
  if (!end->owned || end->reports == nullptr || !end->closed) return;
  const auto reports = end->reports;
  reports->on_closed(*std::exchange(end->closed, std::nullopt));
}

void CarriedLinks::NodeLost(const peer::Carried& lost) {
  for (const auto& [key, end] : ends_) {
    if (key.node == lost.node() && key.incarnation == lost.incarnation() && end->way <= lost.way()) WaitFor(end);
  }
}

// What its node had in former lives ends, and the oldest of too many.
void CarriedLinks::MakeRoomFor(const Key& coming) {
  std::vector<EndPtr> of_node;
  for (const auto& [key, end] : ends_) {
    if (key.node == coming.node) of_node.push_back(end);
  }
  for (std::size_t i = 0; i < of_node.size(); ++i) {
    if (of_node[i]->key.incarnation < coming.incarnation) {
      Close(of_node[i], Unavailable("its daemon was started again"));
    } else if (of_node.size() - i >= kOfNodeMax) {
      Close(of_node[i], ResourceExhausted("its node has made {} newer links", kOfNodeMax));
    }
  }
}

// Each link that its node still has comes that way, too. Those that do not were ended while there was no way.
void CarriedLinks::ComesNewWay(const End& first) {
  for (const auto& [key, end] : ends_) {
    if (key.node == first.key.node && end->way < first.way) WaitFor(end);
  }
}

void CarriedLinks::WaitFor(const EndPtr& end) {
  if (end->patience != 0) return;
  end->patience = given_.loop.After(given_.settings.patience, [this, end] {
    end->patience = 0;
    Close(end, Unavailable("no way led to it for {} ms", given_.settings.patience.count()));
  });
}

void CarriedLinks::WayCame(std::uint64_t home_incarnation) {
  for (const auto& [key, end] : std::map(ends_)) {
    if (end->peer.incarnation != home_incarnation) {
      Close(end, Unavailable("its daemon was started again"));
    } else if (!end->frames.untouched()) {
      SayAgain(*end);
    }
  }
}

// --- What goes ---

void CarriedLinks::Put(const EndPtr& end, peer::Frame frame) {
  peer::Carried carried = NewCarried(end->key);
  if (given_.home) {
    *carried.mutable_from_home() = std::move(*frame.mutable_from_home());
  } else {
    *carried.mutable_to_home() = std::move(*frame.mutable_to_home());
  }
  const std::size_t bytes = carried.ByteSizeLong();
  end->frames.Put(std::move(carried));
  if (bytes <= kBytesMax && end->frames.bytes_kept() <= kKeptBytesMax) return Pump(*end);
  SayClosed(end->key, end->way);
  Close(end, bytes > kBytesMax ? ResourceExhausted("a frame has {} bytes, at most {} can be carried", bytes, kBytesMax)
                               : ResourceExhausted("the peer leaves more than {} bytes unread", kKeptBytesMax));
}

void CarriedLinks::Pump(End& end) {
  while (std::optional<peer::Carried> next = end.frames.Next()) Send(end, *std::move(next));
}

void CarriedLinks::Send(End& end, peer::Carried carried) {
  carried.set_way(end.way);
  carried.set_heard(end.frames.heard());
  end.frames.ToldHeard();
  reports_.send(std::move(carried));
}

void CarriedLinks::SayAgain(End& end) {
  end.frames.SendAllAgain();
  end.frames.bytes_kept() == 0 ? SayHeard(end) : Pump(end);
}

void CarriedLinks::SayHeard(End& end) {
  Send(end, NewCarried(end.key));
}

void CarriedLinks::SayClosed(const Key& key, std::uint64_t way) {
  peer::Carried carried = NewCarried(key);
  carried.set_kind(peer::Carried::CLOSED);
  carried.set_way(way);
  reports_.send(std::move(carried));
}

// --- A link ends ---

// Its owner does not want it any more. What was sent before goes first, unless that is more than others who share the
// connection are to wait for.
void CarriedLinks::Release(const EndPtr& end) {
  if (end->frames.bytes_kept() <= kLastBytesMax) {
    for (peer::Carried& carried : end->frames.Rest()) Send(*end, std::move(carried));
  }
  SayClosed(end->key, end->way);
  end->over = true;
  Remove(end->key);
}

void CarriedLinks::Close(const EndPtr& end, const absl::Status& why) {
  if (std::exchange(end->over, true)) return;
  end->closed = why;
  given_.loop.Post([end] { Deliver(end); });
  Remove(end->key);
}

void CarriedLinks::CloseAll(const absl::Status& why) {
  for (const auto& [key, end] : std::map(ends_)) Close(end, why);
}

void CarriedLinks::Remove(const Key& key) {
  const auto end = ends_.extract(key);
  if (end && end.mapped()->patience != 0) given_.loop.Cancel(std::exchange(end.mapped()->patience, 0));
  if (ends_.empty()) reports_.on_empty();
}

}  // namespace cairn
