#include "daemon/relay/hop.h"

#include <utility>

#include "storage/base/status.h"

namespace cairn {

Hop::Hop(Loop& loop, std::unique_ptr<PeerLink> link, Reports reports)
    : loop_(loop), link_(std::move(link)), reports_(std::make_shared<const Reports>(std::move(reports))) {
  const std::weak_ptr<int> alive = alive_;
  link_->Start({.on_frame =
                    [this, alive](const peer::Frame& frame) {
                      if (!alive.expired() && !failed_) OnFrame(frame);
                    },
                .on_closed =
                    [this, alive](const absl::Status& why) {
                      if (alive.expired() || std::exchange(failed_, true)) return;
                      const auto reports = reports_;
                      reports->on_closed(why);
                    }});
}

// The link may be the one whose callback this is.
Hop::~Hop() {
  if (!failed_) {
    sent_taken_ = sent_;  // whatever is on the way: once more as much
    Flush();
  }
  loop_.Post([link = std::shared_ptr<PeerLink>(std::move(link_))] {});
}

void Hop::Fail(absl::Status why) {
  if (std::exchange(failed_, true)) return;
  loop_.Post([reports = reports_, alive = std::weak_ptr<int>(alive_), why = std::move(why)] {
    if (!alive.expired()) reports->on_closed(why);
  });
}

// --- What goes ---

void Hop::Send(peer::Carried carried, std::chrono::milliseconds gather) {
  if (failed_) return;
  waiting_bytes_ += carried.ByteSizeLong();
  waiting_.push_back(std::move(carried));
  if (waiting_bytes_ > kWaitingBytesMax) return Fail(ResourceExhausted("more than {} bytes wait", kWaitingBytesMax));
  FlushSoon(gather);
}

void Hop::FlushSoon(std::chrono::milliseconds gather) {
  if (std::exchange(flush_due_, true)) return;
  auto flush = [this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    flush_due_ = false;
    if (!failed_) Flush();
  };
  if (gather.count() == 0) return loop_.Post(std::move(flush));
  loop_.After(gather, std::move(flush));
}

void Hop::Flush() {
  for (bool tells = came_ - came_told_ >= kTellBytes;
       tells || (!waiting_.empty() && sent_ - sent_taken_ < kInFlightBytes); tells = false) {
    peer::Frame frame;
    peer::Carry& carry = *frame.mutable_carry();
    if (came_ > came_told_) carry.set_taken(came_told_ = came_);
    for (std::uint64_t bytes = 0; !waiting_.empty() && bytes < kFrameBytes;) {
      const std::uint64_t next = waiting_.front().ByteSizeLong();
      if (bytes > 0 && bytes + next > kFrameBytes) break;
      bytes += next;
      *carry.add_carried() = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= next;
    }
    sent_ += frame.ByteSizeLong();
    link_->Send(std::move(frame));
  }
}

// --- What comes ---

void Hop::OnFrame(const peer::Frame& frame) {
  if (frame.has_carry()) return OnCarry(frame.carry(), frame.ByteSizeLong());
  const auto reports = reports_;
  reports->on_other(frame);
}

void Hop::OnCarry(const peer::Carry& carry, std::uint64_t bytes) {
  if (carry.taken() > sent_ || (carry.taken() != 0 && carry.taken() < sent_taken_)) {
    return Fail(InvalidArgument("carry.taken: {}, {} were sent", carry.taken(), sent_));
  }
  came_ += bytes;
  if (carry.taken() > sent_taken_) {
    sent_taken_ = carry.taken();
    if (!waiting_.empty()) FlushSoon({});
  }
  if (came_ - came_told_ >= kTellBytes) FlushSoon({});
  const auto reports = reports_;
  const std::weak_ptr<int> alive = alive_;
  for (const peer::Carried& carried : carry.carried()) {
    reports->on_carried(carried);
    if (alive.expired() || failed_) return;
  }
}

}  // namespace cairn
