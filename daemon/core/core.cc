#include "daemon/core/core.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/core_impl.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

std::vector<std::shared_ptr<Session>> SessionsOf(const Run& run) {
  std::vector<std::shared_ptr<Session>> sessions(run.observers.begin(), run.observers.end());
  for (const auto& [rank, session] : run.sessions) sessions.push_back(session);
  return sessions;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Core>> Core::Start(const Config& config, const Environment& environment) {
  CAIRN_CHECK(config.image.bytes_max != 0);
  auto core = std::make_unique<CoreImpl>(config, environment);
  CAIRN_RETURN_IF_ERROR(core->LoadCachedRuns());
  return core;
}

CoreImpl::CoreImpl(const Config& config, const Environment& environment)
    : config_(config),
      loop_(environment.loop),
      pools_(environment.pools),
      cache_disk_(environment.cache_disk),
      prefix_disk_(environment.prefix_disk),
      clocks_(environment.clocks),
      process_(environment.process),
      budget_(config.image.bytes_max),
      incarnation_(environment.random()),
      started_(clocks_.steady()),
      throttle_(config.flush.bytes_per_s) {
  // The last to let go of an image may be a connection or a pool.
  budget_.SetOnGiven([this] { loop_.Post([this] { RetryImageWishes(); }); });
}

CoreImpl::~CoreImpl() {
  ended_ = true;
  budget_.SetOnGiven(nullptr);
  // What belongs to a run points back at it.
  for (auto& [id, run] : runs_) {
    for (const auto& session : SessionsOf(*run)) {
      if (const auto reading = std::exchange(session->reading, nullptr)) reading->parts.clear();
    }
    run->sessions.clear();
    run->observers.clear();
    for (auto& [dataset, writers] : run->writers) {
      for (auto& [rank, writer] : writers) {
        if (writer->last) writer->last->waiting.clear();
      }
    }
    run->writers.clear();
    if (run->restore) run->restore->parts.clear();  // their calls know the group
    run->restore = nullptr;
    run->watchers.clear();
    run->directories.clear();
    run->routed_directories.clear();
    run->growing.clear();
    run->changing.clear();
    run->remaking.clear();
    run->after_flush.clear();
    run->launch_waiters.clear();
    run->record_waiting.clear();
  }
  runs_.clear();
}

void CoreImpl::Stop(std::function<void()> done) {
  loop_.Post([this, done = std::move(done)] {
    quiescing_ = stopping_ = true;
    fetching_.stop = true;
    AbortTransfers();
    on_transfers_ended_ = [this, done] {
      ended_ = true;
      budget_.SetOnGiven(nullptr);
      done();
    };
    if (transfers_ == 0) std::exchange(on_transfers_ended_, nullptr)();
  });
}

// Captures and restores use pool and disk until they say that they have ended; flushes look at their stop flag at every
// block.
void CoreImpl::AbortTransfers() {
  for (auto& [id, run] : runs_) {
    for (auto& [dataset, job] : run->flushes) job->progress->stop = true;
    for (auto& [dataset, growth] : run->growing) growth.progress->stop = true;
    for (auto& [dataset, writers] : run->writers) {
      for (auto& [rank, writer] : writers) {
        if (writer->capture) writer->capture->Abort();
      }
    }
    if (run->restore) {
      for (auto& [rank, part] : run->restore->parts) {
        if (part->restore) part->restore->Abort();
      }
    }
    for (const auto& session : SessionsOf(*run)) {
      if (!session->reading) continue;
      for (auto& [rank, part] : session->reading->parts) {
        if (part->restore) part->restore->Abort();
      }
    }
    run->watchers.clear();
  }
}

void CoreImpl::TransferEnded() {
  if (--transfers_ == 0 && on_transfers_ended_) std::exchange(on_transfers_ended_, nullptr)();
}

// --- Connections and dispatch ---

void CoreImpl::Attach(std::shared_ptr<Connection> connection) {
  loop_.Post([this, connection = std::move(connection)] { connections_[connection.get()].connection = connection; });
}

void CoreImpl::Receive(const std::shared_ptr<Connection>& connection, std::unique_ptr<local::Request> request) {
  loop_.Post([this, connection, request = std::shared_ptr<local::Request>(std::move(request))] {
    Dispatch(connection, request);
  });
}

void CoreImpl::Detach(const std::shared_ptr<Connection>& connection) {
  loop_.Post([this, connection] {
    auto at = connections_.find(connection.get());
    if (at == connections_.end()) return;
    SessionPtr session = at->second.session;
    // First what the loss means for others, then the calls that nobody hears any more.
    if (session && session->connection.get() == connection.get()) ConnectionLost(session);
    AbandonCalls(*connection);
    connections_.erase(connection.get());
  });
}

void CoreImpl::AbandonCalls(const Connection& connection) {
  const auto at = connections_.find(&connection);
  if (at == connections_.end()) return;
  const std::vector<std::weak_ptr<Call>> calls = std::exchange(at->second.calls, {});
  for (const std::weak_ptr<Call>& pending : calls) {
    if (const CallPtr call = pending.lock()) call->Abandon();
  }
}

void CoreImpl::ConnectionLost(const SessionPtr& session) {
  if (session->observer) return EndObserver(session);
  if (!session->connection->resumable() || session->ended || quiescing_) return EndSession(session, /*closed=*/false);
  session->connection = nullptr;
  SessionLeftRestore(session);
  session->resume_timer = loop_.After(std::chrono::milliseconds(config_.ingest.resume_ms), [this, session] {
    session->resume_timer = 0;
    if (!session->connection) EndSession(session, /*closed=*/false);
  });
}

CoreImpl::CallPtr CoreImpl::MakeCall(ConnectionState& state, const local::Request& request) {
  // A week is longer than any client means and short enough for every clock.
  constexpr std::uint64_t kDeadlineMsMax = 7ull * 24 * 3600 * 1000;
  const std::uint64_t ms = request.deadline_ms() != 0 ? request.deadline_ms() : config_.call_ms_default;
  CallPtr call =
      Call::Make(loop_, state.connection, request.call(), std::chrono::milliseconds(std::min(ms, kDeadlineMsMax)));
  // libcairn asks one thing at a time; who asks without reading answers is stopped here.
  constexpr std::size_t kCallsMax = 64;
  std::erase_if(state.calls, [](const std::weak_ptr<Call>& known) {
    const CallPtr other = known.lock();
    return !other || other->answered();
  });
  if (state.calls.size() >= kCallsMax) {
    call->Fail(ResourceExhausted("{} requests of this connection are waiting already", kCallsMax));
  } else {
    state.calls.push_back(call);
  }
  return call;
}

void CoreImpl::Dispatch(const std::shared_ptr<Connection>& given, Requested request) {
  auto at = connections_.find(given.get());
  if (at == connections_.end()) return;  // gone meanwhile
  // `given` may count the request as in flight; calls, which may wait long, keep the plain pointer instead.
  const std::shared_ptr<Connection> connection = at->second.connection;
  const SessionPtr session = at->second.session;
  switch (request->body_case()) {
    case local::Request::kFilled:
      if (session) HandleFilled(session, *request);
      return;
    case local::Request::kPiece:
      if (session) HandlePiece(session, *request);
      return;
    case local::Request::kCopied:
      if (session) HandleCopied(session, *request);
      return;
    default:
      break;
  }
  const CallPtr call = MakeCall(at->second, *request);
  if (call->answered()) return;
  if (request->has_open()) return HandleOpen(connection, call, request->open());
  if (!session) return call->Fail(FailedPrecondition("the first request after Hello must be Open"));
  if (session->ended) return call->Fail(local::FENCED, "this session has ended");
  if (session->observer) return DispatchObserver(session, call, request);
  const Launch* launch = session->run->ledger.Find(session->launch);
  if (launch == nullptr || launch->fenced || session->run->replaced) {
    if (request->has_close()) return HandleClose(session, call);
    const Launch* newest = session->run->ledger.newest();
    return call->Fail(local::FENCED, fmt::format("launch {} has been shut out: launch {} has taken over",
                                                 session->launch, newest ? newest->id : 0));
  }
  DispatchInSession(session, call, request);
}

void CoreImpl::DispatchInSession(const SessionPtr& session, const CallPtr& call, Requested request) {
  session->used = true;
  if (!request->has_restore()) session->restored = 0;
  switch (request->body_case()) {
    case local::Request::kBegin:
    case local::Request::kOutputBegin:
      return BeginTimed(session, call, request);
    case local::Request::kCommit:
    case local::Request::kOutputEnd:
      return HandOverTimed(session, call, request);
    case local::Request::kAbort:
      return HandleAbort(session, call, request->abort());
    case local::Request::kResume:
      return HandleResume(session, call, request->resume());
    case local::Request::kTest:
      return HandleTest(session, call, request->test());
    case local::Request::kWait:
      return HandleWait(session, call, request->wait());
    case local::Request::kLatest:
      return HandleLatest(session, call);
    case local::Request::kStored:
      return HandleStored(session, call, request->stored());
    case local::Request::kRestore:
      return HandleRestore(session, call, request->restore());
    case local::Request::kRead:
      return HandleRead(session, call, request->read());
    case local::Request::kRouteFile:
      return HandleRouteFile(session, call, request->route_file());
    case local::Request::kRestartFile:
      return HandleRestartFile(session, call, request->restart_file());
    case local::Request::kShouldExit:
    case local::Request::kNeedCheckpoint:
      return HandleAsk(session, call, request);
    case local::Request::kClose:
      return HandleClose(session, call);
    default:
      return call->Fail(InvalidArgument("request {} is unknown to this daemon", request->call()));
  }
}

// --- Watching, warnings ---

void CoreImpl::Watch(const RunPtr& run, std::function<bool()> watcher) {
  if (watcher()) return;
  // Those of calls that have expired go when there are many; who asks again and again must not pile them up.
  if (run->watchers.size() >= run->watchers_swept) {
    LookAtWatchers(run);
    run->watchers_swept = 2 * run->watchers.size() + 64;
  }
  run->watchers.push_back(std::move(watcher));
}

void CoreImpl::LookAtWatchers(const RunPtr& run) {
  // A watcher may cause a further change; what it adds meanwhile is looked at by that change's own round.
  std::list<std::function<bool()>> watchers;
  watchers.swap(run->watchers);
  for (auto at = watchers.begin(); at != watchers.end();) at = (*at)() ? watchers.erase(at) : std::next(at);
  run->watchers.splice(run->watchers.begin(), watchers);
}

void CoreImpl::Changed(const RunPtr& run) {
  CountWhole(run);
  LookAtWatchers(run);
  ApplyPolicy(run);
  CheckQuiesced();
}

void CoreImpl::Warn(std::string text) {
  spdlog::warn("{}", text);
  constexpr std::size_t kWarningsMax = 100;
  warnings_.push_back(std::move(text));
  if (warnings_.size() > kWarningsMax) warnings_.pop_front();
}

std::int64_t CoreImpl::NowUs() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(clocks_.wall().time_since_epoch()).count();
}

// --- Quiesce, reload ---

void CoreImpl::Quiesce(std::function<void(bool all_local)> done) {
  loop_.Post([this, done = std::move(done)] {
    quiescing_ = true;
    for (auto& [id, run] : runs_) {
      for (auto& [dataset, job] : run->flushes) job->progress->stop = true;
      for (auto& [dataset, growth] : run->growing) growth.progress->stop = true;
    }
    on_quiesced_.push_back(done);
    if (quiesce_timer_ == 0) {
      // A flush that hangs breaks no promise: its dataset is `local`.
      quiesce_timer_ = loop_.After(std::chrono::milliseconds(config_.quiesce_ms), [this] {
        quiesce_timer_ = 0;
        const bool all_local = !AnyCaptured();
        if (!all_local) {
          spdlog::error("not all captured datasets reached `local` within {} ms", config_.quiesce_ms);
        }
        EndQuiescing(all_local);
      });
    }
    CheckQuiesced();
  });
}

bool CoreImpl::AnyCaptured() const {
  for (const auto& [id, run] : runs_) {
    for (const auto& [dataset_id, dataset] : run->ledger.datasets()) {
      if (dataset->level() == Level::kCaptured) return true;
    }
  }
  return false;
}

void CoreImpl::CheckQuiesced() {
  if (on_quiesced_.empty() || flushes_running_ + commits_running_ > 0 || AnyCaptured()) return;
  if (quiesce_timer_ != 0) loop_.Cancel(std::exchange(quiesce_timer_, 0));
  EndQuiescing(/*all_local=*/true);
}

void CoreImpl::EndQuiescing(bool all_local) {
  quiesced_ = true;
  for (const auto& done : std::exchange(on_quiesced_, {})) done(all_local);
}

void CoreImpl::Reload(const Config& config) {
  loop_.Post([this, config] {
    config_.flush = config.flush;
    config_.ftiff = config.ftiff;
    config_.prefix = config.prefix;
    config_.checkpoint = config.checkpoint;
    config_.cache.keep = config.cache.keep;
    config_.cache.linger_ms = config.cache.linger_ms;
    config_.cache.bypass = config.cache.bypass;
    config_.quiesce_ms = config.quiesce_ms;
    if (config.cache.bytes_max != 0) cache_bytes_max_ = config.cache.bytes_max;
    throttle_.SetLimit(config.flush.bytes_per_s);
    spdlog::info("configuration read anew");
    for (auto& [id, run] : runs_) ApplyPolicy(run);
  });
}

}  // namespace cairn
