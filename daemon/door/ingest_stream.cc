#include "daemon/door/ingest_stream.h"

#include <absl/synchronization/mutex.h>
#include <grpcpp/server_context.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "proto/frame.h"

namespace cairn {
namespace {

std::chrono::system_clock::time_point In(std::uint32_t ms) {
  return std::chrono::system_clock::now() + std::chrono::milliseconds(ms);
}

// Of a queued reply in memory: small ones cost more than what they carry.
std::uint64_t CostOf(const local::Reply& reply) {
  return sizeof(local::Reply) + sizeof(local::Piece) + reply.ByteSizeLong();
}

}  // namespace

std::shared_ptr<IngestStream> IngestStream::Begin(std::shared_ptr<IngestStreams> streams, Receiver& receiver,
                                                  grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<IngestStream>(std::move(streams), receiver, context);
  stream->self_ = stream;
  {
    const absl::MutexLock lock(&stream->streams_->mutex);
    stream->streams_->live.emplace(stream.get(), stream);
  }
  stream->hello_alarm_.Set(In(stream->streams_->options.hello_ms), [weak = std::weak_ptr(stream)](bool expired) {
    const auto self = weak.lock();
    if (expired && self != nullptr) self->Cut(grpc::StatusCode::DEADLINE_EXCEEDED, "no Hello in time");
  });
  const absl::MutexLock lock(&stream->mutex_);
  stream->StartSendInitialMetadata();  // the client learns that it is connected
  stream->ReadNext();
  return stream;
}

IngestStream::IngestStream(std::shared_ptr<IngestStreams> streams, Receiver& receiver,
                           grpc::CallbackServerContext* context)
    : streams_(std::move(streams)),
      receiver_(receiver),
      address_(context->peer()),
      in_flight_(streams_->options.in_flight_bytes_max, [this] { Resume(); }),
      context_(context) {}

Connection::Peer IngestStream::peer() const {
  const absl::MutexLock lock(&mutex_);
  return peer_;
}

// --- What comes in ---

void IngestStream::OnReadDone(bool ok) {
  std::unique_ptr<local::Request> request = std::move(incoming_);
  if (ok) {
    try {
      Take(std::move(request));
    } catch (const std::exception& e) {
      Cut(grpc::StatusCode::INTERNAL, e.what());
    }
  }
  const absl::MutexLock lock(&mutex_);
  if (ok) return ReadNext();
  // The client has ended its half, or the stream broke (then OnCancel comes, too).
  BeginClose();
}

void IngestStream::ReadNext() {
  if (closing_) return FinishIfDrained();
  if (in_flight_.Full()) {
    paused_ = true;
    return;
  }
  incoming_ = std::make_unique<local::Request>();
  StartRead(incoming_.get());
}

void IngestStream::Resume() {
  const absl::MutexLock lock(&mutex_);
  if (std::exchange(paused_, false)) ReadNext();
}

void IngestStream::Take(std::unique_ptr<local::Request> request) {
  if (!greeted_) return TakeFirst(*request);
  if (request->has_hello()) return Reject(request->call(), local::FAILED_PRECONDITION, "a second Hello");
  std::shared_ptr<Connection> self = shared_from_this();
  if (InFlight::Counts(*request)) {
    // The object itself counts, too: a flood of empty pieces takes memory as well.
    const std::uint64_t bytes = sizeof(local::Request) + request->piece().data().size();
    self = in_flight_.Lease(std::move(self), bytes);
  }
  receiver_.Receive(self, std::move(request));
}

void IngestStream::TakeFirst(const local::Request& request) {
  const Handshake handshake = AnswerFirst(request, streams_->options.identity);
  if (!handshake.accepted) {
    return Reject(request.call(), handshake.reply.status().code(), handshake.reply.status().message());
  }
  hello_alarm_.Cancel();
  const Peer peer{.host = Printable(request.hello().host(), 255),
                  .pid = request.hello().pid(),
                  .program = Printable(request.hello().program())};
  {
    const absl::MutexLock lock(&mutex_);
    peer_ = peer;
  }
  greeted_ = true;
  spdlog::debug("client {} (pid {} on {}, from {}): connected with {}", peer.program, peer.pid, peer.host, address_,
                Printable(request.hello().client()));
  receiver_.Attach(shared_from_this());
  Send(handshake.reply, nullptr);
}

void IngestStream::Reject(std::uint64_t call, local::Code code, std::string_view why) {
  spdlog::warn("client at {}: {}", address_, why);
  Send(ErrorReply(call, code, why), nullptr);
  Close();
}

// --- What goes out ---

void IngestStream::Send(const local::Reply& reply, SharedFd) {
  local::Reply copy = reply;
  if (copy.ByteSizeLong() > CAIRN_FRAME_BYTES_MAX) {
    copy = ErrorReply(reply.call(), local::RESOURCE_EXHAUSTED, "the answer is too large to be sent");
  }
  {
    const absl::MutexLock lock(&mutex_);
    if (closing_) return;
    queue_bytes_ += CostOf(copy);
    queue_.push_back(std::move(copy));
    WriteNext();
    if (queue_.size() <= streams_->options.queue_frames_max && queue_bytes_ <= streams_->options.queue_bytes_max) {
      return;
    }
  }
  Cut(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many replies were left unread");
}

void IngestStream::WriteNext() {
  if (writing_ || queue_.empty() || finished_) return;
  writing_ = true;
  StartWrite(&queue_.front());
}

void IngestStream::OnWriteDone(bool ok) {
  const absl::MutexLock lock(&mutex_);
  writing_ = false;
  queue_bytes_ -= CostOf(queue_.front());
  queue_.pop_front();
  if (!ok) {
    queue_.clear();
    queue_bytes_ = 0;
    closing_ = true;
  }
  WriteNext();
  FinishIfDrained();
}

// --- The end ---

void IngestStream::Close() {
  const absl::MutexLock lock(&mutex_);
  BeginClose();
}

void IngestStream::BeginClose() {
  if (!std::exchange(closing_, true) && (writing_ || !queue_.empty())) {
    drain_alarm_.Set(In(streams_->options.drain_ms), [weak = weak_from_this()](bool expired) {
      const auto self = weak.lock();
      if (expired && self != nullptr) {
        self->Cut(grpc::StatusCode::DEADLINE_EXCEEDED, "what was left for the client was not read");
      }
    });
  }
  FinishIfDrained();
}

void IngestStream::FinishIfDrained() {
  if (!closing_ || writing_ || !queue_.empty() || std::exchange(finished_, true)) return;
  Finish(status_);
}

// Now, whatever is queued.
void IngestStream::Cut(grpc::StatusCode code, std::string_view why) {
  spdlog::warn("client at {}: cut off: {}", address_, why);
  const absl::MutexLock lock(&mutex_);
  closing_ = true;
  status_ = grpc::Status(code, std::string(why));
  // What gRPC is writing may wait for a client that does not read: it ends by cancelling.
  queue_.resize(writing_ ? 1 : 0);
  if (writing_ && context_ != nullptr) context_->TryCancel();
  FinishIfDrained();
}

void IngestStream::OnCancel() {
  const absl::MutexLock lock(&mutex_);
  closing_ = true;
  queue_.resize(writing_ ? 1 : 0);
  FinishIfDrained();
}

void IngestStream::OnDone() {
  const std::shared_ptr<IngestStream> self = std::move(self_);
  {
    const absl::MutexLock lock(&mutex_);
    context_ = nullptr;
    closing_ = true;
  }
  hello_alarm_.Cancel();
  drain_alarm_.Cancel();
  if (greeted_) receiver_.Detach(self);
  const absl::MutexLock lock(&streams_->mutex);
  streams_->live.erase(this);
}

}  // namespace cairn
