// Connections, quiescing. What a request means is Requests', who may come in is Openings'.
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
#include "daemon/core/commands.h"
#include "daemon/core/context.h"
#include "daemon/core/disk_tuner.h"
#include "daemon/core/flush_slots.h"
#include "daemon/core/image_store.h"
#include "daemon/core/openings.h"
#include "daemon/core/rebuild_command.h"
#include "daemon/core/requests.h"
#include "daemon/core/run.h"
#include "daemon/core/run_report.h"
#include "daemon/core/runs.h"
#include "daemon/core/sessions.h"
#include "storage/base/caught.h"
#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/place/cache/node_identity.h"
#include "storage/place/cache/node_life.h"
#include "storage/place/prefix/ingest_record.h"

namespace cairn {
namespace {

using CallPtr = std::shared_ptr<Call>;
using RequestPtr = Requests::RequestPtr;

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
  void Announce(std::string text) override;
  void Warn(std::string text) override {
    Post([this, text = std::move(text)] { context_.Warn(text); });
  }

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
    Post([this, request, done = std::move(done)] { desk_.Flush(request, done); });
  }
  void Pin(const admin::PinRequest& request, std::function<void(admin::PinReply)> done) override {
    Post([this, request, done = std::move(done)] { desk_.Pin(request, done); });
  }
  void Remove(const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) override {
    Post([this, request, done = std::move(done)] { desk_.Remove(request, done); });
  }
  void Rebuild(const admin::RebuildRequest& request, std::function<void(admin::RebuildReply)> done) override {
    Post([this, request, done = std::move(done)] { desk_.Rebuild(request, done); });
  }
  void Leave(const admin::LeaveRequest& request, std::function<void(admin::LeaveReply)> done) override {
    Post([this, request, done = std::move(done)] { desk_.Leave(request, done); });
  }
  void Nodes(const admin::NodesRequest& request, std::function<void(absl::StatusOr<admin::NodesReply>)> done) override {
    Post([this, request, done = std::move(done)] { done(desk_.DescribeNodes(request)); });
  }

 private:
  void TellFolder(std::uint32_t failed);
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
  CallPtr MakeCall(Attached& attached, const local::Request& request);

  bool AnyCaptured() const;
  void CheckQuiesced();
  void EndQuiescing(bool all_local);

  Warnings warnings_;
  Transfers transfers_;
  FlushSlots slots_;
  Context context_;
  DiskTuner tuner_;
  ImageStore images_;
  CacheRoom room_;
  Runs runs_;
  Sessions sessions_;
  Openings openings_;
  Requests requests_;
  AdminDesk desk_;
  std::unordered_map<const Connection*, Attached> attached_;
  std::vector<std::function<void(bool)>> on_quiesced_;
  Loop::TimerId quiesce_timer_ = 0;
};

StrandCore::StrandCore(const Config& config, const Environment& environment)
    : transfers_(environment.background != nullptr
                     ? environment.background
                     : std::make_shared<BackgroundBudget>(config.background.beside_captures)),
      slots_(config.flush.bytes_per_s, transfers_.background()),
      context_{.env = environment, .config = config, .warnings = &warnings_, .transfers = &transfers_},
      tuner_(context_, [this] { return slots_.copies() > 0; }),
      images_(context_, config.image.bytes_max),
      room_(context_),
      runs_(context_, room_,
            [this](const RunId& run, const std::string& prefix_path, std::shared_ptr<CacheFolder> folder) {
              return MakeRun(run, prefix_path, std::move(folder));
            }),
      sessions_(context_, images_, *this),
      openings_(context_, *this, runs_, sessions_),
      requests_(context_, sessions_),
      desk_(context_, runs_, room_, images_, tuner_, environment.random()) {
  transfers_.OnBegun([this] { tuner_.GiveWay(); });
  slots_.OnCopyBegins([this] { tuner_.GiveWay(); });
}

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
                  .answer_node =
                      [this](Run& of, const peer::Question& question, const Questions::Then& then) {
                        if (commands::IsOne(question)) return commands::Answer(of, question, then);
                        if (question.has_remake()) return commands::Remake(of, question.remake(), then);
                        then(AnswerOf(of, context_, question));
                      },
                  .on_change = [this] { CheckQuiesced(); }},
      run, prefix_path, std::move(folder));
}

absl::Status StrandCore::EnterCachedRuns() {
  const Config& config = context_.config;
  const Process& process = context_.env.process;
  const std::string& node = config.cache.node.empty() ? process.host : config.cache.node;
  CAIRN_ASSIGN_OR_RETURN(NodeIdentity own,
                         OpenNode(context_.env.cache_disk, config.cache.path, process.user, node, config.cache.take));
  context_.cache_id = own.id;
  if (PeerAccess* const peers = context_.env.peers) {
    CAIRN_ASSIGN_OR_RETURN(context_.incarnation,
                           BeginLife(context_.env.cache_disk, config.cache.path, process.user, &own.warnings));
    CAIRN_RETURN_IF_ERROR(peers->Open(context_.loop(), own.id, context_.incarnation));
  }
  CAIRN_ASSIGN_OR_RETURN(CachedRuns cached, runs_.LoadCached());
  context_.loop().Run([&] {
    for (const std::string& warning : own.warnings) context_.Warn(warning);
    runs_.Enter(std::move(cached));
    tuner_.Begin();
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
  if (requests_.Say(session, request)) return;
  const CallPtr call = MakeCall(at->second, *request);
  if (call->answered()) return;
  if (request->has_open()) return openings_.Open(at->second.connection, call, request->open());
  if (!session) return call->Fail(FailedPrecondition("the first request after Hello must be Open"));
  requests_.Answer(session, call, request);
}

// --- Quiesce, stop, reload ---

bool StrandCore::AnyCaptured() const {
  return std::ranges::any_of(runs_.all(), [](const auto& item) { return item.second->AnyCaptured(); });
}

void StrandCore::Quiesce(std::function<void(bool all_local)> done) {
  Post([this, done = std::move(done)] {
    context_.phase = std::max(context_.phase, Phase::kQuiescing);
    tuner_.Stop();
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
  if (runs_.AnyLeft()) {  // whoever holds it would let go of it, if this daemon ended in order
    spdlog::error("what the last daemon had captured of runs whose folders could not be looked at is left to the next");
    all_local = false;
  }
  for (const auto& done : std::exchange(on_quiesced_, {})) done(all_local);
}

void StrandCore::Stop(std::function<void()> done) {
  Post([this, done = std::move(done)] {
    context_.phase = Phase::kStopping;
    tuner_.Stop();
    for (const auto& [id, run] : runs_.all()) run->Stop();
    transfers_.WhenNone([this, done] {
      images_.Stop();
      done();
    });
  });
}

void StrandCore::Announce(std::string text) {
  Post([this, text = std::move(text)] {
    context_.announcement = text;
    for (const auto& [id, run] : runs_.all()) run->announced.Update();
    const std::string& folder = context_.config.ingest.announce;
    if (folder.empty() || (folder == "~" && text.empty())) return;
    if (folder == "~") return context_.Warn("ingest.announce: this user has no home (HOME is not set)");
    TellFolder(/*failed=*/0);
  });
}

// A home may be mounted later than this daemon is started.
void StrandCore::TellFolder(std::uint32_t failed) {
  if (context_.quiescing()) return;
  const std::string& folder = context_.config.ingest.announce;
  const std::string text = context_.announcement.value_or("");
  auto tell = [disk = &context_.env.prefix_disk, folder, node = context_.cache_id, text] {
    return ingest_record::Tell(*disk, folder, node, text);
  };
  context_.OnPrefix(folder, std::move(tell), [this, failed, nothing = text.empty()](const absl::Status& told) {
    if (told.ok()) return;
    if (failed == 0) context_.Warn(fmt::format("ingest.announce: {}", MessageOf(told)));
    if (nothing) return;
    const Config::Flush& flush = context_.config.flush;
    const std::uint64_t pause_ms = std::min(flush.retry_ms_min << std::min(failed, 20u), flush.retry_ms_max);
    context_.loop().After(std::chrono::milliseconds(pause_ms), [this, failed] { TellFolder(failed + 1); });
  });
}

void StrandCore::Reload(const Config& config) {
  Post([this, config] {
    Config& now = context_.config;
    now.flush = config.flush;
    now.background.beside_captures = config.background.beside_captures;
    now.ftiff = config.ftiff;
    now.prefix = config.prefix;
    now.checkpoint = config.checkpoint;
    const std::string group = now.redundancy.group;  // the other nodes have been told of it
    now.redundancy = config.redundancy;
    now.redundancy.group = group;
    now.cache.keep = config.cache.keep;
    now.cache.linger_ms = config.cache.linger_ms;
    now.cache.grace_ms = config.cache.grace_ms;
    now.cache.keep_damaged_ms = config.cache.keep_damaged_ms;
    now.cache.bypass = config.cache.bypass;
    now.image.read_ahead = config.image.read_ahead;
    now.quiesce_ms = config.quiesce_ms;
    now.cache.reserve = config.cache.reserve;
    if (config.cache.bytes_max != 0) room_.SetBytesMax(config.cache.bytes_max);
    room_.WatchDisk();
    slots_.throttle.SetLimit(config.flush.bytes_per_s);
    transfers_.background()->SetLimit(config.background.beside_captures);
    spdlog::info("configuration read anew");
    for (const auto& [id, run] : runs_.all()) {
      run->protector.ConfigurationChanged();
      run->waits.Changed();
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
