#include "daemon/relay/relay.h"

#include <optional>
#include <utility>

#include "daemon/peers/frames.h"
#include "daemon/relay/below.h"
#include "daemon/relay/carried_links.h"
#include "daemon/relay/way_up.h"
#include "storage/base/status.h"

namespace cairn {

// What there is of one home's tree in this daemon: the way up (unless this is the home), who is below, and the links
// that end here.
class Relay::Tree {
 public:
  // `on_idle`: nothing here may need it any more.
  Tree(const Given& given, NodeId home, PeerNet::OnLink on_link, std::function<void()> on_idle)
      : given_(given),
        home_(std::move(home)),
        is_home_(home_ == given.self.node),
        on_idle_(std::move(on_idle)),
        below_({.loop = given.loop, .self = given.self.node, .settings = given.settings},
               {.on_carried = [this](const peer::Carried& carried) { FromBelow(carried); }, .on_empty = on_idle_}),
        links_({.loop = given.loop, .run = given.self.run, .home = is_home_, .settings = given.settings},
               {.send = [this](peer::Carried carried) { FromHere(std::move(carried)); },
                .on_link = std::move(on_link),
                .on_empty = on_idle_}) {
    if (!is_home_) MakeWayUp();
  }
  ~Tree();

  void Dial(const std::string& address, std::chrono::milliseconds deadline, PeerNet::Dialled done);
  void Take(std::shared_ptr<Hop> hop, const std::string& address) {
    below_.Take(std::move(hop), address,
                is_home_ ? given_.self.incarnation : (way_up_->attached() ? way_up_->home_incarnation() : 0), Path());
  }
  void OnCarried(const Hop& hop, const peer::Carried& carried) { below_.OnCarried(hop, carried); }
  void OnClosed(const Hop& hop) { below_.OnClosed(hop); }
  void IsMissing(const NodeId& node) {
    below_.IsMissing(node);
    if (way_up_) way_up_->IsMissing(node);
  }
  bool idle() const { return !is_home_ && links_.empty() && below_.empty() && dials_.empty(); }

 private:
  void MakeWayUp();
  std::vector<NodeId> Path() const;
  void FromBelow(const peer::Carried& carried);
  void FromAbove(const peer::Carried& carried);
  void FromHere(peer::Carried carried);
  void WayCame();
  void NoWay(const absl::Status& why);
  void Dialled(std::uint64_t id, const absl::Status& status);

  struct Pending {
    PeerNet::Dialled done;
    Loop::TimerId timer = 0;
  };
  const Given given_;
  const NodeId home_;
  const bool is_home_;
  const std::function<void()> on_idle_;
  Below below_;
  CarriedLinks links_;
  std::optional<WayUp> way_up_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  std::map<std::uint64_t, Pending> dials_;
  std::uint64_t last_dial_ = 0;
};

Relay::Tree::~Tree() {
  for (const auto& [id, pending] : dials_) {
    if (pending.timer != 0) given_.loop.Cancel(pending.timer);
    given_.loop.Post([done = pending.done] { done(Cancelled("this daemon leaves the run's nodes")); });
  }
}

void Relay::Tree::MakeWayUp() {
  way_up_.emplace(WayUp::Given{.loop = given_.loop,
                               .net = given_.net,
                               .run = given_.self.run,
                               .self = given_.self.node,
                               .home = home_,
                               .settings = given_.settings,
                               .ways = given_.numbers.ways},
                  WayUp::Reports{.on_attached = [this] { WayCame(); },
                                 .on_broken =
                                     [this] {
                                       below_.LetGo();
                                       on_idle_();
                                     },
                                 .on_end = [this](const absl::Status& why) { NoWay(why); },
                                 .on_carried = [this](const peer::Carried& carried) { FromAbove(carried); }});
}

// From the home down to this daemon; empty: there is no way just now.
std::vector<NodeId> Relay::Tree::Path() const {
  if (!is_home_ && !way_up_->attached()) return {};
  std::vector<NodeId> path;
  if (!is_home_) path = way_up_->path();
  path.push_back(given_.self.node);
  return path;
}

void Relay::Tree::FromBelow(const peer::Carried& carried) {
  is_home_ ? links_.OnCarried(carried) : way_up_->Send(carried, given_.settings.gather);
}

void Relay::Tree::FromAbove(const peer::Carried& carried) {
  if (carried.node() != given_.self.node) return below_.Send(carried);
  // What was sent when another way was known is sent again by this one.
  if (carried.kind() != peer::Carried::LOST && carried.way() == way_up_->number()) links_.OnCarried(carried);
}

void Relay::Tree::FromHere(peer::Carried carried) {
  if (is_home_) return below_.Send(carried);
  carried.set_way(way_up_->number());
  way_up_->Send(std::move(carried), {});
}

// --- A follower's way ---

void Relay::Tree::Dial(const std::string& address, std::chrono::milliseconds deadline, PeerNet::Dialled done) {
  const std::uint64_t id = ++last_dial_;
  dials_[id] = {.done = std::move(done), .timer = given_.loop.After(deadline, [this, id] {
                  dials_.at(id).timer = 0;
                  Dialled(id, DeadlineExceeded("no way to the launch's home in time"));
                })};
  if (!way_up_->attached()) return way_up_->Seek(address);
  given_.loop.Post([this, id, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired() && way_up_->attached()) Dialled(id, absl::OkStatus());
  });
}

void Relay::Tree::WayCame() {
  links_.WayCame(way_up_->home_incarnation());
  const std::weak_ptr<int> alive = alive_;
  for (const auto& [id, pending] : std::map(dials_)) {
    if (alive.expired()) return;
    Dialled(id, absl::OkStatus());
  }
}

void Relay::Tree::NoWay(const absl::Status& why) {
  const std::weak_ptr<int> alive = alive_;
  below_.LetGo();
  links_.CloseAll(Unavailable("{}", MessageOf(why)));
  for (const auto& [id, pending] : std::map(dials_)) {
    if (alive.expired()) return;
    Dialled(id, why);
  }
  if (!alive.expired()) on_idle_();
}

void Relay::Tree::Dialled(std::uint64_t id, const absl::Status& status) {
  const auto pending = dials_.extract(id);
  if (!pending) return;
  if (pending.mapped().timer != 0) given_.loop.Cancel(pending.mapped().timer);
  on_idle_();
  if (!status.ok()) return pending.mapped().done(status);
  const PeerIdentity home{.run = given_.self.run, .node = home_, .incarnation = way_up_->home_incarnation()};
  pending.mapped().done(links_.Make(given_.self, home, ++given_.numbers.links));
}

// --- All trees ---

// Where a link from below belongs: to a tree, once its Attach has come.
struct Relay::Origin {
  std::weak_ptr<Tree> tree;
  std::weak_ptr<Hop> hop;
};

Relay::Relay(Given given) : given_(std::move(given)) {
  given_.net.Serve(given_.self.run, [this](std::unique_ptr<PeerLink> link) { OnLink(std::move(link)); });
}

Relay::~Relay() {
  given_.net.Serve(given_.self.run, nullptr);
}

void Relay::Serve(PeerNet::OnLink on_link) {
  trees_.erase(given_.self.node);
  if (on_link != nullptr) {
    trees_[given_.self.node] = MakeTree(given_.self.node, std::move(on_link));
  }
}

void Relay::Dial(const NodeId& home, const std::string& address, std::chrono::milliseconds deadline,
                 PeerNet::Dialled done) {
  if (home == given_.self.node) {
    return given_.loop.Post([done = std::move(done)] { done(InvalidArgument("this daemon is the home itself")); });
  }
  std::shared_ptr<Tree>& tree = trees_[home];
  if (tree == nullptr) tree = MakeTree(home, nullptr);
  tree->Dial(address, deadline, std::move(done));
}

void Relay::IsMissing(const NodeId& node) {
  for (const auto& [home, tree] : trees_) tree->IsMissing(node);
}

void Relay::OnLink(std::unique_ptr<PeerLink> link) {
  const auto origin = std::make_shared<Origin>();
  const auto tree_has = [origin](const auto& act) {
    const std::shared_ptr<Tree> tree = origin->tree.lock();
    const std::shared_ptr<Hop> hop = origin->hop.lock();
    if (tree != nullptr && hop != nullptr) act(*tree, *hop);
  };
  const std::weak_ptr<int> alive = alive_;
  const auto hop = std::make_shared<Hop>(
      given_.loop, std::move(link),
      Hop::Reports{.on_carried =
                       [tree_has](const peer::Carried& carried) {
                         tree_has([&](Tree& tree, const Hop& hop) { tree.OnCarried(hop, carried); });
                       },
                   .on_other =
                       [this, alive, origin](const peer::Frame& frame) {
                         if (!alive.expired()) OnOther(origin, frame);
                       },
                   .on_closed =
                       [this, alive, tree_has, origin](const absl::Status&) {
                         tree_has([&](Tree& tree, const Hop& hop) { tree.OnClosed(hop); });
                         if (!alive.expired()) newcomers_.erase(origin->hop.lock().get());
                       }});
  origin->hop = hop;
  newcomers_[hop.get()] = hop;
}

// The first frame, and no other: an Attach. Whoever is refused is told why, and its link ends.
void Relay::OnOther(const std::shared_ptr<Origin>& origin, const peer::Frame& frame) {
  const std::shared_ptr<Hop> hop = origin->hop.lock();
  if (hop == nullptr) return;
  if (const std::shared_ptr<Tree> tree = origin->tree.lock()) return tree->OnClosed(*hop);
  newcomers_.erase(hop.get());
  if (!frame.has_attach() || frame.attach().address().size() > frames::kAddressBytesMax) return;
  const auto tree = trees_.find(frame.attach().home());
  if (tree == trees_.end()) {
    return hop->SendAlone(frames::Elsewhere(peer::Elsewhere::UNATTACHED, "it serves no rank of that launch", {}));
  }
  origin->tree = tree->second;
  tree->second->Take(hop, frame.attach().address());
}

// A tree is kept while something here needs it. It may be the one that reports, and it may outlive this.
std::shared_ptr<Relay::Tree> Relay::MakeTree(const NodeId& home, PeerNet::OnLink on_link) {
  const std::weak_ptr<int> alive = alive_;
  return std::make_shared<Tree>(given_, home, std::move(on_link), [this, &loop = given_.loop, home, alive] {
    loop.Post([this, home, alive] {
      if (alive.expired()) return;
      const auto tree = trees_.find(home);
      if (tree != trees_.end() && tree->second->idle()) trees_.erase(tree);
    });
  });
}

}  // namespace cairn
