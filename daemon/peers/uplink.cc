#include "daemon/peers/uplink.h"

#include <algorithm>
#include <utility>

#include "storage/base/status.h"

namespace cairn {

Uplink::~Uplink() {
  if (attempt_ != nullptr && attempt_->timer != 0) given_.loop.Cancel(attempt_->timer);
}

void Uplink::Try(const std::string& address) {
  if (idle()) Begin(address, 0);
}

void Uplink::Begin(const std::string& address, std::size_t hops) {
  attempt_ = std::make_shared<Attempt>();
  attempt_->address = address;
  attempt_->hops = hops;
  given_.net.Dial(given_.run, address, given_.deadline,
                  [this, weak = std::weak_ptr<Attempt>(attempt_)](absl::StatusOr<std::unique_ptr<PeerLink>> link) {
                    if (!weak.expired()) Dialled(std::move(link));
                  });
}

void Uplink::Dialled(absl::StatusOr<std::unique_ptr<PeerLink>> link) {
  if (!link.ok()) return Fail({.status = Annotate(link.status(), attempt_->address)});
  const PeerIdentity& peer = (*link)->peer();
  if (peer.run != given_.run || peer.node == given_.self) {
    return Fail({.status = InvalidArgument("{}: there is {}", attempt_->address,
                                           peer.run != given_.run ? "another run" : "this very daemon")});
  }
  attempt_->link = *std::move(link);
  attempt_->peer = peer.node;
  attempt_->incarnation = peer.incarnation;
  attempt_->heard = given_.clocks.steady();
  const std::weak_ptr<Attempt> weak = attempt_;
  attempt_->link->Start({.on_frame =
                             [this, weak](const peer::Frame& frame) {
                               if (!weak.expired()) OnFrame(frame);
                             },
                         .on_closed =
                             [this, weak](const absl::Status& why) {
                               if (!weak.expired()) Fail({.status = Annotate(why, attempt_->address)});
                             }});
  attempt_->timer = given_.loop.After(given_.deadline, [this] {
    attempt_->timer = 0;
    Fail({.status = DeadlineExceeded("{}: no answer to a Join", attempt_->address)});
  });
  for (peer::Frame& frame : reports_.join()) attempt_->link->Send(std::move(frame));
}

void Uplink::Send(const std::vector<peer::Frame>& frames) {
  if (attempt_ == nullptr || attempt_->link == nullptr) return;
  for (const peer::Frame& frame : frames) attempt_->link->Send(frame);
}

void Uplink::Beat(std::uint32_t height) {
  if (!attached()) return;
  if (given_.clocks.steady() >= attempt_->heard + given_.silence) {
    return Fail({.status = DeadlineExceeded("{}: silent", attempt_->address)});
  }
  peer::Frame frame;
  frame.mutable_pulse()->set_height(height);
  attempt_->link->Send(std::move(frame));
}

void Uplink::Leave(const std::vector<peer::Frame>& last) {
  Send(last);
  Drop();
}

// The link may be the one whose callback this is.
void Uplink::Drop() {
  if (attempt_ == nullptr) return;
  if (attempt_->timer != 0) given_.loop.Cancel(attempt_->timer);
  if (attempt_->link != nullptr) {
    given_.loop.Post([link = std::shared_ptr<PeerLink>(std::move(attempt_->link))] {});
  }
  attempt_.reset();
}

void Uplink::Fail(End end) {
  end.was_attached = attached();
  Drop();
  reports_.on_end(end);
}

void Uplink::Refuse(const absl::Status& status) {
  Send({frames::Elsewhere(peer::Elsewhere::INVALID, MessageOf(status), {})});
  Fail({.status = Annotate(status, attempt_->address)});
}

// --- What comes ---

void Uplink::OnFrame(const peer::Frame& frame) {
  attempt_->heard = given_.clocks.steady();
  switch (frame.body_case()) {
    case peer::Frame::kWelcome:
      if (attached()) return Refuse(InvalidArgument("welcome: a second one"));
      return OnPlace(frame.welcome().place(), /*welcome=*/true);
    case peer::Frame::kPulse:
      if (!attached()) return Refuse(InvalidArgument("pulse: before welcome"));
      return OnPlace(frame.pulse().place(), /*welcome=*/false);
    case peer::Frame::kTable:
      if (!attached()) return Refuse(InvalidArgument("table: before welcome"));
      return OnTable(frame.table());
    case peer::Frame::kElsewhere:
      return OnElsewhere(frame.elsewhere());
    default:
      return Refuse(InvalidArgument("frame: {} is not for a child", static_cast<int>(frame.body_case())));
  }
}

// What the sender says is of an epoch that is over. It is told of the newer one.
void Uplink::Stale(std::uint64_t epoch) {
  const CoordinatorName known = reports_.coordinator();
  Send({frames::Elsewhere(peer::Elsewhere::NEWER, fmt::format("epoch {} is over", epoch), known)});
  Fail({.status = FailedPrecondition("{}: epoch {}, but {} is known", attempt_->address, epoch, known.epoch)});
}

void Uplink::OnPlace(const peer::Place& message, bool welcome) {
  auto place = frames::ToPlace(message, welcome ? "welcome.place" : "pulse.place");
  if (!place.ok()) return Refuse(place.status());
  const std::uint64_t epoch = place->coordinator.epoch, known = reports_.coordinator().epoch;
  if (epoch < known) return Stale(epoch);
  if (epoch > known + frames::kEpochAheadMax) {
    return Refuse(InvalidArgument("place.coordinator.epoch: {}, far above {}", epoch, known));
  }
  if (welcome && !place->attached) return Refuse(InvalidArgument("welcome.place.attached: false"));
  place->path.push_back(attempt_->peer);
  if (std::ranges::find(place->path, given_.self) != place->path.end() || place->path.size() > given_.depth_max) {
    return Fail({.status = Unavailable("{}: below itself, or too deep", attempt_->address)});
  }
  if (welcome) {
    attempt_->welcome = true;
    given_.loop.Cancel(std::exchange(attempt_->timer, 0));
  } else if (*place == place_) {
    return;
  }
  place_ = *std::move(place);
  reports_.on_place();
}

void Uplink::OnTable(const peer::Table& message) {
  const auto part = frames::ToTable(message);
  if (!part.ok()) return Refuse(part.status());
  // A place of that epoch comes before the first table.
  if (part->epoch < place_.coordinator.epoch) return Stale(part->epoch);
  if (part->epoch > place_.coordinator.epoch) {
    return Refuse(InvalidArgument("table.epoch: {}, the sender's place has {}", part->epoch, place_.coordinator.epoch));
  }
  reports_.on_table(*part);
}

void Uplink::OnElsewhere(const peer::Elsewhere& message) {
  if (const absl::Status valid = frames::Check(message); !valid.ok()) return Refuse(valid);
  const auto coordinator = frames::ToCoordinator(message.coordinator(), "elsewhere.coordinator");
  if (!coordinator.ok()) return Refuse(coordinator.status());
  const std::size_t hops = attached() ? 0 : attempt_->hops + 1;
  const bool sent_on = message.why() == peer::Elsewhere::FULL || message.why() == peer::Elsewhere::TOO_DEEP;
  if (sent_on && !message.address().empty() && hops <= given_.depth_max + 2) {
    const bool was_attached = attached();
    Drop();
    if (message.why() == peer::Elsewhere::TOO_DEEP) reports_.let_go_below();
    Begin(message.address(), hops);
    if (was_attached) reports_.on_place();
    return;
  }
  End end{.status =
              Unavailable("{}: {} ({})", attempt_->address, peer::Elsewhere::Why_Name(message.why()), message.text())};
  const std::uint64_t known = reports_.coordinator().epoch;
  if (coordinator->epoch > known && coordinator->epoch <= known + frames::kEpochAheadMax) end.newer = *coordinator;
  if (message.why() == peer::Elsewhere::STOPS) {
    end.left = GoneMember{.node = attempt_->peer, .incarnation = attempt_->incarnation, .why = GoneWhy::kLeft};
  }
  Fail(std::move(end));
}

}  // namespace cairn
