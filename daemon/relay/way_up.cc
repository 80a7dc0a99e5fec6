#include "daemon/relay/way_up.h"

#include <algorithm>
#include <utility>

#include "daemon/peers/frames.h"
#include "storage/base/status.h"

namespace cairn {

WayUp::WayUp(Given given, Reports reports) : given_(std::move(given)), reports_(std::move(reports)) {}

WayUp::~WayUp() {
  for (const Loop::TimerId timer : {timer_, patience_}) {
    if (timer != 0) given_.loop.Cancel(timer);
  }
}

void WayUp::Seek(const std::string& address) {
  if (attached_) return;
  address_ = address;
  if (patience_ != 0) given_.loop.Cancel(patience_);
  patience_ = given_.loop.After(given_.settings.patience, [this] {
    patience_ = 0;
    AttemptFailed(DeadlineExceeded("no way to it within {} ms ({})", given_.settings.patience.count(),
                                   why_.ok() ? "no answer" : MessageOf(why_)),
                  /*for_good=*/true);
  });
  asked_once_ = attempt_ == nullptr && timer_ == 0;
  if (!asked_once_) return;
  pause_ = given_.settings.pause;
  Dial(address_, 0);
}

void WayUp::Send(peer::Carried carried, std::chrono::milliseconds gather) {
  if (attached_) hop_->Send(std::move(carried), gather);
}

void WayUp::IsMissing(const NodeId& node) {
  if (hop_ != nullptr && hop_->peer().node == node) Lost(Unavailable("its node is missing"));
}

// --- An attempt: where it is sent on to belongs to it ---

void WayUp::Dial(const std::string& address, std::size_t hops) {
  attempt_ = std::make_shared<int>(0);
  given_.net.Dial(
      given_.run, address, given_.settings.deadline,
      [this, address, hops, attempt = std::weak_ptr<int>(attempt_)](absl::StatusOr<std::unique_ptr<PeerLink>> link) {
        if (!attempt.expired()) Dialled(address, hops, std::move(link));
      });
}

void WayUp::Dialled(const std::string& address, std::size_t hops, absl::StatusOr<std::unique_ptr<PeerLink>> link) {
  // A home that is not there the first time is not waited for: whoever wants it is told why.
  const bool first = hops == 0 && number_ == 0 && asked_once_;
  if (!link.ok()) return AttemptFailed(link.status(), first && !absl::IsDeadlineExceeded(link.status()));
  const PeerIdentity& peer = (*link)->peer();
  if (peer.run != given_.run || peer.node == given_.self || (hops == 0) != (peer.node == given_.home)) {
    return AttemptFailed(Unavailable("{}: another node is there", address), first);
  }
  hop_ = std::make_unique<Hop>(
      given_.loop, *std::move(link),
      Hop::Reports{.on_carried =
                       [this](const peer::Carried& carried) {
                         if (attached_) reports_.on_carried(carried);
                       },
                   .on_other = [this, address, hops](const peer::Frame& frame) { OnAnswer(address, hops, frame); },
                   .on_closed = [this](const absl::Status& why) { Lost(why); }});
  timer_ = given_.loop.After(given_.settings.deadline, [this, address] {
    timer_ = 0;
    AttemptFailed(DeadlineExceeded("{}: no answer to an Attach", address), false);
  });
  peer::Frame frame;
  frame.mutable_attach()->set_home(given_.home);
  frame.mutable_attach()->set_address(given_.net.address());
  hop_->SendAlone(std::move(frame));
}

void WayUp::OnAnswer(const std::string& address, std::size_t hops, const peer::Frame& frame) {
  if (frame.has_attached() && !attached_) {
    const absl::Status taken = TakeAnswer(frame.attached());
    if (!taken.ok()) return AttemptFailed(Annotate(taken, address), false);
    attempt_ = nullptr;
    for (Loop::TimerId* timer : {&timer_, &patience_}) {
      if (*timer != 0) given_.loop.Cancel(std::exchange(*timer, 0));
    }
    attached_ = true;
    number_ = ++given_.ways;
    why_ = absl::OkStatus();
    return reports_.on_attached();
  }
  if (!frame.has_elsewhere() || !frames::Check(frame.elsewhere()).ok()) {
    return Lost(InvalidArgument("frame: {} is not for who attaches", static_cast<int>(frame.body_case())));
  }
  const peer::Elsewhere& elsewhere = frame.elsewhere();
  if (!attached_ && elsewhere.why() == peer::Elsewhere::FULL && !elsewhere.address().empty() &&
      hops < given_.settings.depth_max) {
    Drop();
    return Dial(elsewhere.address(), hops + 1);
  }
  Lost(Unavailable("{}: {} ({})", address, peer::Elsewhere::Why_Name(elsewhere.why()), elsewhere.text()));
}

absl::Status WayUp::TakeAnswer(const peer::Attached& answer) {
  const auto length = static_cast<std::size_t>(answer.path_size());
  if (length == 0 || length > given_.settings.depth_max || answer.path(0) != given_.home ||
      answer.path(answer.path_size() - 1) != hop_->peer().node) {
    return InvalidArgument("attached.path: not from the home to the sender");
  }
  if (std::ranges::find(answer.path(), given_.self) != answer.path().end()) {
    return Unavailable("it would be below itself");
  }
  if (length == 1 && answer.incarnation() != hop_->peer().incarnation) {
    return InvalidArgument("attached.incarnation: not the sender's");
  }
  path_.assign(answer.path().begin(), answer.path().end());
  home_incarnation_ = answer.incarnation();
  return absl::OkStatus();
}

void WayUp::AttemptFailed(const absl::Status& why, bool for_good) {
  why_ = why;
  Drop();
  if (for_good) {
    if (patience_ != 0) given_.loop.Cancel(std::exchange(patience_, 0));
    return reports_.on_end(why);
  }
  timer_ = given_.loop.After(std::exchange(pause_, std::min(2 * pause_, given_.settings.pause_max)), [this] {
    timer_ = 0;
    Dial(address_, 0);
  });
}

void WayUp::Lost(const absl::Status& why) {
  if (!attached_) return AttemptFailed(why, false);
  why_ = why;
  Drop();
  const std::weak_ptr<int> alive = alive_;
  reports_.on_broken();
  if (!alive.expired()) Seek(address_);
}

void WayUp::Drop() {
  attempt_ = nullptr;
  attached_ = false;
  hop_ = nullptr;
  if (timer_ != 0) given_.loop.Cancel(std::exchange(timer_, 0));
}

}  // namespace cairn
