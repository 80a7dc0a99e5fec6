#include "daemon/door/tls_pump.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <span>
#include <utility>
#include <vector>

#include "daemon/door/await.h"

namespace cairn {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kBlockBytes = 16 << 10;  // a record of TLS has no more

// Once our own gRPC has closed its end, the peer's has so long to close its own.
constexpr std::chrono::seconds kFarewell{2};

}  // namespace

TlsPump::TlsPump(asio::io_context& io, std::unique_ptr<TlsStream> far, Near near, std::function<void()> on_gone)
    : io_(io), far_(std::move(far)), near_(std::move(near)), begin_(io), end_(io), on_gone_(std::move(on_gone)) {
  end_.expires_at(asio::steady_timer::time_point::max());
}

void TlsPump::Start() {
  const auto way_ended = [self = shared_from_this()](const std::exception_ptr& thrown) {
    if (thrown != nullptr) self->Close();  // out of memory: this link's end, and no other's
    if (--self->ways_ == 0) {
      self->Close();
      self->on_gone_();
    }
  };
  asio::co_spawn(
      io_, [self = shared_from_this()] { return self->Outward(); }, way_ended);
  asio::co_spawn(
      io_, [self = shared_from_this()] { return self->Inward(); }, way_ended);
}

void TlsPump::EndWithin(std::chrono::milliseconds time) {
  const auto at = std::chrono::steady_clock::now() + time;
  if (at >= end_.expiry()) return;
  end_.expires_at(at);
  CloseWhenOver(end_);
}

void TlsPump::BeginWithin(std::chrono::milliseconds time) {
  begin_.expires_after(time);
  CloseWhenOver(begin_);
}

void TlsPump::CloseWhenOver(asio::steady_timer& timer) {
  timer.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr) self->Close();
  });
}

void TlsPump::Close() {
  begin_.cancel();
  end_.cancel();
  far_->Close();
  boost::system::error_code ignored;  // it is closed, whatever this says
  near_.close(ignored);
}

// What comes from the local socket is all written before its end is looked for.
asio::awaitable<void> TlsPump::Outward() {
  std::vector<char> block(kBlockBytes);
  for (;;) {
    const auto [error, bytes] = co_await near_.async_read_some(asio::buffer(block), kAwait);
    if (error) break;
    const auto write_error = co_await far_->Write(std::as_bytes(std::span(block)).first(bytes));
    if (write_error) co_return Close();
  }
  far_->EndWriting();
  EndWithin(kFarewell);
}

asio::awaitable<void> TlsPump::Inward() {
  std::vector<char> block(kBlockBytes);
  bool taken = true;
  for (;;) {
    const auto [error, bytes] = co_await far_->ReadSome(std::as_writable_bytes(std::span(block)));
    if (error) co_return Close();
    if (!taken) continue;
    const auto [write_error, written] = co_await asio::async_write(near_, asio::buffer(block.data(), bytes), kAwait);
    // Our gRPC is gone. What the peer still sends is read all the same: a socket that is closed with something unread
    // takes back what it has sent.
    if (write_error) taken = false;
  }
}

}  // namespace cairn
