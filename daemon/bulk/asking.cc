#include "daemon/bulk/asking.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>

#include <iterator>
#include <utility>
#include <vector>

#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {

namespace asio = boost::asio;

Asking::Asking(const BulkOptions& options, BulkThread& thread, std::unique_ptr<TlsStream> tls,
               std::shared_ptr<PeerCalls> calls, std::uint64_t id)
    : options_(options),
      thread_(thread),
      stream_(std::move(tls)),
      calls_(std::move(calls)),
      id_(id),
      deadline_(thread.io()) {}

void Asking::Start() {
  asio::co_spawn(
      thread_.io(), [self = shared_from_this()] { return self->Run(); },
      [self = shared_from_this()](const std::exception_ptr& thrown, absl::Status why) {
        if (thrown != nullptr) why = ResourceExhausted("out of memory");
        self->deadline_.Clear();
        self->stream_.Close(why.ok() ? Cancelled("it is over") : why);
        self->calls_->Ended(
            self->id_,
            {std::make_move_iterator(self->unanswered_.begin()), std::make_move_iterator(self->unanswered_.end())},
            why);
        self->unanswered_.clear();
      });
}

void Asking::Wake() {
  woken_ = true;
  stream_.Interrupt();
}

void Asking::Close() {
  stream_.Close(Unavailable("this daemon goes away"));
}

void Asking::Expect() {
  deadline_.Set(options_.answer, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->stream_.Close(Unavailable("no answer within {} ms", self->options_.answer.count()));
  });
}

// OK: nothing was asked for a while.
asio::awaitable<absl::Status> Asking::Run() {
  for (;;) {
    const absl::Status asked = co_await AskMore();
    if (!asked.ok()) co_return asked;
    if (unanswered_.empty()) {
      const absl::Status rested = co_await Rest();
      if (!rested.ok()) co_return absl::IsCancelled(rested) ? absl::OkStatus() : rested;
      continue;
    }
    const absl::Status answered = co_await TakeAnswer();
    if (!answered.ok()) co_return answered;
  }
}

asio::awaitable<absl::Status> Asking::AskMore() {
  while (unanswered_.size() < options_.windows_max) {
    auto question = calls_->Take(id_, /*rest=*/unanswered_.empty());
    if (!question) break;
    if (unanswered_.empty()) Expect();
    unanswered_.push_back(*question);
    const absl::Status written = co_await stream_.Write(FrameHead(question->ToRequest(++asked_)), {});
    if (!written.ok()) co_return written;
  }
  co_return absl::OkStatus();
}

// Until there is something to ask. kCancelled: there was nothing for long.
asio::awaitable<absl::Status> Asking::Rest() {
  if (std::exchange(woken_, false)) co_return absl::OkStatus();
  deadline_.Set(options_.idle, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr && self->calls_->MayLeave(self->id_)) self->stream_.Close(Cancelled("nothing was asked"));
  });
  const bool interrupted = co_await stream_.Rest();
  deadline_.Clear();
  woken_ = false;
  if (interrupted) co_return absl::OkStatus();
  co_return stream_.closed() ? stream_.why() : Unavailable("it has closed the connection");
}

asio::awaitable<absl::Status> Asking::TakeAnswer() {
  bulk::Answer answer;
  const Question question = unanswered_.front();
  const absl::StatusOr<BulkPrefix> prefix = co_await stream_.ReadHeader(answer);
  if (absl::IsInvalidArgument(prefix.status())) co_return Unavailable("its answer: {}", MessageOf(prefix.status()));
  if (!prefix.ok()) co_return prefix.status();
  if (answer.id() != answered_ + 1) co_return Unavailable("its answer: id {}, not {}", answer.id(), answered_ + 1);
  std::string names;
  const absl::Status taken = co_await TakePayload(question, answer, prefix->payload_bytes, names);
  if (!taken.ok() && !absl::IsDataLoss(taken)) co_return taken;
  ++answered_;
  unanswered_.pop_front();
  if (!taken.ok()) {
    calls_->Answered(question, taken, answer);
    co_return Unavailable("what it has sent was damaged");
  }
  unanswered_.empty() ? deadline_.Clear() : Expect();
  calls_->Answered(question, StatusOf(answer), answer, names);
  co_return absl::OkStatus();
}

// kDataLoss: it is not what was sent.
asio::awaitable<absl::Status> Asking::TakePayload(const Question& question, const bulk::Answer& answer,
                                                  std::size_t bytes, std::string& names) {
  std::span<std::byte> target = question.target;
  if (question.wants_names()) {
    names.resize(bytes);
    target = std::as_writable_bytes(std::span(names));
  }
  if (answer.code() != 0) target = {};
  if (bytes != target.size()) co_return Unavailable("its answer: payload of {} bytes, not {}", bytes, target.size());
  std::uint32_t crc32c = 0;
  const absl::Status read = co_await stream_.ReadPayload(target, crc32c);
  if (!read.ok()) co_return read;
  if (answer.code() != 0 || crc32c == answer.crc32c()) co_return absl::OkStatus();
  absl::Status damaged =
      DataLoss("what has arrived of {} bytes at {} is not what was sent (CRC32C)", target.size(), question.offset);
  spdlog::warn("{}: {}: {}", calls_->title(), Quoted(question.name()), MessageOf(damaged));
  co_return damaged;
}

}  // namespace cairn
