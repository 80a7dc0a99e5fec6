// Connections, dispatch, quiescing. What a request means is the components' (run.h); who may come in is Openings'.
#include "daemon/core/core.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/core/admin_desk.h"
#include "daemon/core/cache_room.h"
#include "daemon/core/call.h"
#include "daemon/core/context.h"
#include "daemon/core/image_store.h"
#include "daemon/core/openings.h"
#include "daemon/core/run.h"
#include "daemon/core/run_report.h"
#include "daemon/core/runs.h"
#include "daemon/core/sessions.h"
#include "storage/base/caught.h"
#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/place/cache/node_identity.h"
#include "storage/place/cache/node_life.h"

namespace cairn {
namespace {

using CallPtr = std::shared_ptr<Call>;
using RequestPtr = std::shared_ptr<const local::Request>;

class StrandCore final : public Core, private Connections {
 public:
  StrandCore(const Config& config, const Environment& environment);
  ~StrandCore() override { images_.Stop(); }  // runs and connections may hold images, and the loop may be gone
  absl::Status EnterCachedRuns();             // before anything else; blocks

  void Attach(std::shared_ptr<Connection> connection) override;
  void Receive(const std::shared_ptr<Connection>& connection, std::unique_ptr<local::Request> request) override;
  void Detach(const std::shared_ptr<Connection>& connection) override;

  void Quiesce(std::function<void(bool all_local)> done) override;
  void Stop(std::function<void()> done) override;
  void Reload(const Config& config) override;

  void Status(const admin::StatusRequest& request, std::function<void(admin::StatusReply)> done) override {
    Post([this, request, done = std::move(done)] { desk_.Status(request, done); });
  }
  void List(const admin::ListRequest& request, std::function<void(absl::StatusOr<admin::ListReply>)> done) override {
    Post([this, request, done = std::move(done)] { desk_.List(request, done); });
  }
  void Show(const admin::DatasetRequest& request, std::function<void(absl::StatusOr<admin::ShowReply>)> done) override {
    Post([this, request, done = std::move(done)] { desk_.Show(request, done); });
  }
  void Wait(const admin::WaitRequest& request, std::function<void(admin::WaitReply)> done) override {
    Post([this, request, done = std::move(done)] { desk_.Wait(request, done); });
  }
  void Flush(const admin::FlushRequest& request, std::function<void(admin::FlushReply)> done) override {
    Post([this, request, done = std::move(done)] { done(desk_.Flush(request)); });
  }
  void Pin(const admin::PinRequest& request, std::function<void(admin::PinReply)> done) override {
    Post([this, request, done = std::move(done)] { desk_.Pin(request, done); });
  }
  void Remove(const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) override {
    Post([this, request, done = std::move(done)] { desk_.Remove(request, done); });
  }
  void Nodes(const admin::NodesRequest& request, std::function<void(absl::StatusOr<admin::NodesReply>)> done) override {
    Post([this, request, done = std::move(done)] { done(desk_.DescribeNodes(request)); });
  }

 private:
  struct Attached {
    std::shared_ptr<Connection> connection;
    std::vector<std::weak_ptr<Call>> calls;  // not yet answered, and some that are
  };

  void Post(std::function<void()> job) { context_.loop().Post(std::move(job)); }
  bool IsAttached(const Connection& connection) const override { return attached_.contains(&connection); }
  void AbandonCalls(const Connection& connection) override;
  std::unique_ptr<Run> MakeRun(const RunId& run, const std::string& prefix_path, std::shared_ptr<CacheFolder> folder);

  void Dispatch(const Connection& given, const RequestPtr& request);
  void DispatchFailed(const Connection& connection, const local::Request& request, const absl::Status& status);
  bool DispatchSaying(const SessionPtr& session, const RequestPtr& request);
  void DispatchInSession(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  void DispatchFollowed(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  void DispatchAway(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  void DispatchWriting(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  void DispatchObserver(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  void HearOfMemory(const Session& session, const local::Request& request);
  CallPtr MakeCall(Attached& attached, const local::Request& request);
  bool IsFenced(const Session& session) const;

  bool AnyCaptured() const;
  void CheckQuiesced();
  void EndQuiescing(bool all_local);

  Warnings warnings_;
  Transfers transfers_;
  Context context_;
  ImageStore images_;
  CacheRoom room_;
  FlushSlots slots_;
  Runs runs_;
  Sessions sessions_;
  Openings openings_;
  AdminDesk desk_;
  std::unordered_map<const Connection*, Attached> attached_;
  std::vector<std::function<void(bool)>> on_quiesced_;
  Loop::TimerId quiesce_timer_ = 0;
};

StrandCore::StrandCore(const Config& config, const Environment& environment)
    : context_{.env = environment, .config = config, .warnings = &warnings_, .transfers = &transfers_},
      images_(context_, config.image.bytes_max),
      room_(context_),
      slots_(config.flush.bytes_per_s),
      runs_(context_, room_,
            [this](const RunId& run, const std::string& prefix_path, std::shared_ptr<CacheFolder> folder) {
              return MakeRun(run, prefix_path, std::move(folder));
            }),
      sessions_(context_, images_, *this),
      openings_(context_, *this, runs_, sessions_),
      desk_(context_, runs_, room_, images_, environment.random()) {}

std::unique_ptr<Run> StrandCore::MakeRun(const RunId& run, const std::string& prefix_path,
                                         std::shared_ptr<CacheFolder> folder) {
  const auto others_turn = [this](const Run& had_its_turn) {
    for (const auto& [id, other] : runs_.all()) {
      if (other.get() != &had_its_turn) other->ApplyPolicy();
    }
  };
  return std::make_unique<Run>(
      Run::Shared{.context = context_,
                  .room = room_,
                  .images = images_,
                  .slots = slots_,
                  .receiver = *this,
                  .others_turn = others_turn,
                  .on_newer_launch =
                      [this](Run& of, const LaunchRecord& launch) {
                        sessions_.EnterLaunch(of, launch, /*from_record=*/true);
                        of.waits.Changed();
                      },
                  .on_confirmed =
                      [this](Run& of, const std::vector<ConfirmedLaunch>& launches) {
                        sessions_.LaunchesConfirmed(of, launches);
                        of.waits.Changed();
                      },
                  .answer_node = [this](const Run& of,
                                        const peer::Question& question) { return AnswerOf(of, context_, question); },
                  .on_change = [this] { CheckQuiesced(); }},
      run, prefix_path, std::move(folder));
}

absl::Status StrandCore::EnterCachedRuns() {
  const Config& config = context_.config;
  const Process& process = context_.env.process;
  const std::string& node = config.cache.node.empty() ? process.host : config.cache.node;
  CAIRN_ASSIGN_OR_RETURN(const NodeIdentity own,
                         OpenNode(context_.env.cache_disk, config.cache.path, process.user, node, config.cache.take));
  context_.cache_id = own.id;
  if (PeerAccess* const peers = context_.env.peers) {
    CAIRN_ASSIGN_OR_RETURN(context_.incarnation, BeginLife(context_.env.cache_disk, config.cache.path, process.user));
    CAIRN_RETURN_IF_ERROR(peers->Open(context_.loop(), own.id, context_.incarnation));
  }
  CAIRN_ASSIGN_OR_RETURN(CachedRuns cached, runs_.LoadCached());
  context_.loop().Run([&] {
    for (const std::string& warning : own.warnings) context_.Warn(warning);
    runs_.Enter(std::move(cached));
  });
  return absl::OkStatus();
}

// --- Connections ---

void StrandCore::Attach(std::shared_ptr<Connection> connection) {
  Post([this, connection = std::move(connection)] { attached_[connection.get()].connection = connection; });
}

void StrandCore::Receive(const std::shared_ptr<Connection>& connection, std::unique_ptr<local::Request> request) {
  // `connection` may count the request as in flight; calls, which may wait long, keep the plain pointer instead.
  Post([this, connection, request = RequestPtr(std::move(request))] {
    const absl::Status status = Caught([&] { Dispatch(*connection, request); });
    if (!status.ok()) DispatchFailed(*connection, *request, status);
  });
}

void StrandCore::DispatchFailed(const Connection& connection, const local::Request& request,
                                const absl::Status& status) {
  const SessionPtr session = sessions_.Of(connection);
  context_.Warn(fmt::format(
      "{}: request {} of {} (pid {}) failed: {}", session ? "run " + session->run->name : std::string("no run yet"),
      static_cast<int>(request.body_case()), connection.peer().program, connection.peer().pid, MessageOf(status)));
  const auto at = attached_.find(&connection);
  if (at == attached_.end()) return;
  for (const std::weak_ptr<Call>& pending : at->second.calls) {
    if (const CallPtr call = pending.lock(); call && call->number() == request.call()) call->Fail(status);
  }
}

void StrandCore::Detach(const std::shared_ptr<Connection>& connection) {
  Post([this, connection] {
    if (!IsAttached(*connection)) return;
    // First what the loss means for others, then the calls that nobody hears any more.
    sessions_.ConnectionLost(*connection);
    AbandonCalls(*connection);
    attached_.erase(connection.get());
  });
}

void StrandCore::AbandonCalls(const Connection& connection) {
  const auto at = attached_.find(&connection);
  if (at == attached_.end()) return;
  const std::vector<std::weak_ptr<Call>> calls = std::exchange(at->second.calls, {});
  for (const std::weak_ptr<Call>& pending : calls) {
    if (const CallPtr call = pending.lock()) call->Abandon();
  }
}

CallPtr StrandCore::MakeCall(Attached& attached, const local::Request& request) {
  // A week is longer than any client means and short enough for every clock.
  constexpr std::uint64_t kDeadlineMsMax = 7ull * 24 * 3600 * 1000;
  const std::uint64_t ms = request.deadline_ms() != 0 ? request.deadline_ms() : context_.config.call_ms_default;
  CallPtr call = Call::Make(context_.loop(), attached.connection, request.call(),
                            std::chrono::milliseconds(std::min(ms, kDeadlineMsMax)));
  // libcairn asks one thing at a time; who asks without reading answers is stopped here.
  constexpr std::size_t kCallsMax = 64;
  std::erase_if(attached.calls, [](const std::weak_ptr<Call>& known) {
    const CallPtr other = known.lock();
    return !other || other->answered();
  });
  if (attached.calls.size() >= kCallsMax) {
    call->Fail(ResourceExhausted("{} requests of this connection are waiting already", kCallsMax));
  } else {
    attached.calls.push_back(call);
  }
  return call;
}

// --- Dispatch ---

void StrandCore::Dispatch(const Connection& given, const RequestPtr& request) {
  const auto at = attached_.find(&given);
  if (at == attached_.end()) return;  // gone meanwhile
  const SessionPtr session = sessions_.Of(given);
  if (session) HearOfMemory(*session, *request);
  if (DispatchSaying(session, request)) return;
  const CallPtr call = MakeCall(at->second, *request);
  if (call->answered()) return;
  if (request->has_open()) return openings_.Open(at->second.connection, call, request->open());
  if (!session) return call->Fail(FailedPrecondition("the first request after Hello must be Open"));
  if (session->ended) return call->Fail(local::FENCED, "this session has ended");
  if (session->observer) return DispatchObserver(session, call, request);
  if (!IsFenced(*session) && session->followed) return DispatchFollowed(session, call, request);
  if (!IsFenced(*session)) return DispatchInSession(session, call, request);
  if (request->has_close()) return sessions_.Close(session, call);
  const Launch* newest = session->run->ledger.newest();
  call->Fail(local::FENCED, fmt::format("launch {} has been shut out: launch {} has taken over", session->launch,
                                        newest != nullptr ? newest->id : 0));
}

// The client knows best what is in its memory.
void StrandCore::HearOfMemory(const Session& session, const local::Request& request) {
  if (session.ended || session.observer || session.followed) return;
  Ledger& ledger = session.run->ledger;
  if (request.dirty()) {
    if (ledger.MemoryDirty(session.launch, session.rank)) session.run->waits.Changed();
  } else if (!request.has_restore() && !request.has_copied()) {  // these may follow a delivery that was cut off
    ledger.MemoryClean(session.launch, session.rank);
  }
}

bool StrandCore::IsFenced(const Session& session) const {
  const Launch* launch = session.run->ledger.Find(session.launch);
  return launch == nullptr || launch->fenced() || session.run->gate.replaced();
}

// What a client says without waiting for an answer.
bool StrandCore::DispatchSaying(const SessionPtr& session, const RequestPtr& request) {
  switch (request->body_case()) {
    case local::Request::kFilled:
      if (session) session->run->captures.Filled(session, *request);
      return true;
    case local::Request::kPiece:
      if (session) session->run->captures.Piece(session, *request);
      return true;
    case local::Request::kCopied:
      if (session && session->followed) {
        session->run->followed.Copied(*session, *request);
      } else if (session) {
        session->run->restores.Copied(session, *request);
      }
      return true;
    case local::Request::kMark:  // heard already
      if (session && session->followed) session->run->home.Say(*session, *request);
      return true;
    default:
      return false;
  }
}

void StrandCore::DispatchInSession(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  Run& run = *session->run;
  sessions_.Used(session);
  if (!request->has_restore()) run.restores.HeardOfEnd(*session);
  switch (request->body_case()) {
    case local::Request::kTest:
      return run.levels.Test(call, request->test());
    case local::Request::kWait:
      return run.levels.Wait(*session, call, request->wait());
    case local::Request::kLatest:
      return run.levels.Latest(session, call);
    case local::Request::kFind:
      return run.levels.Find(call, request->find());
    case local::Request::kStored:
      return run.levels.Stored(session, call, request->stored());
    case local::Request::kRestore:
      if (run.captures.IsOpen(*session) || run.outputs.IsOpen(*session) || run.away_parts.IsOpen(*session)) {
        return call->Fail(FailedPrecondition("a checkpoint of this session is open"));
      }
      return run.restores.Restore(session, call, request->restore());
    case local::Request::kRead:
      return run.restores.Read(session, call, request->read());
    case local::Request::kReject:
      return run.rejections.Reject(*session, call, request->reject().dataset());
    case local::Request::kRestartFile:
      return run.outputs.RestartFile(call, request->restart_file());
    case local::Request::kShouldExit:
    case local::Request::kNeedCheckpoint:
      return run.steering.Ask(session, call, *request);
    case local::Request::kClose:
      return sessions_.Close(session, call);
    default:
      return DispatchWriting(session, call, request);
  }
}

// A rank of a launch that has its home on another node: its bytes are this daemon's, all else is decided there.
void StrandCore::DispatchFollowed(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  Run& run = *session->run;
  sessions_.Used(session);
  switch (request->body_case()) {
    case local::Request::kBegin:
      if (run.followed.IsRestoring(*session)) return call->Fail(FailedPrecondition("this session is restoring"));
      return run.captures.Begin(session, call, request);
    case local::Request::kCommit:
      return run.captures.Commit(session, call, request->commit());
    case local::Request::kResume:
      return run.captures.Resume(session, call, request->resume());
    case local::Request::kAbort:
      run.captures.Abort(*session, request->abort().reason());
      return run.home.Relay(session, call, *request);
    case local::Request::kRestore:
    case local::Request::kRead:
      if (run.captures.IsOpen(*session)) {
        return call->Fail(FailedPrecondition("a checkpoint of this session is open"));
      }
      return run.followed.Restore(session, call, *request);
    case local::Request::kOutputBegin:
    case local::Request::kRouteFile:
    case local::Request::kOutputEnd:
    case local::Request::kRestartFile:
      return call->Fail(local::UNSUPPORTED, "outputs of files need all ranks of their launch on one node");
    case local::Request::kClose:
      return sessions_.Close(session, call);
    default:
      return run.home.Relay(session, call, *request);
  }
}

// A rank whose bytes are with another node's daemon.
void StrandCore::DispatchAway(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  Run& run = *session->run;
  switch (request->body_case()) {
    case local::Request::kBegin:
      if (run.restores.IsRestoring(*session)) return call->Fail(FailedPrecondition("this session is restoring"));
      return run.away_parts.Begin(session, call, request->begin());
    case local::Request::kCommit:
      return run.away_parts.Commit(session, call);
    case local::Request::kAbort:
      run.away_parts.Abort(*session, request->abort().reason());
      call->Reply({});
      return run.waits.Changed();
    default:
      return call->Fail(
          InvalidArgument("request.body: {} is not for the home of a launch", static_cast<int>(request->body_case())));
  }
}

void StrandCore::DispatchWriting(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  if (!call->connection()->node().empty()) return DispatchAway(session, call, request);
  Run& run = *session->run;
  switch (request->body_case()) {
    case local::Request::kBegin:
      if (run.restores.IsRestoring(*session)) return call->Fail(FailedPrecondition("this session is restoring"));
      if (run.outputs.IsOpen(*session)) {
        return call->Fail(FailedPrecondition("an output of files is open: memory and files do not mix"));
      }
      return run.captures.Begin(session, call, request);
    case local::Request::kCommit:
      return run.captures.Commit(session, call, request->commit());
    case local::Request::kResume:
      return run.captures.Resume(session, call, request->resume());
    case local::Request::kOutputBegin:
      if (run.restores.IsRestoring(*session)) return call->Fail(FailedPrecondition("this session is restoring"));
      if (run.captures.IsOpen(*session)) {
        return call->Fail(FailedPrecondition("the last checkpoint or output of this session is not ended"));
      }
      return run.outputs.Begin(session, call, request->output_begin());
    case local::Request::kRouteFile:
      return run.outputs.RouteFile(session, call, request->route_file());
    case local::Request::kOutputEnd:
      return run.outputs.End(session, call, request->output_end());
    case local::Request::kAbort:
      run.captures.Abort(*session, request->abort().reason());
      run.outputs.Abort(*session, request->abort().reason());
      call->Reply({});
      return run.waits.Changed();
    default:
      return call->Fail(InvalidArgument("request {} is unknown to this daemon", request->call()));
  }
}

void StrandCore::DispatchObserver(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  Run& run = *session->run;
  if (run.gate.replaced() && !request->has_close()) {
    return call->Fail(FailedPrecondition("the prefix was made anew: this run is history, open it again"));
  }
  switch (request->body_case()) {
    case local::Request::kTest:
      return run.levels.Test(call, request->test());
    case local::Request::kWait:
      return run.levels.Wait(*session, call, request->wait());
    case local::Request::kLatest:
      return run.levels.Latest(session, call);
    case local::Request::kFind:
      return run.levels.Find(call, request->find());
    case local::Request::kStored:
      return run.levels.Stored(session, call, request->stored());
    case local::Request::kRead:
      return run.restores.Read(session, call, request->read());
    case local::Request::kClose:
      return sessions_.Close(session, call);
    default:
      return call->Fail(
          FailedPrecondition("this session is an observer: it can ask for the latest dataset, for names, for what is "
                             "stored and for levels, and read; for all else open one that joins a launch"));
  }
}

// --- Quiesce, stop, reload ---

bool StrandCore::AnyCaptured() const {
  return std::ranges::any_of(runs_.all(), [](const auto& item) { return item.second->AnyCaptured(); });
}

void StrandCore::Quiesce(std::function<void(bool all_local)> done) {
  Post([this, done = std::move(done)] {
    context_.phase = std::max(context_.phase, Phase::kQuiescing);
    for (const auto& [id, run] : runs_.all()) run->Quiesce();
    on_quiesced_.push_back(done);
    if (quiesce_timer_ == 0) {
      // A flush that hangs breaks no promise: its dataset is `local`.
      quiesce_timer_ = context_.loop().After(std::chrono::milliseconds(context_.config.quiesce_ms), [this] {
        quiesce_timer_ = 0;
        const bool all_local = !AnyCaptured();
        if (!all_local) {
          spdlog::error("not all captured datasets reached `local` within {} ms", context_.config.quiesce_ms);
        }
        EndQuiescing(all_local);
      });
    }
    CheckQuiesced();
  });
}

void StrandCore::CheckQuiesced() {
  if (on_quiesced_.empty()) return;
  for (const auto& [id, run] : runs_.all()) run->LeaveNodes();
  if (slots_.copies() + slots_.commits > 0 || AnyCaptured()) return;
  bool ended = true;
  for (const auto& [id, run] : runs_.all()) ended = run->index.Quiesced() && run->nodes.out() && ended;
  if (!ended) return;
  if (quiesce_timer_ != 0) context_.loop().Cancel(std::exchange(quiesce_timer_, 0));
  EndQuiescing(/*all_local=*/true);
}

void StrandCore::EndQuiescing(bool all_local) {
  context_.phase = std::max(context_.phase, Phase::kQuiesced);
  for (const auto& done : std::exchange(on_quiesced_, {})) done(all_local);
}

void StrandCore::Stop(std::function<void()> done) {
  Post([this, done = std::move(done)] {
    context_.phase = Phase::kStopping;
    for (const auto& [id, run] : runs_.all()) run->Stop();
    transfers_.WhenNone([this, done] {
      images_.Stop();
      done();
    });
  });
}

void StrandCore::Reload(const Config& config) {
  Post([this, config] {
    Config& now = context_.config;
    now.flush = config.flush;
    now.ftiff = config.ftiff;
    now.prefix = config.prefix;
    now.checkpoint = config.checkpoint;
    now.cache.keep = config.cache.keep;
    now.cache.linger_ms = config.cache.linger_ms;
    now.cache.grace_ms = config.cache.grace_ms;
    now.cache.keep_damaged_ms = config.cache.keep_damaged_ms;
    now.cache.bypass = config.cache.bypass;
    now.quiesce_ms = config.quiesce_ms;
    if (config.cache.bytes_max != 0) room_.SetBytesMax(config.cache.bytes_max);
    slots_.throttle.SetLimit(config.flush.bytes_per_s);
    spdlog::info("configuration read anew");
    for (const auto& [id, run] : runs_.all()) {
      run->ApplyPolicy();
      run->cache.asides().ApplyPolicy();
    }
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Core>> Core::Start(const Config& config, const Environment& environment) {
  CAIRN_CHECK(config.image.bytes_max != 0);
  auto core = std::make_unique<StrandCore>(config, environment);
  CAIRN_RETURN_IF_ERROR(core->EnterCachedRuns());
  return core;
}

}  // namespace cairn
