#include "daemon/door/local_connection.h"

#include <absl/synchronization/mutex.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <boost/asio/post.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "daemon/door/socket_path.h"
#include "proto/frame.h"
#include "storage/base/descriptor_message.h"
#include "storage/base/unique_fd.h"

namespace cairn {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kReadBytes = 64 << 10;

}  // namespace

LocalConnection::LocalConnection(std::shared_ptr<asio::io_context> io, Socket socket, Peer peer,
                                 std::shared_ptr<const LocalDoor::Options> options, Receiver& receiver, OnGone on_gone)
    : io_(std::move(io)),
      peer_(std::move(peer)),
      options_(std::move(options)),
      receiver_(receiver),
      on_gone_(std::move(on_gone)),
      in_flight_(options_->in_flight_max, [this] { ResumeReading(); }),
      socket_(std::move(socket)),
      process_(*io_),
      timer_(*io_),
      parser_(kRequestBytesMax) {}

void LocalConnection::Start() {
  StartTimer(options_->hello_ms, "said no Hello in time");
  WatchProcess();
  WaitReadable();
}

// A child that it has forked keeps the socket open, and is no rank.
void LocalConnection::WatchProcess() {
  UniqueFd process = WatchPeer(socket_.native_handle(), static_cast<pid_t>(peer_.pid));
  if (!process.valid()) return;
  process_.assign(process.Release());
  process_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](const ErrorCode& error) {
    if (error || self->dropped_) return;
    self->orphaned_ = true;
    if (self->reading_) self->WaitReadable();
  });
}

void LocalConnection::Refuse(local::Code code, std::string_view why) {
  reading_ = false;
  Reject(0, code, why);
}

void LocalConnection::Reject(std::uint64_t call, local::Code code, std::string_view why) {
  spdlog::warn("client {} (pid {}): {}", Printable(peer_.program), peer_.pid, why);
  Send(ErrorReply(call, code, why), nullptr);
  Close();
}

void LocalConnection::StartTimer(std::uint32_t ms, std::string_view why) {
  timer_.expires_after(std::chrono::milliseconds(ms));
  timer_.async_wait([self = shared_from_this(), why](const ErrorCode& error) {
    if (!error) self->Drop(why, Blame::kClient);
  });
}

// --- What comes in: on the thread ---

void LocalConnection::WaitReadable() {
  const auto read = [self = shared_from_this()](const ErrorCode& error) {
    if (self->dropped_ || !self->reading_) return;
    if (error) return self->Drop(error.message());
    try {
      self->Read();
    } catch (const std::exception& e) {
      self->Drop(e.what());
    }
  };
  if (orphaned_) return asio::post(*io_, [read] { read({}); });
  socket_.async_wait(Socket::wait_read, read);
}

void LocalConnection::Read() {
  std::array<char, kReadBytes> buffer;  // none is kept: thousands of connections may be idle
  const ssize_t got = recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got == 0) return Drop("hung up");
  if (got < 0) {
    if (errno != EAGAIN && errno != EINTR) return Drop(std::strerror(errno));
    if (errno == EAGAIN && orphaned_) return Drop("its process has ended");
    return WaitReadable();
  }
  const absl::Status status = parser_.Feed({buffer.data(), static_cast<std::size_t>(got)},
                                           [this](std::string_view message) { return Take(message); });
  if (!status.ok()) {
    reading_ = false;
    const auto code = absl::IsResourceExhausted(status) ? local::RESOURCE_EXHAUSTED : local::INVALID_ARGUMENT;
    return Reject(0, code, {status.message().data(), status.message().size()});
  }
  if (!reading_) return;
  if (in_flight_.Full()) {
    reading_ = false;  // on_room is posted, so it finds this
    return;
  }
  WaitReadable();
}

void LocalConnection::ResumeReading() {
  const absl::MutexLock lock(&mutex_);
  if (closed_) return;  // the thread may be gone
  asio::post(*io_, [self = shared_from_this()] {
    if (self->dropped_ || self->reading_) return;
    self->reading_ = true;
    self->WaitReadable();
  });
}

bool LocalConnection::Take(std::string_view message) {
  auto request = std::make_unique<local::Request>();
  if (!request->ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    reading_ = false;
    Reject(0, local::INVALID_ARGUMENT, "a frame that holds no request (all text in it must be UTF-8)");
    return false;
  }
  if (!greeted_) return TakeFirst(*request);
  if (request->has_hello()) {
    reading_ = false;
    Reject(request->call(), local::FAILED_PRECONDITION, "a second Hello");
    return false;
  }
  std::shared_ptr<Connection> self = shared_from_this();
  if (InFlight::Counts(*request)) self = in_flight_.Lease(std::move(self), 1);
  receiver_.Receive(self, std::move(request));
  return true;
}

bool LocalConnection::TakeFirst(const local::Request& request) {
  const Handshake handshake = AnswerFirst(request, options_->identity);
  if (!handshake.accepted) {
    reading_ = false;
    Reject(request.call(), handshake.reply.status().code(), handshake.reply.status().message());
    return false;
  }
  timer_.cancel();
  greeted_ = true;
  spdlog::debug("client {} (pid {}): connected with {}", Printable(peer_.program), peer_.pid,
                Printable(request.hello().client()));
  receiver_.Attach(shared_from_this());
  Send(handshake.reply, nullptr);
  return true;
}

// --- What goes out: any thread ---

void LocalConnection::Send(const local::Reply& reply, SharedFd descriptor) {
  Frame frame;
  if (reply.ByteSizeLong() <= CAIRN_FRAME_BYTES_MAX) {
    frame = {.bytes = EncodeFrame(reply), .descriptor = std::move(descriptor)};
  } else {
    frame.bytes =
        EncodeFrame(ErrorReply(reply.call(), local::RESOURCE_EXHAUSTED, "the answer is too large to be sent"));
  }
  const absl::MutexLock lock(&mutex_);
  if (closing_ || closed_) return;
  queue_bytes_ += frame.bytes.size();
  queue_.push_back(std::move(frame));
  if (!waiting_) SendQueued();
  if (queue_.size() > options_->queue_frames_max || queue_bytes_ > options_->queue_bytes_max) {
    closing_ = true;
    PostDrop("left too many replies unread", Blame::kClient);
  }
}

void LocalConnection::Close() {
  const absl::MutexLock lock(&mutex_);
  if (closing_ || closed_) return;
  closing_ = true;
  if (queue_.empty()) return PostDrop("as agreed");
  asio::post(*io_, [self = shared_from_this()] {
    if (!self->dropped_) self->StartTimer(self->options_->drain_ms, "did not read what was left for it");
  });
}

void LocalConnection::SendQueued() {
  while (!queue_.empty()) {
    Frame& frame = queue_.front();
    const std::string_view rest = std::string_view(frame.bytes).substr(frame.sent);
    const int fd = frame.descriptor != nullptr && frame.sent == 0 ? frame.descriptor->get() : -1;
    const ssize_t sent = SendWithDescriptor(socket_.native_handle(), rest, fd);
    if (sent < 0) {
      if (errno != EAGAIN) {
        closing_ = true;
        return PostDrop(std::strerror(errno));
      }
      waiting_ = true;
      return asio::post(*io_, [self = shared_from_this()] { self->WaitWritable(); });
    }
    frame.sent += static_cast<std::size_t>(sent);
    queue_bytes_ -= static_cast<std::size_t>(sent);
    if (frame.sent == frame.bytes.size()) queue_.pop_front();
  }
  if (closing_) PostDrop("as agreed");
}

void LocalConnection::WaitWritable() {
  if (dropped_) return;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const ErrorCode& error) {
    if (self->dropped_) return;
    if (error) return self->Drop(error.message());
    const absl::MutexLock lock(&self->mutex_);
    self->waiting_ = false;
    self->SendQueued();
  });
}

void LocalConnection::PostDrop(std::string_view why, Blame blame) {
  asio::post(*io_, [self = shared_from_this(), why = std::string(why), blame] { self->Drop(why, blame); });
}

void LocalConnection::Drop(std::string_view why, Blame blame) {
  if (std::exchange(dropped_, true)) return;
  const auto self = shared_from_this();  // on_gone lets go of us
  spdlog::log(blame == Blame::kClient ? spdlog::level::warn : spdlog::level::debug, "client {} (pid {}): closed: {}",
              Printable(peer_.program), peer_.pid, why);
  {
    const absl::MutexLock lock(&mutex_);
    closed_ = true;
    queue_.clear();
    ErrorCode ignored;  // nothing is left to do about it
    socket_.close(ignored);
  }
  timer_.cancel();
  ErrorCode ignored;
  process_.close(ignored);
  if (greeted_) receiver_.Detach(self);
  on_gone_(this);
}

}  // namespace cairn
