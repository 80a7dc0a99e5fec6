#include "daemon/bulk/peer_calls.h"

#include <algorithm>
#include <utility>

#include "daemon/bulk/asking.h"
#include "daemon/bulk/frame.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// A peer that has no room for another connection is not asked for one all the time.
constexpr std::chrono::seconds kDialPause{5};

}  // namespace

struct PeerCalls::Pending {
  explicit Pending(PeerCall its_call) : call(std::move(its_call)) {}

  const PeerCall call;
  // Under the mutex of the peer's calls.
  std::size_t asked = 0;       // bytes of the target; of other calls: 1 once it is
  std::size_t unanswered = 0;  // questions that connections have, or that are to be asked again
  absl::Status status;
  bulk::Answer answer;
  std::string payload;
  bool ended = false;

  std::size_t to_ask() const { return call.target.empty() ? 1 : call.target.size(); }
};

bulk::Request PeerCalls::Question::ToRequest(std::uint64_t id) const {
  bulk::Request request = call->call.request;
  request.set_id(id);
  if (!target.empty()) {
    request.set_offset(offset);
    request.set_bytes(target.size());
  }
  return request;
}
bool PeerCalls::Question::wants_names() const {
  return call->call.request.op() == bulk::Request::LIST;
}
const std::string& PeerCalls::Question::name() const {
  return call->call.request.name();
}

PeerCalls::PeerCalls(const BulkOptions& options, std::vector<BulkThread*> threads, PeerLines& lines, RunId run,
                     std::string node, std::string address)
    : options_(options),
      threads_(std::move(threads)),
      lines_(lines),
      run_(run),
      node_(std::move(node)),
      address_(std::move(address)),
      title_(fmt::format("node {} at {}", node_, address_)) {}

// --- Who asks ---

void PeerCalls::Start(PeerCall call) {
  auto pending = std::make_shared<Pending>(std::move(call));
  absl::Status refused;
  {
    const absl::MutexLock lock(&mutex_);
    if (closed_) {
      refused = Unavailable("this daemon goes away");
    } else if (calls_ >= options_.calls_max) {
      refused = Unavailable("{} calls are under way already", calls_);
    } else {
      ++calls_;
      waiting_.push_back(pending);
      return Work();
    }
  }
  pending->call.done(Annotate(refused, title_), {}, {});
}

// Wakes connections that rest, one for each question that waits, and makes new ones while there are fewer than
// questions, asked or not: one that has just brought an answer will look for the next question by itself.
void PeerCalls::Work() {
  std::size_t questions = again_.size();
  for (const auto& call : waiting_) {
    questions += (call->to_ask() - call->asked + kWindowBytesMax - 1) / kWindowBytesMax;
    if (questions >= options_.connections_max) break;
  }
  std::size_t woken = 0;
  for (auto& [id, connection] : connections_) {
    if (woken >= questions) break;
    if (!connection.rests) continue;
    ++woken;
    connection.rests = false;
    connection.thread->outlet()->Post([weak = std::weak_ptr(connection.asking)] {
      if (const auto asking = weak.lock()) asking->Wake();
    });
  }
  if (!connections_.empty() && SteadyNow() < dial_again_) return;
  const std::size_t wanted = std::min(questions + unanswered_, options_.connections_max);
  while (connections_.size() + dials_ < wanted && !closed_) {
    ++dials_;
    lines_.DialLine(run_, address_, options_.dial,
                    [self = shared_from_this()](absl::StatusOr<PeerLine> line) { self->Dialled(std::move(line)); });
  }
}

void PeerCalls::Close() {
  Ends ends;
  {
    const absl::MutexLock lock(&mutex_);
    closed_ = true;
    FailWaiting(Unavailable("this daemon goes away"), ends);
  }
  for (const auto& end : ends) end();
}

// --- Connections ---

void PeerCalls::Dialled(absl::StatusOr<PeerLine> line) {
  Ends ends;
  {
    const absl::MutexLock lock(&mutex_);
    --dials_;
    if (closed_) return;
    const absl::Status begun = Begin(std::move(line));
    if (!begun.ok()) dial_again_ = SteadyNow() + kDialPause;
    // Connections that are there, or about to be, go on with what waits.
    if (!begun.ok() && connections_.empty() && dials_ == 0) FailWaiting(begun, ends);
    if (!begun.ok() && !connections_.empty()) Work();
  }
  for (const auto& end : ends) end();
}

absl::Status PeerCalls::Begin(absl::StatusOr<PeerLine> line) {
  if (absl::IsDeadlineExceeded(line.status())) return Unavailable("{}", MessageOf(line.status()));
  if (!line.ok()) return line.status();
  if (line->peer.node != node_) return PermissionDenied("it is node {}", line->peer.node);
  const std::uint64_t id = ++last_;
  BulkThread* const thread = threads_[id % threads_.size()];
  auto tls = TlsStream::Continue(thread->io(), *std::move(line));
  if (!tls.ok()) return tls.status();
  auto asking = std::make_shared<Asking>(options_, *thread, *std::move(tls), shared_from_this(), id);
  connections_.emplace(id, Connection{.asking = asking, .thread = thread});
  thread->outlet()->Post([thread, asking] {
    thread->Add(asking);
    asking->Start();
  });
  return absl::OkStatus();
}

std::optional<PeerCalls::Question> PeerCalls::Take(std::uint64_t connection, bool rest) {
  const absl::MutexLock lock(&mutex_);
  if (!again_.empty()) {
    Question question = std::move(again_.front());
    again_.pop_front();
    ++unanswered_;
    return question;
  }
  if (waiting_.empty()) {
    connections_.at(connection).rests = rest && !closed_;
    return std::nullopt;
  }
  const auto call = waiting_.front();
  Question question{.call = call, .offset = call->call.offset + call->asked};
  if (!call->call.target.empty()) {
    question.target = call->call.target.subspan(call->asked);
    question.target = question.target.first(std::min(question.target.size(), kWindowBytesMax));
  }
  call->asked += std::max<std::size_t>(question.target.size(), 1);
  ++call->unanswered;
  ++unanswered_;
  if (call->asked == call->to_ask()) waiting_.pop_front();
  return question;
}

void PeerCalls::Answered(const Question& question, const absl::Status& status, const bulk::Answer& answer,
                         const std::string& payload) {
  Ends ends;
  {
    const absl::MutexLock lock(&mutex_);
    --unanswered_;
    --question.call->unanswered;
    if (!status.ok()) Fail(question.call, status);
    if (question.call->call.target.empty()) {
      question.call->answer = answer;
      question.call->payload = payload;
    }
    EndIfOver(question.call, ends);
  }
  for (const auto& end : ends) end();
}

bool PeerCalls::MayLeave(std::uint64_t connection) {
  const absl::MutexLock lock(&mutex_);
  Connection& it = connections_.at(connection);
  return std::exchange(it.rests, false);
}

void PeerCalls::Ended(std::uint64_t connection, std::vector<Question> unanswered, const absl::Status& why) {
  Ends ends;
  {
    const absl::MutexLock lock(&mutex_);
    connections_.erase(connection);
    unanswered_ -= unanswered.size();
    for (Question& question : unanswered) {
      if ((question.lost == 0 || connection <= question.lost) && question.call->status.ok() && !closed_) {
        if (question.lost == 0) question.lost = last_;
        again_.push_back(std::move(question));
        continue;
      }
      --question.call->unanswered;
      Fail(question.call, why);
      EndIfOver(question.call, ends);
    }
    if (!closed_) Work();
  }
  for (const auto& end : ends) end();
}

// --- Ends of calls ---

void PeerCalls::FailWaiting(const absl::Status& why, Ends& ends) {
  for (const Question& question : std::exchange(again_, {})) {
    --question.call->unanswered;
    Fail(question.call, why);
    EndIfOver(question.call, ends);
  }
  for (const auto& call : std::exchange(waiting_, {})) {
    Fail(call, why);
    EndIfOver(call, ends);
  }
}

// What it has not asked yet, it will not.
void PeerCalls::Fail(const std::shared_ptr<Pending>& call, const absl::Status& why) {
  if (call->status.ok()) {
    call->status = Annotate(why, fmt::format("{}: /{}", title_, call->call.request.name()));
  }
  call->asked = call->to_ask();
  std::erase(waiting_, call);
}

// Its target is its owner's again only when no connection can write into it any more.
void PeerCalls::EndIfOver(const std::shared_ptr<Pending>& call, Ends& ends) {
  if (call->asked < call->to_ask() || call->unanswered > 0 || call->ended) return;
  call->ended = true;
  --calls_;
  ends.emplace_back([call] { call->call.done(call->status, call->answer, call->payload); });
}

}  // namespace cairn
