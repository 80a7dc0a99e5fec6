#include "daemon/bulk/bulk_stream.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <utility>

#include "storage/base/checksum.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

namespace asio = boost::asio;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// Of what has come and was not asked for yet: several records of TLS with one call of the system.
constexpr std::size_t kReadAheadBytes = 64 << 10;

}  // namespace

asio::awaitable<void> Signal::Wait() {
  timer_.expires_at(asio::steady_timer::time_point::max());
  co_await timer_.async_wait(kAwait);
}

void Deadline::Set(std::chrono::milliseconds time, std::function<void()> over) {
  timer_.expires_after(time);
  timer_.async_wait([over = std::move(over)](const boost::system::error_code& error) {
    if (!error) over();
  });
}

BulkStream::BulkStream(std::unique_ptr<TlsStream> tls) : tls_(std::move(tls)) {
  SSL_set_default_read_buffer_len(tls_->ssl(), kReadAheadBytes);
  SSL_set_read_ahead(tls_->ssl(), 1);
}

absl::Status BulkStream::StatusOf(const boost::system::error_code& error) const {
  if (!error) return absl::OkStatus();
  if (!why_.ok()) return why_;
  if (error == asio::error::eof) return Unavailable("it has closed the connection");
  return Unavailable("the connection broke: {}", error.message());
}

asio::awaitable<absl::StatusOr<BulkPrefix>> BulkStream::ReadHeader(google::protobuf::MessageLite& header) {
  std::array<std::byte, BulkPrefix::kBytes> bytes;
  absl::Status status = StatusOf(co_await tls_->Read(bytes));
  if (!status.ok()) co_return status;
  absl::StatusOr<BulkPrefix> prefix = ParsePrefix(bytes);
  if (!prefix.ok()) co_return prefix;
  std::array<std::byte, kHeaderBytesMax> buffer;
  const auto body = std::span(buffer).first(prefix->header_bytes);
  status = StatusOf(co_await tls_->Read(body));
  if (!status.ok()) co_return status;
  if (!header.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    co_return InvalidArgument("header: it cannot be read");
  }
  co_return prefix;
}

asio::awaitable<absl::Status> BulkStream::ReadPayload(std::span<std::byte> target, std::uint32_t& crc32c) {
  crc32c = 0;
  while (!target.empty()) {
    const auto [error, bytes] = co_await tls_->ReadSome(target);
    if (error) co_return StatusOf(error);
    crc32c = Crc32c(target.first(bytes), crc32c);
    target = target.subspan(bytes);
  }
  co_return absl::OkStatus();
}

asio::awaitable<absl::Status> BulkStream::Write(std::string head, std::span<const std::byte> payload) {
  absl::Status status = StatusOf(co_await tls_->Write(std::as_bytes(std::span(head))));
  if (!status.ok()) co_return status;
  co_return StatusOf(co_await tls_->Write(payload));
}

asio::awaitable<bool> BulkStream::Rest() {
  const auto [error] = co_await tls_->tcp().async_wait(TlsStream::Tcp::socket::wait_read, kAwait);
  co_return error == asio::error::operation_aborted&& why_.ok();
}

void BulkStream::Interrupt() {
  boost::system::error_code ignored;  // then it is closed, and rests no more
  tls_->tcp().cancel(ignored);
}

void BulkStream::Close(absl::Status why) {
  if (why_.ok()) why_ = std::move(why);
  tls_->Close();
}

}  // namespace cairn
