#include "daemon/peers/children.h"

#include <algorithm>
#include <utility>

#include "storage/base/status.h"

namespace cairn {

Children::Children(const Given& given, Reports reports)
    : given_(given), reports_(std::move(reports)), branches_(given.self) {}

void Children::OnLink(std::unique_ptr<PeerLink> link) {
  // It tries again; who is here is heard first.
  if (newcomers_.size() >= kNewcomersMax || link->peer().run != given_.run) return;
  const Id id = ++last_id_;
  PeerLink& started = *link;
  newcomers_.emplace(id, Newcomer{.link = std::move(link), .came = given_.clocks.steady()});
  const std::weak_ptr<int> alive = alive_;
  started.Start({.on_frame =
                     [this, alive, id](const peer::Frame& frame) {
                       if (!alive.expired()) OnFrame(id, frame);
                     },
                 .on_closed =
                     [this, alive, id](const absl::Status&) {
                       if (!alive.expired()) Lose(id);
                     }});
}

// --- Links that go ---

// The link may be the one whose callback this is.
frames::BelowChange Children::Close(Id id) {
  std::shared_ptr<PeerLink> link;
  if (auto newcomer = newcomers_.extract(id)) link = std::move(newcomer.mapped().link);
  if (auto child = children_.extract(id)) {
    link = std::move(child.mapped().link);
    std::erase_if(ids_, [id](const auto& entry) { return entry.second == id; });
  }
  if (link != nullptr) given_.loop.Post([link = std::move(link)] {});
  return branches_.Remove(id);
}

void Children::Lose(Id id) {
  const frames::BelowChange change = Close(id);
  if (!change.empty()) reports_.on_below(change);
}

void Children::Refuse(Id id, const Refusal& refusal) {
  const peer::Frame frame = frames::Elsewhere(refusal.why, refusal.text, reports_.place().coordinator, refusal.address);
  if (const auto newcomer = newcomers_.find(id); newcomer != newcomers_.end()) newcomer->second.link->Send(frame);
  if (const auto child = children_.find(id); child != children_.end()) child->second.link->Send(frame);
  Lose(id);
}

void Children::LetGo(peer::Elsewhere::Why why, const std::string& text) {
  while (!children_.empty()) Refuse(children_.begin()->first, {.why = why, .text = text, .address = ""});
}

void Children::Stop(const std::optional<peer::Frame>& last) {
  if (last) Send({*last});
  while (!children_.empty()) Close(children_.begin()->first);
  while (!newcomers_.empty()) Close(newcomers_.begin()->first);
}

// --- Those who come ---

void Children::OnFrame(Id id, const peer::Frame& frame) {
  if (const auto child = children_.find(id); child != children_.end()) return OnChildFrame(id, child->second, frame);
  if (!newcomers_.contains(id)) return;  // it has been let go
  if (frame.has_join()) return OnJoin(id, frame.join());
  Refuse(id, {.why = peer::Elsewhere::INVALID, .text = "frame: the first one is a join", .address = ""});
}

void Children::OnJoin(Id id, const peer::Join& join) {
  const auto members = frames::ToJoined(join);
  if (!members.ok()) {
    return Refuse(id,
                  {.why = peer::Elsewhere::INVALID, .text = std::string(MessageOf(members.status())), .address = ""});
  }
  if (const auto refusal = WhyNot(id, join, *members)) return Refuse(id, *refusal);
  Accept(id, join, *members);
}

std::optional<Children::Refusal> Children::WhyNot(Id id, const peer::Join& join, const std::vector<Member>& members) {
  using peer::Elsewhere;
  const Member& self = members.front();
  const PeerIdentity& peer = newcomers_.at(id).link->peer();
  if (self.node != peer.node || self.incarnation != peer.incarnation) {
    return Refusal{Elsewhere::INVALID, "join.self: not who the link's certificate names", ""};
  }
  const frames::Place place = reports_.place();
  const std::uint64_t epoch = place.coordinator.epoch;
  if (join.epoch() > epoch) {
    if (join.epoch() <= epoch + frames::kEpochAheadMax) reports_.on_newer(join.epoch());
    return Refusal{Elsewhere::UNATTACHED, fmt::format("epoch {} is the newest here", epoch), ""};
  }
  if (join.epoch() != 0 && join.epoch() < epoch) {
    return Refusal{Elsewhere::NEWER, fmt::format("join.epoch: {} is over", join.epoch()), ""};
  }
  if (!place.attached) return Refusal{Elsewhere::UNATTACHED, "looks for a coordinator itself", ""};
  const auto is_here = [this](const Member& member) { return member.node == given_.self; };
  if (std::ranges::find(place.path, self.node) != place.path.end() || std::ranges::any_of(members, is_here)) {
    return Refusal{Elsewhere::CIRCLE, "join.below: one is above the other already", ""};
  }
  const std::size_t depth = place.path.size() + 1;
  if (depth + join.height() > given_.depth_max) {
    return Refusal{join.height() > 0 ? Elsewhere::TOO_DEEP : Elsewhere::UNATTACHED,
                   fmt::format("{} links deep, at most {}", depth + join.height(), given_.depth_max),
                   join.height() > 0 ? reports_.address() : ""};
  }
  if (below().size() + 2 + join.members_below() > given_.members_max + branches_.size(FormerOf(self.node))) {
    return Refusal{Elsewhere::TOO_MANY, fmt::format("at most {} members", given_.members_max), ""};
  }
  if (children_.size() < given_.fan_in || FormerOf(self.node) != 0) return std::nullopt;
  return MakeRoom(join, members);
}

// One of the two goes below another child.
std::optional<Children::Refusal> Children::MakeRoom(const peer::Join& join, const std::vector<Member>& members) {
  const Id smallest = Smallest(0, members);
  if (smallest == 0) return Refusal{peer::Elsewhere::CIRCLE, "all children are below the one who joins", ""};
  const std::string text = fmt::format("{} children", children_.size());
  const Id second = Smallest(smallest, members);
  if (second == 0 || join.members_below() + 1 <= branches_.size(smallest)) {
    return Refusal{peer::Elsewhere::FULL, text, children_.at(smallest).address};
  }
  Refuse(smallest, {.why = peer::Elsewhere::FULL, .text = text, .address = children_.at(second).address});
  return std::nullopt;
}

Children::Id Children::Smallest(Id but, const std::vector<Member>& not_one_of) const {
  Id smallest = 0;
  for (const auto& [node, id] : ids_) {
    const bool excluded = std::ranges::find(not_one_of, node, &Member::node) != not_one_of.end();
    if (id == but || excluded) continue;
    if (smallest == 0 || branches_.size(id) < branches_.size(smallest)) smallest = id;
  }
  return smallest;
}

Children::Id Children::FormerOf(const NodeId& node) const {
  const auto found = ids_.find(node);
  return found == ids_.end() ? 0 : found->second;
}

void Children::Accept(Id id, const peer::Join& join, const std::vector<Member>& members) {
  const Member& self = members.front();
  const Id former = FormerOf(self.node);
  auto newcomer = newcomers_.extract(id);
  Child& child = children_[id];
  child = {.link = std::move(newcomer.mapped().link),
           .address = self.address,
           .height = join.height(),
           .heard = given_.clocks.steady()};
  ids_[self.node] = id;
  child.link->Send(frames::Welcome(reports_.place()));
  for (peer::Frame& frame : reports_.table()) child.link->Send(std::move(frame));
  // First what is new, then what was there: who is in both does not go in between.
  frames::BelowChange change = branches_.Apply(id, {.now = members, .gone = {}});
  if (!change.empty()) reports_.on_below(change);
  if (former == 0) return;
  change = Close(former);
  if (!change.empty()) reports_.on_below(change);
}

// --- Children ---

void Children::OnChildFrame(Id id, Child& child, const peer::Frame& frame) {
  child.heard = given_.clocks.steady();
  switch (frame.body_case()) {
    case peer::Frame::kBelow:
      return OnBelow(id, child, frame.below());
    case peer::Frame::kPulse:
      child.height = std::min<std::uint32_t>(frame.pulse().height(), frames::kPathMax);
      return;
    case peer::Frame::kLeave: {
      const PeerIdentity peer = child.link->peer();
      frames::BelowChange change = branches_.Apply(
          id, {.now = {}, .gone = {{.node = peer.node, .incarnation = peer.incarnation, .why = GoneWhy::kLeft}}});
      if (!change.empty()) reports_.on_below(change);
      return Lose(id);
    }
    case peer::Frame::kElsewhere: {
      const auto coordinator = frames::ToCoordinator(frame.elsewhere().coordinator(), "elsewhere.coordinator");
      const std::uint64_t epoch = reports_.place().coordinator.epoch;
      if (coordinator.ok() && coordinator->epoch > epoch && coordinator->epoch <= epoch + frames::kEpochAheadMax) {
        reports_.on_newer(coordinator->epoch);
      }
      return Lose(id);
    }
    default:
      return Refuse(id, {.why = peer::Elsewhere::INVALID,
                         .text = fmt::format("frame: {} is not for a parent", static_cast<int>(frame.body_case())),
                         .address = ""});
  }
}

void Children::OnBelow(Id id, Child& child, const peer::Below& message) {
  auto change = frames::ToBelow(message);
  if (!change.ok()) {
    return Refuse(id,
                  {.why = peer::Elsewhere::INVALID, .text = std::string(MessageOf(change.status())), .address = ""});
  }
  if (branches_.size(id) + change->now.size() > given_.members_max + change->gone.size()) {
    return Refuse(id, {.why = peer::Elsewhere::INVALID,
                       .text = fmt::format("below.now: more than {} members", given_.members_max),
                       .address = ""});
  }
  // Of itself a child speaks as this life. That it has gone is said by Leave, or by its link.
  const PeerIdentity& peer = child.link->peer();
  for (const Member& member : change->now) {
    if (member.node != peer.node) continue;
    if (member.incarnation != peer.incarnation) {
      return Refuse(
          id,
          {.why = peer::Elsewhere::INVALID, .text = "below.now: not who the link's certificate names", .address = ""});
    }
    child.address = member.address;
  }
  std::erase_if(change->gone, [&peer](const GoneMember& gone) {
    return gone.node == peer.node && gone.incarnation == peer.incarnation;
  });
  const frames::BelowChange news = branches_.Apply(id, *change);
  if (!news.empty()) reports_.on_below(news);
}

void Children::Send(const std::vector<peer::Frame>& frames) {
  for (auto& [id, child] : children_) {
    for (const peer::Frame& frame : frames) child.link->Send(frame);
  }
}

void Children::TellPlace() {
  peer::Frame frame;
  *frame.mutable_pulse()->mutable_place() = frames::From(reports_.place());
  Send({frame});
}

void Children::Beat() {
  const SteadyTime now = given_.clocks.steady();
  std::vector<Id> silent;
  for (const auto& [id, child] : children_) {
    if (now >= child.heard + given_.silence) silent.push_back(id);
  }
  for (const auto& [id, newcomer] : newcomers_) {
    if (now >= newcomer.came + given_.silence) silent.push_back(id);
  }
  for (const Id id : silent) Lose(id);
  TellPlace();
}

std::uint32_t Children::height() const {
  std::uint32_t height = 0;
  for (const auto& [id, child] : children_) height = std::max(height, child.height + 1);
  return height;
}

}  // namespace cairn
