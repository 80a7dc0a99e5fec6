#include "daemon/bulk/answering.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>

#include <utility>

#include "storage/base/caught.h"
#include "storage/base/status.h"

namespace cairn {

namespace asio = boost::asio;

namespace {

// Nobody's, for the next: fresh memory costs as much as reading into it.
constexpr std::size_t kWindowsKept = 16;

}  // namespace

AnsweringShare::AnsweringShare(const BulkOptions& its_options)
    : options(its_options),
      windows(std::make_shared<Windows>(options.serving_windows_max, kWindowsKept)),
      pool(MakeBlockingPool(options.disk_threads)) {}

struct Answering::Job {
  bulk::Request request;
  Windows::Window window;  // of whoever works on it: a thread of the pool, then the connection's
  ServedFiles::Served served;
  bool done = false;
};

Answering::Answering(AnsweringShare& share, BulkThread& thread, std::unique_ptr<TlsStream> tls, PeerIdentity peer,
                     std::string address, std::function<void()> on_gone)
    : share_(share),
      thread_(thread),
      stream_(std::move(tls)),
      peer_(std::move(peer)),
      address_(std::move(address)),
      on_gone_(std::move(on_gone)),
      job_taken_(thread.io()),
      job_done_(thread.io()),
      take_(thread.io()),
      quiet_(thread.io()) {}

void Answering::Start() {
  const auto way_ended = [self = shared_from_this()](const std::exception_ptr& thrown) {
    if (thrown != nullptr) self->End(ResourceExhausted("out of memory"));
    if (--self->ways_ > 0) return;
    self->jobs_.clear();
    self->on_gone_();
  };
  if (!stream_.closed()) GiveUpWhenQuiet();
  asio::co_spawn(
      thread_.io(), [self = shared_from_this()] { return self->TakeQuestions(); }, way_ended);
  asio::co_spawn(
      thread_.io(), [self = shared_from_this()] { return self->GiveAnswers(); }, way_ended);
}

void Answering::Close() {
  End(Cancelled("this daemon goes away"));
}

void Answering::End(absl::Status why) {
  if (stream_.closed()) return;
  const bool worth_telling = absl::IsInvalidArgument(why) || absl::IsDeadlineExceeded(why);
  spdlog::log(worth_telling ? spdlog::level::warn : spdlog::level::debug, "peer {}, node {} of run {}: bulk bytes: {}",
              address_, peer_.node, peer_.run.Hex(), MessageOf(why));
  stream_.Close(std::move(why));
  *gone_ = true;
  take_.Clear();
  quiet_.Clear();
  job_taken_.Raise();
  job_done_.Raise();
}

void Answering::GiveUpWhenQuiet() {
  quiet_.Set(share_.options.quiet, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->stream_.closed()) return;
    // While there is something to answer, that has deadlines of its own.
    if (!self->jobs_.empty()) return self->GiveUpWhenQuiet();
    self->End(Unavailable("it has asked nothing for long"));
  });
}

asio::awaitable<void> Answering::TakeQuestions() {
  while (!stream_.closed()) {
    if (jobs_.size() >= share_.options.serving_windows_each) {
      co_await job_taken_.Wait();
      continue;
    }
    const auto job = std::make_shared<Job>();
    const absl::StatusOr<BulkPrefix> prefix = co_await stream_.ReadHeader(job->request);
    if (!prefix.ok()) co_return End(prefix.status());
    if (prefix->payload_bytes != 0) co_return End(InvalidArgument("payload: a question has none"));
    jobs_.push_back(job);
    Prepare(job);
    GiveUpWhenQuiet();
  }
}

// By way of the pool, and of other connections' threads: those hold nothing of this one but the job.
void Answering::Prepare(const std::shared_ptr<Job>& job) {
  auto answer = [&share = share_, run = peer_.run, gone = gone_, job, outlet = thread_.outlet(),
                 weak = weak_from_this()] {
    if (!*gone) {
      const absl::Status status =
          Caught([&] { job->served = share.files.Answer(run, job->request, job->window.bytes()); });
      if (!status.ok()) SetStatus(status, job->served.answer);
      job->served.answer.set_id(job->request.id());
    }
    outlet->Post([job, weak] {
      job->done = true;
      if (const auto self = weak.lock()) self->job_done_.Raise();
    });
  };
  if (!ServedFiles::NeedsWindow(job->request)) return share_.pool->Post(std::move(answer));
  share_.windows->Get([&share = share_, job, answer = std::move(answer)](Windows::Window window) {
    job->window = std::move(window);
    share.pool->Post(answer);
  });
}

asio::awaitable<void> Answering::GiveAnswers() {
  while (!stream_.closed()) {
    if (jobs_.empty() || !jobs_.front()->done) {
      co_await job_done_.Wait();
      continue;
    }
    const auto job = jobs_.front();
    take_.Set(share_.options.take, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self != nullptr) self->End(DeadlineExceeded("it has not taken an answer in time"));
    });
    const auto payload = job->window.bytes().first(job->served.payload_bytes);
    const absl::Status status =
        co_await stream_.Write(FrameHead(job->served.answer, job->served.payload_bytes), payload);
    if (!status.ok()) co_return End(status);
    take_.Clear();
    jobs_.pop_front();
    job_taken_.Raise();
  }
}

}  // namespace cairn
