#include "daemon/door/peer_link.h"

#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// Of a queued frame in memory: small ones cost more than what they carry.
std::uint64_t CostOf(const peer::Frame& frame) {
  return sizeof(peer::Frame) + frame.ByteSizeLong();
}

}  // namespace

class LinkEnd::Owned final : public PeerLink {
 public:
  explicit Owned(std::shared_ptr<LinkEnd> end) : end_(std::move(end)) {}
  ~Owned() override { end_->Abandon(); }

  const PeerIdentity& peer() const override { return end_->plan_.peer; }
  void Start(Reports reports) override { end_->Start(std::move(reports)); }
  void Send(peer::Frame frame) override { end_->Send(std::move(frame)); }

 private:
  const std::shared_ptr<LinkEnd> end_;
};

std::unique_ptr<PeerLink> LinkEnd::Own(std::shared_ptr<LinkEnd> end) {
  return std::make_unique<Owned>(std::move(end));
}

// --- The strand's side ---

void LinkEnd::Start(PeerLink::Reports reports) {
  CAIRN_CHECK(reports_ == nullptr);
  reports_ = std::make_shared<const PeerLink::Reports>(std::move(reports));
  plan_.strand->Post([self = shared_from_this()] {
    if (self->kept_) self->Arrived(*std::exchange(self->kept_, std::nullopt));
    if (self->ended_) self->Ended(*std::exchange(self->ended_, std::nullopt));
  });
}

void LinkEnd::Arrived(peer::Frame frame) {
  if (!abandoned_ && reports_ == nullptr) {
    kept_ = std::move(frame);
    return;  // the next is read once the owner takes them
  }
  // The owner may let go of the link in there.
  if (!abandoned_) std::shared_ptr(reports_)->on_frame(std::move(frame));
  ReadNext();
}

void LinkEnd::Ended(const absl::Status& why) {
  if (abandoned_) return;
  if (reports_ == nullptr) {
    ended_ = why;
    return;
  }
  std::shared_ptr(reports_)->on_closed(why);
}

void LinkEnd::Send(peer::Frame frame) {
  const std::uint64_t bytes = frame.ByteSizeLong();
  if (bytes > plan_.frame_bytes_max) {
    return CutOff(ResourceExhausted("a frame of {} bytes for node {}, a link takes {}", bytes, plan_.peer.node,
                                    plan_.frame_bytes_max));
  }
  {
    const absl::MutexLock lock(&mutex_);
    if (closing_) return;
    queue_bytes_ += CostOf(frame);
    queue_.push_back(std::move(frame));
    WriteNext();
    if (queue_bytes_ <= plan_.queue_bytes_max) return;
  }
  CutOff(ResourceExhausted("node {} has left more than {} bytes unread", plan_.peer.node, plan_.queue_bytes_max));
}

void LinkEnd::Abandon() {
  abandoned_ = true;
  const bool paused = std::exchange(kept_, std::nullopt).has_value();
  {
    const absl::MutexLock lock(&mutex_);
    closing_ = true;
    discards_ = true;
    if (paused) ReadNextLocked();
    EndIfWritten();
  }
  plan_.end_within(plan_.drain);
}

void LinkEnd::CutOff(absl::Status why) {
  {
    const absl::MutexLock lock(&mutex_);
    if (why_.ok()) why_ = std::move(why);
    closing_ = true;
    DropUnwritten();
    // What gRPC is writing may wait for a peer that does not read: it ends by cancelling.
    if (stream_ != nullptr) stream_->Cancel();
    EndIfWritten();
  }
  plan_.end_within(std::chrono::milliseconds(0));
}

// --- gRPC's side ---

void LinkEnd::Begin(Stream* stream) {
  const absl::MutexLock lock(&mutex_);
  stream_ = stream;
  ReadNextLocked();
  // The owner may have been there first.
  WriteNext();
  EndIfWritten();
}

void LinkEnd::ReadNext() {
  const absl::MutexLock lock(&mutex_);
  ReadNextLocked();
}

void LinkEnd::ReadNextLocked() {
  if (stream_ == nullptr || read_ended_) return;
  incoming_.Clear();
  stream_->Read(&incoming_);
}

void LinkEnd::ReadDone(bool ok) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!ok) {
      read_ended_ = true;
      closing_ = true;  // who has ended the stream takes nothing any more
      DropUnwritten();
      EndIfWritten();
      if (stream_ != nullptr) stream_->EndReading();
      return;
    }
    if (discards_) return ReadNextLocked();
  }
  auto frame = std::make_shared<peer::Frame>(std::move(incoming_));
  const bool posted = plan_.strand->Post([self = shared_from_this(), frame] { self->Arrived(std::move(*frame)); });
  if (posted) return;
  const absl::MutexLock lock(&mutex_);  // the strand is gone, and the owner with it
  discards_ = true;
  ReadNextLocked();
}

void LinkEnd::WriteNext() {
  if (stream_ == nullptr || writing_ || write_ended_ || queue_.empty()) return;
  writing_ = true;
  stream_->Write(&queue_.front());
}

void LinkEnd::WriteDone(bool ok) {
  const absl::MutexLock lock(&mutex_);
  writing_ = false;
  queue_bytes_ -= CostOf(queue_.front());
  queue_.pop_front();
  if (!ok) {
    closing_ = true;
    DropUnwritten();
  }
  WriteNext();
  EndIfWritten();
}

void LinkEnd::DropUnwritten() {
  while (queue_.size() > (writing_ ? 1 : 0)) {
    queue_bytes_ -= CostOf(queue_.back());
    queue_.pop_back();
  }
}

void LinkEnd::EndIfWritten() {
  if (stream_ == nullptr || !closing_ || writing_ || !queue_.empty() || std::exchange(write_ended_, true)) return;
  if (!stream_->EndWriting()) read_ended_ = true;
}

void LinkEnd::Broken() {
  const absl::MutexLock lock(&mutex_);
  closing_ = true;
  DropUnwritten();
  EndIfWritten();
}

void LinkEnd::Done(const absl::Status& why) {
  absl::Status told = why;
  {
    const absl::MutexLock lock(&mutex_);
    stream_ = nullptr;
    closing_ = true;
    if (!why_.ok()) told = why_;
  }
  plan_.end_within(plan_.drain);
  plan_.strand->Post([self = shared_from_this(), told] { self->Ended(told); });
}

}  // namespace cairn
