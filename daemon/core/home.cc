// The link to a launch's home, and what is said and asked there. What the home says and orders is in home_orders.cc.
#include "daemon/core/home.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "daemon/peers/frames.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::chrono::seconds kDialWithin(5);
constexpr std::size_t kPartsBytes = 1 << 20;  // of one frame that lists parts, unless that is one part
// The home's own deadline comes first, as its answer says what was waited for.
constexpr std::chrono::milliseconds kOnTheWayMax(200);
constexpr std::chrono::milliseconds kCopiesMax(10);

local::Reply Refusal(const absl::Status& why) {
  local::Reply reply;
  SetStatus(why, reply.mutable_status());
  return reply;
}

std::uint32_t DeadlineFor(std::chrono::milliseconds deadline) {
  return static_cast<std::uint32_t>((deadline - std::min(deadline / 10, kOnTheWayMax)).count());
}

}  // namespace

void Home::Stop() {
  link_ = nullptr;
  after_copies_.clear();
  ranks_.clear();
  by_session_.clear();
  waiting_.clear();
}

// --- The link ---

void Home::WithLink(const Launch& launch, const NodeId& maker, Linked then) {
  if (launch_ != launch.id || maker_ != maker) {
    if (link_) LinkLost(Cancelled("a newer launch has another home"));
    launch_ = launch.id;
    mark_ = launch.mark;
    maker_ = maker;
  }
  if (link_) return context_.loop().Post([then = std::move(then)] { then(absl::OkStatus()); });
  waiting_.push_back(std::move(then));
  if (std::exchange(dialling_, true)) return;
  given_.nodes.WhenKnown(maker, [this, maker, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) Dial(maker);
  });
}

void Home::Dial(const NodeId& maker) {
  const std::optional<Member> member = given_.nodes.Find(maker);
  if (!member || maker != maker_) {
    return LinkFailed(
        Unavailable("node {}, which has made the launch, is not among the run's nodes", maker.substr(0, 8)));
  }
  given_.nodes.DialHome(
      *member, kDialWithin,
      [this, maker, alive = std::weak_ptr<int>(alive_)](absl::StatusOr<std::unique_ptr<PeerLink>> link) {
        if (alive.expired()) return;
        if (!link.ok()) return LinkFailed(link.status());
        if (maker != maker_) return LinkFailed(Unavailable("a newer launch has another home"));
        LinkCame(*std::move(link));
      });
}

void Home::LinkFailed(const absl::Status& why) {
  dialling_ = false;
  for (const Linked& then : std::exchange(waiting_, {})) then(Unavailable("{}", MessageOf(why)));
}

void Home::LinkCame(std::unique_ptr<PeerLink> link) {
  dialling_ = false;
  link_ = std::move(link);
  const std::weak_ptr<PeerLink> this_one = link_;
  link_->Start({.on_frame =
                    [this, this_one](const peer::Frame& frame) {
                      if (this_one.lock() == link_) OnFrame(frame);
                    },
                .on_closed =
                    [this, this_one](const absl::Status& why) {
                      if (this_one.lock() == link_) LinkLost(why);
                    }});
  for (peer::ToHome& said : PartsHere()) Send(std::move(said));
  for (const Linked& then : std::exchange(waiting_, {})) then(absl::OkStatus());
}

void Home::LinkLost(const absl::Status& why) {
  spdlog::warn("run {}: the link to the home of launch {} was lost: {}", given_.run_name, launch_, MessageOf(why));
  context_.loop().Post([link = std::exchange(link_, nullptr)] {});
  after_copies_.clear();
  const local::Reply lost = Refusal(Unavailable("the link to the launch's home was lost: {}", MessageOf(why)));
  by_session_.clear();
  ForgetForetold();
  orders_.may_leave({});  // what was allowed before may not be what is now
  for (const auto& [number, rank] : std::exchange(ranks_, {})) {
    for (const auto& [call, answered] : std::exchange(rank->asked, {})) answered(lost);
    if (rank->session) rank->connection->Close();
  }
}

// All parts that are here of the launch's datasets: what was handed over, what is stored.
std::vector<peer::ToHome> Home::PartsHere() const {
  std::vector<peer::ToHome> all;
  const auto start = [&] {
    peer::PartsThere& parts = *all.emplace_back().mutable_parts();
    parts.set_launch(launch_);
    parts.set_mark(mark_);
  };
  start();
  std::size_t bytes = 0;
  for (const auto& [id, dataset] : given_.ledger.InPlay()) {
    if (dataset->launch != launch_) continue;
    for (Rank rank = 0; rank < dataset->parts.size(); ++rank) {
      const Part& part = dataset->parts[rank];
      if (part.elsewhere || !part.captured()) continue;
      peer::PartThere there;
      there.set_dataset(id);
      there.set_rank(rank);
      there.set_completed(dataset->in_cache() || dataset->recorded);
      if (part.keeps) *there.mutable_keeps() = *part.keeps;
      if (part.stored()) *there.mutable_catalogue() = part.catalogue;
      const std::size_t more = there.ByteSizeLong();
      if (bytes > 0 && bytes + more > kPartsBytes) {
        all.back().mutable_parts()->set_more(true);
        start();
        bytes = 0;
      }
      bytes += more;
      *all.back().mutable_parts()->add_parts() = std::move(there);
    }
  }
  return all;
}

void Home::Send(peer::ToHome said, When when) {
  if (!link_) return;
  const bool first = after_copies_.empty();
  *after_copies_.emplace_back().mutable_to_home() = std::move(said);
  if (when == When::kNow) return SendWaiting();
  if (!first) return;
  context_.loop().After(kCopiesMax, [this, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) SendWaiting();
  });
}

void Home::SendWaiting() {
  const std::shared_ptr<PeerLink> link = link_;
  for (peer::Frame& frame : std::exchange(after_copies_, {})) link->Send(std::move(frame));
}

// --- A rank comes ---

void Home::Open(const Launch& launch, const NodeId& maker, const std::shared_ptr<Connection>& connection,
                const local::Open& open, std::chrono::milliseconds patience, Opened then) {
  WithLink(launch, maker, [this, connection, open, patience, then = std::move(then)](const absl::Status& linked) {
    if (!linked.ok()) return then(linked, {});
    const auto rank = std::make_shared<OfRank>();
    rank->number = ++last_;
    rank->connection = connection;
    ranks_[rank->number] = rank;
    local::Request request;
    request.set_call(1);
    request.set_deadline_ms(DeadlineFor(patience));
    *request.mutable_open() = open;
    rank->asked[1] = [this, rank, then](const local::Reply& reply) {
      if (reply.status().code() != local::OK) LetGo(rank->number);
      then(absl::OkStatus(), reply);
    };
    peer::ToHome said;
    peer::FromRank& first = *said.mutable_from_rank();
    first.set_session(rank->number);
    *first.mutable_request() = std::move(request);
    const Connection::Peer peer = connection->peer();
    first.mutable_client()->set_host(peer.host);
    first.mutable_client()->set_pid(peer.pid);
    first.mutable_client()->set_program(peer.program);
    Send(std::move(said));
  });
}

void Home::Admitted(const SessionPtr& session) {
  for (const auto& [number, rank] : ranks_) {
    if (rank->session || rank->connection != session->connection) continue;
    rank->session = session;
    by_session_[session->id] = rank;
    return;
  }
}

void Home::Forget(const Connection& connection) {
  for (const auto& [number, rank] : ranks_) {
    if (!rank->session && rank->connection.get() == &connection) return LetGo(number);
  }
}

void Home::LetGo(std::uint64_t number) {
  ranks_.erase(number);
  peer::ToHome said;
  said.mutable_rank_gone()->set_session(number);
  Send(std::move(said));
}

void Home::SessionEnded(const Session& session) {
  const auto rank = by_session_.extract(session.id);
  if (!rank) return;
  LetGo(rank.mapped()->number);
  local::Reply ended;
  ended.mutable_status()->set_code(local::FENCED);
  ended.mutable_status()->set_message("the session ended while it asked");
  for (const auto& [call, answered] : std::exchange(rank.mapped()->asked, {})) answered(ended);
}

void Home::Closed(const Session& session) {
  const auto rank = by_session_.extract(session.id);
  if (!rank) return;
  // The home lets go of it when it has answered; what is asked last is that.
  const OfRankPtr of = rank.mapped();
  if (of->asked.empty()) {
    ranks_.erase(of->number);
    return;
  }
  auto& [call, answered] = *of->asked.rbegin();
  answered = [this, number = of->number, answered = std::move(answered)](const local::Reply& reply) {
    answered(reply);
    LetGo(number);
  };
}

// --- What ranks ask ---

void Home::SendRequest(OfRank& rank, const Call* call, local::Request request, When when, Answered answered) {
  if (const std::size_t bytes = request.ByteSizeLong(); bytes > frames::kCarriedBytesMax) {
    if (!answered) return;
    return answered(Refusal(ResourceExhausted("the request has {} bytes, at most {} can go to the launch's home", bytes,
                                              frames::kCarriedBytesMax)));
  }
  if (call != nullptr) {
    request.set_deadline_ms(DeadlineFor(call->deadline()));
    rank.asked[request.call()] = std::move(answered);
  }
  peer::ToHome said;
  said.mutable_from_rank()->set_session(rank.number);
  *said.mutable_from_rank()->mutable_request() = std::move(request);
  Send(std::move(said), when);
}

void Home::Relay(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request) {
  Ask(session, call, request, [call](const local::Reply& reply) { call->Reply(reply); });
}

void Home::Ask(const SessionPtr& session, const std::shared_ptr<Call>& call, local::Request request, Answered then) {
  AskWhatever(session, call, std::move(request), [call, then = std::move(then)](const local::Reply& reply) {
    reply.status().code() == local::OK ? then(reply) : call->Reply(reply);
  });
}

void Home::AskWhatever(const SessionPtr& session, const std::shared_ptr<Call>& call, local::Request request,
                       Answered then) {
  const auto known = by_session_.find(session->id);
  if (known == by_session_.end()) return then(Refusal(Unavailable("the launch's home is not reached")));
  OfRank& rank = *known->second;
  call->WaitingFor(fmt::format("the answer of the launch's home, node {},", maker_.substr(0, 8)));
  std::erase_if(rank.calls, [](const auto& item) { return item.second.expired(); });
  rank.calls[request.call()] = call;
  SendRequest(rank, call.get(), std::move(request), When::kNow,
              [call, then = std::move(then)](const local::Reply& reply) {
                if (!call->answered()) then(reply);
              });
}

void Home::Tell(const SessionPtr& session, const Call& call, local::Request request, When when, Answered then) {
  const auto known = by_session_.find(session->id);
  if (known == by_session_.end()) return then(Refusal(Unavailable("the launch's home is not reached")));
  SendRequest(*known->second, &call, std::move(request), when, std::move(then));
}

void Home::Say(const Session& session, const local::Request& request) {
  const auto known = by_session_.find(session.id);
  if (known != by_session_.end()) SendRequest(*known->second, nullptr, request, When::kNow, nullptr);
}

void Home::Captured(const Session& session) {
  const auto known = by_session_.find(session.id);
  if (known == by_session_.end()) return;
  local::Request request;
  request.mutable_commit();
  SendRequest(*known->second, nullptr, request, When::kAfterCopies, nullptr);
}

// --- What happens to parts that are here ---

void Home::Stored(const Dataset& dataset, Rank rank) {
  if (const std::size_t bytes = dataset.parts[rank].catalogue.ByteSizeLong(); bytes > frames::kCarriedBytesMax) {
    given_.ledger.Fail(
        dataset.id, fmt::format("rank {}: its catalogue of {} bytes is too long for the launch's home", rank, bytes));
    return;
  }
  peer::ToHome said;
  *said.mutable_stored()->mutable_catalogue() = dataset.parts[rank].catalogue;
  Send(std::move(said));
}

void Home::Failed(const Dataset& dataset, const std::string& why) {
  if (dataset.id == failing_ || dataset.launch != launch_) return;
  peer::ToHome said;
  said.mutable_failed()->set_dataset(dataset.id);
  said.mutable_failed()->set_why(why);
  Send(std::move(said));
}

void Home::Left(const Dataset& dataset, bool damaged, const std::string& why, const std::string& ranks) {
  peer::ToHome said;
  said.mutable_left()->set_dataset(dataset.id);
  said.mutable_left()->set_damaged(damaged);
  said.mutable_left()->set_why(why);
  said.mutable_left()->set_ranks(ranks);
  Send(std::move(said));
}

}  // namespace cairn
