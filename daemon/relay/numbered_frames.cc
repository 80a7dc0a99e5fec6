#include "daemon/relay/numbered_frames.h"

#include <algorithm>
#include <utility>

namespace cairn {

void NumberedFrames::Put(peer::Carried carried) {
  carried.set_number(++last_);
  const std::size_t bytes = carried.ByteSizeLong();
  bytes_ += bytes;
  kept_.push_back({.carried = std::move(carried), .bytes = bytes});
}

std::optional<peer::Carried> NumberedFrames::Next() {
  if (sent_ == kept_.size()) return std::nullopt;
  const Kept& next = kept_[sent_];
  // Who waits here is told: the other end has got more than that after which it says so by itself.
  if (sent_bytes_ >= kTellBytes && sent_bytes_ + next.bytes > kWindowBytes) return std::nullopt;
  ++sent_;
  sent_bytes_ += next.bytes;
  last_sent_ = std::max(last_sent_, next.carried.number());
  return next.carried;
}

std::deque<peer::Carried> NumberedFrames::Rest() {
  std::deque<peer::Carried> rest;
  for (; sent_ < kept_.size(); ++sent_) rest.push_back(kept_[sent_].carried);
  return rest;
}

NumberedFrames::Came NumberedFrames::Take(const peer::Carried& carried) {
  if (carried.heard() > last_sent_) return Came::kWrong;
  while (!kept_.empty() && kept_.front().carried.number() <= carried.heard()) {
    const std::size_t bytes = kept_.front().bytes;
    bytes_ -= bytes;
    if (sent_ > 0) {
      --sent_;
      sent_bytes_ -= bytes;
    }
    kept_.pop_front();
  }
  if (carried.number() <= heard_) return Came::kKnown;
  if (carried.number() != heard_ + 1) return Came::kWrong;
  ++heard_;
  owed_bytes_ += carried.ByteSizeLong();
  return Came::kNew;
}

}  // namespace cairn
