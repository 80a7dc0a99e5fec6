#include "daemon/door/peer_connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <span>
#include <utility>

#include "daemon/door/await.h"
#include "storage/base/caught.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// For a peer that was refused, to hear why before the connection is gone.
constexpr std::chrono::milliseconds kHearing{1000};

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

}  // namespace

PeerConnection::PeerConnection(asio::io_context& io, std::unique_ptr<TlsStream> tls, Plan plan)
    : io_(io), tls_(std::move(tls)), plan_(std::move(plan)), deadline_(io) {}

void PeerConnection::Answer() {
  Begin(std::nullopt);
}
void PeerConnection::Dial(const Endpoint& where) {
  Begin(where);
}

void PeerConnection::Begin(std::optional<Endpoint> where) {
  StopAfter(plan_.deadline);
  asio::co_spawn(
      io_, [self = shared_from_this(), where]() { return self->Run(where); },
      [self = shared_from_this()](const std::exception_ptr& thrown) {
        if (thrown != nullptr) self->Tell(Refusal{Flaw::kUnspecific, "out of memory during the handshake"});
        self->plan_.on_gone();
      });
}

void PeerConnection::StopAfter(std::chrono::milliseconds time) {
  deadline_.expires_after(time);
  deadline_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr) self->Drop({Flaw::kTooSlow, "it has not proven who it is in time"});
  });
}

void PeerConnection::Drop(Refusal why) {
  if (!dropped_) dropped_ = why;
  if (tls_ != nullptr) tls_->Close();
  Tell(std::move(why));
}

void PeerConnection::Tell(Result result) {
  if (!std::exchange(told_, true)) plan_.on_result(std::move(result));
}

Refusal PeerConnection::Explain(const error_code& error) const {
  if (dropped_) return *dropped_;
  if (error.category() == asio::error::get_ssl_category()) {
    return tls_->handshake().Explain(static_cast<unsigned int>(error.value()));
  }
  if (error == asio::error::eof) return tls_->handshake().Explain(0);
  return {Flaw::kBroken, fmt::format("the connection broke: {}", error.message())};
}

asio::awaitable<void> PeerConnection::Run(std::optional<Endpoint> where) {
  Result result = co_await Prove(where);
  const bool proven = std::holds_alternative<ProvenPeer>(result);
  if (proven && told_) co_return;  // it was dropped in the last moment
  if (proven) deadline_.cancel();
  Tell(std::move(result));
  if (!proven) co_await LetItHear();
}

// A socket that is closed with something unread in it takes back what it has sent.
asio::awaitable<void> PeerConnection::LetItHear() {
  if (dropped_ || !tls_->tcp().is_open()) co_return;
  StopAfter(kHearing);
  tls_->EndWriting();
  std::array<char, 4096> unread;
  for (;;) {
    const auto [error, bytes] = co_await tls_->tcp().async_read_some(asio::buffer(unread), kAwait);
    if (error) break;
  }
  tls_->Close();
}

asio::awaitable<PeerConnection::Result> PeerConnection::Prove(std::optional<Endpoint> where) {
  if (auto refusal = co_await Secure(where)) co_return *std::move(refusal);
  co_return co_await Introduce();
}

asio::awaitable<std::optional<Refusal>> PeerConnection::Secure(std::optional<Endpoint> where) {
  if (where) {
    const auto [error] = co_await tls_->tcp().async_connect(*where, kAwait);
    if (error) {
      if (dropped_) co_return dropped_;
      co_return Refusal{Flaw::kBroken, fmt::format("cannot be reached: {}", error.message())};
    }
  }
  error_code ignored;  // small messages are slower without it, and that is all
  tls_->tcp().set_option(asio::ip::tcp::no_delay(true), ignored);
  const absl::Status attached = tls_->Attach();
  if (!attached.ok()) co_return Refusal{Flaw::kUnspecific, std::string(MessageOf(attached))};
  const error_code error = co_await tls_->Handshake();
  if (error) co_return Explain(error);
  co_return tls_->handshake().Finish();
}

asio::awaitable<PeerConnection::Result> PeerConnection::Introduce() {
  auto facts = IntroductionFacts::Of(tls_->handshake(), plan_.munge, plan_.munge_required);
  auto token = tls_->handshake().Binding("link");
  if (!facts.ok()) co_return Refusal{Flaw::kUnspecific, std::string(MessageOf(facts.status()))};
  if (!token.ok()) co_return Refusal{Flaw::kUnspecific, std::string(MessageOf(token.status()))};
  const auto ours = co_await WhereItMayBlock(*facts, [&] { return MakeIntroduction(*facts); });
  introduction::Introduction theirs;
  introduction::Verdict verdict, their_verdict;
  introduction::Introduction shown;  // without one we still hear the other side, to tell it why
  if (ours.ok()) shown = *ours;
  if (auto refusal = co_await Write(shown)) co_return *std::move(refusal);
  if (auto refusal = co_await Read(theirs)) co_return *std::move(refusal);
  auto judged = co_await WhereItMayBlock(*facts, [&] { return JudgeIntroduction(*facts, theirs); });
  if (!ours.ok()) judged = Refusal{Flaw::kMunge, fmt::format("of our own: {}", MessageOf(ours.status()))};
  if (const auto* const peer = std::get_if<PeerIdentity>(&judged)) {
    std::string why = plan_.crowded(tls_->handshake().protocol(), *peer);
    if (!why.empty()) judged = Refusal{Flaw::kCrowded, std::move(why)};
  }
  auto* const refused = std::get_if<Refusal>(&judged);
  if (refused != nullptr) verdict.set_refused(refused->text);
  verdict.set_for_now(refused != nullptr && refused->flaw == Flaw::kCrowded);
  auto unheard = co_await Write(verdict);
  if (refused != nullptr) co_return std::move(*refused);
  if (unheard) co_return *std::move(unheard);
  if (auto refusal = co_await Read(their_verdict)) co_return *std::move(refusal);
  if (!their_verdict.refused().empty()) {
    co_return Refusal{their_verdict.for_now() ? Flaw::kCrowded : Flaw::kRefusedUs,
                      fmt::format("it refuses us: {}", Quoted(their_verdict.refused()))};
  }
  const std::string_view protocol = tls_->handshake().protocol();
  co_return ProvenPeer{
      .tls = std::move(tls_), .identity = std::get<PeerIdentity>(judged), .protocol = protocol, .token = Hex(*token)};
}

asio::awaitable<std::optional<Refusal>> PeerConnection::Write(const google::protobuf::MessageLite& message) {
  std::string bytes = message.SerializeAsString();
  if (bytes.size() > kIntroductionBytesMax) co_return Refusal{Flaw::kUnspecific, "our introduction is too long"};
  bytes.insert(0, {static_cast<char>(bytes.size() >> 8), static_cast<char>(bytes.size() & 0xff)});
  const error_code error = co_await tls_->Write(std::as_bytes(std::span(bytes)));
  if (error) co_return Explain(error);
  co_return std::nullopt;
}

asio::awaitable<std::optional<Refusal>> PeerConnection::Read(google::protobuf::MessageLite& message) {
  std::array<unsigned char, 2> head;
  const error_code error = co_await tls_->Read(std::as_writable_bytes(std::span(head)));
  if (error) co_return Explain(error);
  std::string body(std::size_t{head[0]} << 8 | head[1], '\0');
  if (body.size() > kIntroductionBytesMax) co_return Refusal{Flaw::kProof, "its introduction is too long"};
  const error_code body_error = co_await tls_->Read(std::as_writable_bytes(std::span(body)));
  if (body_error) co_return Explain(body_error);
  if (!message.ParseFromString(body)) co_return Refusal{Flaw::kProof, "its introduction cannot be read"};
  co_return std::nullopt;
}

template <typename Work>
asio::awaitable<std::invoke_result_t<Work>> PeerConnection::WhereItMayBlock(const IntroductionFacts& facts, Work work) {
  using Answer = std::invoke_result_t<Work>;
  if (!facts.Blocks()) co_return work();
  auto answer = std::make_shared<std::optional<Answer>>();
  co_await asio::async_initiate<decltype(asio::use_awaitable), void()>(
      [&](auto handler) {
        auto resume = std::make_shared<decltype(handler)>(std::move(handler));
        plan_.munge_pool->Post([this, answer, resume, &work] {
          Caught([&] { answer->emplace(work()); }).IgnoreError();  // what is missing below says it
          asio::post(io_, [resume] { std::move (*resume)(); });
        });
      },
      asio::use_awaitable);
  if (!*answer) throw std::bad_alloc();
  co_return *std::move(*answer);
}

}  // namespace cairn
