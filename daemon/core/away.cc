#include "daemon/core/away.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "daemon/core/call.h"
#include "daemon/peers/answers.h"
#include "daemon/peers/frames.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kSessionsMax = 1 << 16;  // of one daemon
constexpr std::size_t kProgramBytesMax = 256;
constexpr std::uint64_t kThereBytesMax = 256u << 20;  // that one daemon says of its parts

absl::Status StatusOf(bool refused, const peer::Refused& why) {
  return refused ? answers::ToStatus(why) : absl::OkStatus();
}

std::string TextOf(const std::string& given, std::size_t bytes_max) {
  return given.substr(0, bytes_max);
}

peer::Frame FrameOf(peer::FromHome said) {
  peer::Frame frame;
  *frame.mutable_from_home() = std::move(said);
  return frame;
}

}  // namespace

absl::Status Away::TooLong(std::string_view what, std::size_t bytes) {
  return ResourceExhausted("{} has {} bytes, at most {} can go to another node", what, bytes, frames::kCarriedBytesMax);
}

std::set<NodeId> HoldersOf(const Dataset& dataset) {
  std::set<NodeId> holders;
  for (const Part& part : dataset.parts) {
    if (part.elsewhere && !part.node.empty()) holders.insert(part.node);
  }
  return holders;
}

// A daemon that serves ranks of the launch, while it has a link.
struct Away::Daemon {
  NodeId node;
  std::uint64_t incarnation = 0;
  std::shared_ptr<PeerLink> link;         // null: it has gone
  std::optional<peer::PartsThere> there;  // as much as has come of it
  std::uint64_t there_bytes = 0;
  bool introduced = false;                               // all of it has come
  std::map<std::uint64_t, std::shared_ptr<Rank>> ranks;  // by session

  void Send(peer::FromHome said) const {
    if (link) link->Send(FrameOf(std::move(said)));
  }
};

// One rank's connection.
class Away::Rank final : public Connection {
 public:
  Rank(DaemonPtr daemon, std::uint64_t session, Peer peer)
      : daemon_(std::move(daemon)), session_(session), peer_(std::move(peer)) {}

  void Send(const local::Reply& reply, SharedFd descriptor) override {
    CAIRN_CHECK(descriptor == nullptr);
    peer::FromHome said;
    said.mutable_to_rank()->set_session(session_);
    *said.mutable_to_rank()->mutable_reply() = reply;
    if (const std::size_t bytes = said.ByteSizeLong(); bytes > frames::kCarriedBytesMax) {
      local::Reply& instead = *said.mutable_to_rank()->mutable_reply();
      instead.Clear();
      instead.set_call(reply.call());
      SetStatus(TooLong("the answer", bytes), instead.mutable_status());
    }
    daemon_->Send(std::move(said));
  }
  void Close() override {
    peer::FromHome said;
    said.mutable_rank_closed()->set_session(session_);
    daemon_->Send(std::move(said));
  }
  bool shares_memory() const override { return false; }
  bool resumable() const override { return daemon_->link == nullptr; }
  std::string node() const override { return daemon_->node; }
  Peer peer() const override { return peer_; }

  const DaemonPtr& daemon() const { return daemon_; }
  std::uint64_t session() const { return session_; }

  // Steps of a restore that are under way, by call.
  std::map<std::uint64_t, Moved> moving;

 private:
  const DaemonPtr daemon_;
  const std::uint64_t session_;
  const Peer peer_;
};

Away::Away(const Context& context, const Given& given, Reports reports)
    : context_(context),
      given_(given),
      reports_(std::move(reports)),
      orders_(context, [this](const NodeId& node, const peer::FromHome& order) { return Send(node, order); }) {}

Away::~Away() {
  Stop();
}

void Away::Serve(Relay& relay) {
  relay_ = &relay;
  relay.Serve([this](std::unique_ptr<PeerLink> link) { OnLink(std::move(link)); });
}

void Away::Stop() {
  if (relay_ != nullptr) std::exchange(relay_, nullptr)->Serve(nullptr);
  for (const auto& [node, timer] : missing_) context_.loop().Cancel(timer);
  missing_.clear();
  for (const auto& [node, daemon] : std::map(daemons_)) OnClosed(daemon, Cancelled("this daemon stops"));
  for (const auto& [node, timer] : missing_) context_.loop().Cancel(timer);
  missing_.clear();
}

bool Away::HasLink(const NodeId& node) const {
  const auto daemon = daemons_.find(node);
  return daemon != daemons_.end() && daemon->second->introduced;
}

// --- Links ---

// The newer link of a daemon counts: the older one's end has not been seen yet.
void Away::OnLink(std::unique_ptr<PeerLink> link) {
  const NodeId node = link->peer().node;
  if (node == context_.cache_id) return;
  if (const auto known = daemons_.find(node); known != daemons_.end()) {
    OnClosed(DaemonPtr(known->second), Unavailable("its daemon has come anew"));
  }
  const auto daemon = std::make_shared<Daemon>();
  daemon->node = node;
  daemon->incarnation = link->peer().incarnation;
  daemon->link = std::move(link);
  daemons_[node] = daemon;
  const std::weak_ptr<Daemon> weak = daemon;
  daemon->link->Start({.on_frame =
                           [this, weak](peer::Frame frame) {
                             const DaemonPtr daemon = weak.lock();
                             if (daemon && daemon->link) OnFrame(daemon, std::move(frame));
                           },
                       .on_closed =
                           [this, weak](const absl::Status& why) {
                             const DaemonPtr daemon = weak.lock();
                             if (daemon && daemon->link) OnClosed(daemon, why);
                           }});
}

void Away::OnClosed(const DaemonPtr& daemon, const absl::Status& why) {
  // It may be the link whose callback this is.
  context_.loop().Post([link = std::exchange(daemon->link, nullptr)] {});
  if (const auto at = daemons_.find(daemon->node); at != daemons_.end() && at->second == daemon) daemons_.erase(at);
  const absl::Status lost = Unavailable("the link to its daemon was lost: {}", MessageOf(why));
  for (const auto& [session, rank] : std::exchange(daemon->ranks, {})) {
    for (const auto& [call, moved] : std::exchange(rank->moving, {})) moved(lost, SIZE_MAX, false);
    given_.receiver.Detach(rank);
  }
  orders_.LinkLost(daemon->node, lost);
  if (!daemon->introduced || missing_.contains(daemon->node)) return;
  missing_[daemon->node] =
      context_.loop().After(std::chrono::milliseconds(context_.config.ingest.resume_ms), [this, node = daemon->node] {
        missing_.erase(node);
        if (!HasLink(node)) reports_.on_lost(node);
      });
}

void Away::OnFrame(const DaemonPtr& daemon, peer::Frame frame) {
  if (!frame.has_to_home()) return Refuse(daemon, "body");
  peer::ToHome& said = *frame.mutable_to_home();
  if (said.has_parts()) return OnParts(daemon, std::move(*said.mutable_parts()));
  if (!daemon->introduced) return Refuse(daemon, "to_home.parts");
  if (said.has_from_rank()) return OnRank(daemon, std::move(*said.mutable_from_rank()));
  // What a rank asks is looked at in a turn of its own; what was said after it keeps its place.
  context_.loop().Post([this, daemon, said = std::move(said)] {
    if (daemon->link) OnNews(daemon, said);
  });
}

void Away::OnNews(const DaemonPtr& daemon, const peer::ToHome& said) {
  using Kind = AwayOrders::Kind;
  const auto answered = [&](Kind kind, const auto& how, const std::string& damaged_file) {
    orders_.Answered(kind, daemon->node, how.dataset(), how.order(),
                     {.status = StatusOf(how.has_refused(), how.refused()), .damaged_file = damaged_file});
  };
  switch (said.body_case()) {
    case peer::ToHome::kRankGone:
      return RankGone(daemon, said.rank_gone().session());
    case peer::ToHome::kStored:
      return reports_.on_stored(daemon->node, said.stored().catalogue());
    case peer::ToHome::kFailed:
      return reports_.on_failed(daemon->node, said.failed());
    case peer::ToHome::kCompleted:
      return answered(Kind::kComplete, said.completed(), "");
    case peer::ToHome::kCopied:
      return answered(Kind::kCopy, said.copied(), said.copied().damaged_file());
    case peer::ToHome::kCopyGoesOn:
      return orders_.CopyGoesOn(daemon->node, said.copy_goes_on());
    case peer::ToHome::kKept:
      return answered(Kind::kKeep, said.kept(), "");
    case peer::ToHome::kRebuilt:
      return OnRebuilt(daemon, said.rebuilt());
    case peer::ToHome::kLeft:
      return reports_.on_left(daemon->node, said.left());
    case peer::ToHome::kMoved:
      return OnMoved(daemon, said.moved());
    default:
      return Refuse(daemon, "to_home.body");
  }
}

void Away::OnRebuilt(const DaemonPtr& daemon, const peer::Rebuilt& rebuilt) {
  OrderEnded how{.status = StatusOf(rebuilt.has_refused(), rebuilt.refused())};
  for (const peer::Rebuild::Lost& one : rebuilt.by()) {
    if (one.sets_size() == 1) how.made[one.rank()] = one.sets(0);
  }
  orders_.Answered(AwayOrders::Kind::kRebuild, daemon->node, rebuilt.dataset(), rebuilt.order(), how);
}

void Away::Refuse(const DaemonPtr& daemon, const std::string& field) {
  OnClosed(daemon, InvalidArgument("{}: not what is to come", field));
}

void Away::OnParts(const DaemonPtr& daemon, peer::PartsThere there) {
  if (daemon->introduced) return Refuse(daemon, "to_home.parts");
  const bool more = there.more();
  daemon->there_bytes += there.ByteSizeLong();
  if (daemon->there_bytes > kThereBytesMax) return Refuse(daemon, "to_home.parts.more");
  if (!daemon->there) {
    daemon->there = std::move(there);
  } else {
    if (there.launch() != daemon->there->launch() || there.mark() != daemon->there->mark()) {
      return Refuse(daemon, "to_home.parts.launch");
    }
    for (peer::PartThere& part : *there.mutable_parts()) *daemon->there->add_parts() = std::move(part);
  }
  if (more) return;
  daemon->introduced = true;
  if (const auto missing = missing_.extract(daemon->node)) context_.loop().Cancel(missing.mapped());
  const peer::PartsThere all = *std::exchange(daemon->there, std::nullopt);
  daemon->Send(LeavingFrame());  // also if there is none: it may have heard otherwise before
  reports_.on_there(daemon->node, all);
}

// --- Ranks ---

void Away::OnRank(const DaemonPtr& daemon, peer::FromRank said) {
  auto known = daemon->ranks.find(said.session());
  if (known == daemon->ranks.end()) {
    if (!said.request().has_open() || said.request().open().observer())
      return Refuse(daemon, "to_home.from_rank.request");
    if (daemon->ranks.size() >= kSessionsMax) return Refuse(daemon, "to_home.from_rank.session");
    const auto rank =
        std::make_shared<Rank>(daemon, said.session(),
                               Connection::Peer{.host = TextOf(said.client().host(), frames::kHostBytesMax),
                                                .pid = said.client().pid(),
                                                .program = TextOf(said.client().program(), kProgramBytesMax)});
    known = daemon->ranks.emplace(said.session(), rank).first;
    given_.receiver.Attach(rank);
  }
  auto request = std::make_unique<local::Request>(std::move(*said.mutable_request()));
  // Nodes may have other names for the directory.
  if (request->has_open()) request->mutable_open()->set_prefix(given_.gate.path());
  given_.receiver.Receive(known->second, std::move(request));
}

void Away::RankGone(const DaemonPtr& daemon, std::uint64_t session) {
  const auto rank = daemon->ranks.extract(session);
  if (!rank) return;
  for (const auto& [call, moved] : std::exchange(rank.mapped()->moving, {})) {
    moved(Unavailable("its process has gone"), SIZE_MAX, false);
  }
  given_.receiver.Detach(rank.mapped());
}

// --- What is told ---

bool Away::Send(const NodeId& node, peer::FromHome frame) {
  if (!HasLink(node)) return false;
  daemons_.at(node)->Send(std::move(frame));
  return true;
}

void Away::SendToHolders(const Dataset& dataset, const peer::FromHome& frame) {
  for (const NodeId& node : HoldersOf(dataset)) Send(node, frame);
}

void Away::Foretell(LaunchId launch, DatasetId dataset) {
  peer::FromHome said;
  said.mutable_foretold()->set_launch(launch);
  said.mutable_foretold()->set_dataset(dataset);
  for (const auto& [node, daemon] : daemons_) {
    if (!daemon->ranks.empty()) Send(node, said);
  }
}

// --- Restores ---

std::shared_ptr<Away::Rank> Away::RankOf(const Connection& connection) const {
  const auto daemon = daemons_.find(connection.node());
  if (daemon == daemons_.end()) return nullptr;
  for (const auto& [session, rank] : daemon->second->ranks) {
    if (rank.get() == &connection) return rank;
  }
  return nullptr;
}

void Away::Find(const Connection& connection, std::uint64_t call, peer::Find step, Moved moved) {
  const std::shared_ptr<Rank> rank = RankOf(connection);
  if (!rank) {
    return context_.loop().Post(
        [moved = std::move(moved)] { moved(Unavailable("its daemon has no link"), SIZE_MAX, false); });
  }
  if (const std::size_t bytes = step.ByteSizeLong(); bytes > frames::kCarriedBytesMax) {
    return context_.loop().Post([moved = std::move(moved), bytes] {
      moved(TooLong("what is to be read for this rank", bytes), SIZE_MAX, false);
    });
  }
  rank->moving[call] = std::move(moved);
  step.set_session(rank->session());
  step.set_call(call);
  peer::FromHome said;
  *said.mutable_find() = std::move(step);
  rank->daemon()->Send(std::move(said));
}

void Away::Start(const Connection& connection, std::uint64_t call, Moved moved) {
  const std::shared_ptr<Rank> rank = RankOf(connection);
  if (!rank) {
    return context_.loop().Post(
        [moved = std::move(moved)] { moved(Unavailable("its daemon has no link"), SIZE_MAX, false); });
  }
  rank->moving[call] = std::move(moved);
  peer::FromHome said;
  said.mutable_start()->set_session(rank->session());
  said.mutable_start()->set_call(call);
  rank->daemon()->Send(std::move(said));
}

void Away::Abandon(const Connection& connection, std::uint64_t call) {
  const std::shared_ptr<Rank> rank = RankOf(connection);
  if (!rank) return;
  rank->moving.erase(call);
  peer::FromHome said;
  said.mutable_abandon()->set_session(rank->session());
  said.mutable_abandon()->set_call(call);
  rank->daemon()->Send(std::move(said));
}

void Away::OnMoved(const DaemonPtr& daemon, const peer::Moved& moved) {
  const auto rank = daemon->ranks.find(moved.session());
  if (rank == daemon->ranks.end()) return;
  const auto moving = rank->second->moving.extract(moved.call());
  if (!moving) return;
  moving.mapped()(StatusOf(moved.has_refused(), moved.refused()), moved.copy(), moved.delivered());
}

}  // namespace cairn
