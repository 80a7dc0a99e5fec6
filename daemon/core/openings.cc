#include "daemon/core/openings.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/core/run.h"
#include "proto/frame.h"
#include "storage/base/check.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/io/disk.h"

namespace cairn {
namespace {

absl::Status ValidateOpen(const local::Open& open) {
  if (open.prefix().empty() || open.prefix().front() != '/' || open.prefix().size() > CAIRN_NAME_BYTES_MAX ||
      open.prefix().find('\0') != std::string::npos) {
    return InvalidArgument("the prefix must be an absolute path of at most {} bytes", CAIRN_NAME_BYTES_MAX);
  }
  if (open.observer()) {
    if (open.launch() == 0 && open.launch_key().empty() && open.token().empty()) return absl::OkStatus();
    return InvalidArgument("an observer has no launch");
  }
  if (open.nranks() == 0 || open.nranks() > CAIRN_RANKS_MAX) {
    return InvalidArgument("{} ranks, 1 to {} are possible", open.nranks(), CAIRN_RANKS_MAX);
  }
  if (open.rank() >= open.nranks()) return InvalidArgument("rank {} of {} ranks", open.rank(), open.nranks());
  if (open.launch() == 0 && (open.launch_key().empty() || open.launch_key().size() > CAIRN_NAME_BYTES_MAX)) {
    return InvalidArgument("the launch key must have 1 to {} bytes", CAIRN_NAME_BYTES_MAX);
  }
  return absl::OkStatus();
}

}  // namespace

// What a pool does for an opening: it looks at the prefix, and, of a run whose prefix is not known yet, opens its
// folder in the cache.
class Openings::Preparation {
 public:
  Preparation(const Context& context, const local::Open& open, std::set<RunId> known)
      : prefix_disk_(context.env.prefix_disk),
        cache_disk_(context.env.cache_disk),
        cache_(context.config.cache.path),
        user_(context.env.process.user),
        path_(open.prefix()),
        observer_(open.observer()),
        known_(std::move(known)) {}

  PreparedPtr operator()() const {
    auto prepared = std::make_shared<Prepared>();
    prepared->status = observer_ ? ReachToRead(*prepared) : Reach(*prepared);
    if (prepared->status.ok()) prepared->status = Look(*prepared);
    return prepared;
  }

 private:
  absl::Status Reach(Prepared& prepared) const {
    CAIRN_RETURN_IF_ERROR(MakeDirectories(prefix_disk_, path_, 0755));
    const auto real = prefix_disk_.RealPath(path_);
    if (!real.ok()) return Unavailable("{}: cannot be resolved", path_);
    prepared.path = *real;
    CAIRN_ASSIGN_OR_RETURN(prepared.prefix, Prefix::Open(prefix_disk_, prepared.path));
    auto newest = prepared.prefix->NewestLaunch();
    if (newest.ok()) {
      prepared.newest = *std::move(newest);
    } else if (absl::IsDataLoss(newest.status())) {
      prepared.warnings.push_back(std::string(MessageOf(newest.status())));  // a new launch goes past it
    } else {
      return newest.status();
    }
    return absl::OkStatus();
  }

  // Nothing is made at the prefix, and where it cannot be written it is only read.
  absl::Status ReachToRead(Prepared& prepared) const {
    const auto real = prefix_disk_.RealPath(path_);
    if (!real.ok()) return NotFound("{}: there is no such directory", path_);
    prepared.path = *real;
    CAIRN_ASSIGN_OR_RETURN(prepared.prefix, Prefix::OpenReadOnly(prefix_disk_, prepared.path));
    if (prepared.prefix->run() == RunId()) return NotFound("{}: no run of Cairn's has this prefix", prepared.path);
    auto writable = Prefix::Open(prefix_disk_, prepared.path);
    prepared.read_only = !writable.ok();
    if (writable.ok()) prepared.prefix = *std::move(writable);
    return absl::OkStatus();
  }

  absl::Status Look(Prepared& prepared) const {
    const RunId& run = prepared.prefix->run();
    if (known_.contains(run)) return absl::OkStatus();
    CAIRN_ASSIGN_OR_RETURN(prepared.look, LookAtPrefix(*prepared.prefix, {}));
    CAIRN_ASSIGN_OR_RETURN(prepared.folder,
                           CacheFolder::Open(cache_disk_, cache_, user_, BaseOf(prepared.path), run, prepared.path));
    return absl::OkStatus();
  }

  Disk& prefix_disk_;
  Disk& cache_disk_;
  std::string cache_, user_, path_;
  bool observer_;
  std::set<RunId> known_;  // runs whose prefix is known
};

// --- One at a time ---

void Openings::Open(const std::shared_ptr<Connection>& connection, const std::shared_ptr<Call>& call,
                    const local::Open& open) {
  if (sessions_.Of(*connection) || IsOpening(*connection)) {
    return call->Fail(FailedPrecondition("this connection has a session already"));
  }
  if (absl::Status status = ValidateOpen(open); !status.ok()) return call->Fail(status);
  if (context_.quiescing()) return call->Fail(Unavailable("the daemon is going away"));
  call->WaitingFor(fmt::format("the prefix {}", open.prefix()));
  const auto opening = std::make_shared<Opening>(Opening{.connection = connection, .call = call, .open = open});
  auto& queue = queues_[open.prefix()];
  // Those whose deadline has passed go, so that repeated requests cannot grow the queue; the first one is under way.
  std::erase_if(queue, [&queue](const OpeningPtr& other) { return other != queue.front() && other->call->answered(); });
  queue.push_back(opening);
  if (queue.size() == 1) Prepare(opening);
}

bool Openings::IsOpening(const Connection& connection) const {
  return std::any_of(queues_.begin(), queues_.end(), [&connection](const auto& item) {
    return std::any_of(item.second.begin(), item.second.end(), [&connection](const OpeningPtr& opening) {
      return opening->connection.get() == &connection && !opening->call->answered();
    });
  });
}

bool Openings::IsUnheard(const Opening& opening) const {
  return opening.call->answered() || !connections_.IsAttached(*opening.connection);
}

void Openings::End(const OpeningPtr& opening) {
  const auto queue = queues_.find(opening->open.prefix());
  CAIRN_CHECK(queue != queues_.end() && queue->second.front() == opening);
  do {  // and those behind it whose deadline has passed meanwhile
    queue->second.pop_front();
  } while (!queue->second.empty() && queue->second.front()->call->answered());
  if (!queue->second.empty()) return Prepare(queue->second.front());
  queues_.erase(queue);
}

void Openings::Fail(const OpeningPtr& opening, const absl::Status& status) {
  opening->call->Fail(status);
  End(opening);
}

void Openings::Answer(const OpeningPtr& opening, local::OpenReply opened) {
  local::Reply reply;
  *reply.mutable_open() = std::move(opened);
  opening->call->Reply(std::move(reply));
  End(opening);
}

// --- The run ---

void Openings::Prepare(const OpeningPtr& opening) {
  context_.OnPrefix(Preparation(context_, opening->open, runs_.Adopted()),
                    [this, opening](const PreparedPtr& prepared) { RunKnown(opening, prepared); });
}

void Openings::RunKnown(const OpeningPtr& opening, const PreparedPtr& prepared) {
  if (!prepared->status.ok()) return Fail(opening, prepared->status);
  Run* const run = runs_.Find(prepared->prefix->run());
  if (run == nullptr) return LoadRun(opening, prepared);
  RunReached(opening, *run, *prepared);
}

// Its folder in the cache is new, or could not be read at the start. Once, however many open the prefix by whatever
// names: nothing of the run may be in use meanwhile.
void Openings::LoadRun(const OpeningPtr& opening, const PreparedPtr& prepared) {
  auto [waiting, first] = loading_.try_emplace(prepared->prefix->run());
  waiting->second.emplace_back(opening, prepared);
  if (!first) return;
  context_.OnCache([folder = prepared->folder] { return LookAtCache(*folder); },
                   [this, prepared](absl::StatusOr<CacheContents> contents) {
                     const RunId id = prepared->prefix->run();
                     const auto openings = std::move(loading_.extract(id).mapped());
                     if (contents.ok()) runs_.Add(id, prepared->path, prepared->folder, *std::move(contents));
                     for (const auto& [waited, its] : openings) {
                       if (!contents.ok()) its->status = Annotate(contents.status(), prepared->folder->path());
                       RunKnown(waited, its);
                     }
                   });
}

void Openings::RunReached(const OpeningPtr& opening, Run& run, const Prepared& prepared) {
  Warn(prepared.warnings);
  run.gate.Reached(prepared.prefix, prepared.read_only);
  if (!run.inventory.prefix_adopted()) {
    run.gate.MovedTo(prepared.path);
    Warn(prepared.look.warnings);
    run.inventory.AdoptPrefix(prepared.look);
    opening->looked = true;
  }
  if (opening->open.observer()) return Observe(opening, run);
  run.gate.LivesHere();
  run.removals.Tidy();
  run.views.MakeMissing();
  runs_.LivesAt(run.gate.path(), run.id);
  LaunchSeen(run, prepared);
  run.ids.Ensure([this, opening, &run](const absl::Status& status) {
    if (!status.ok()) return Fail(opening, status);
    Decide(opening, run);
  });
}

// Made by another daemon, or by one before this one. One that is being made here is entered when it is.
void Openings::LaunchSeen(Run& run, const Prepared& prepared) {
  if (!prepared.newest || making_.contains(run.id)) return;
  const Launch* known = run.ledger.newest();
  if (known != nullptr && known->id >= prepared.newest->id) return;
  sessions_.EnterLaunch(run, *prepared.newest, /*from_record=*/true);
}

void Openings::Warn(const std::vector<std::string>& warnings) const {
  for (const std::string& warning : warnings) context_.Warn(warning);
}

// --- The launch ---

void Openings::Decide(const OpeningPtr& opening, Run& run) {
  if (IsUnheard(*opening)) return End(opening);
  if (const auto making = making_.find(run.id); making != making_.end()) {  // by one that names the prefix differently
    return making->second.push_back(opening);
  }
  const local::Open& open = opening->open;
  if (open.launch() != 0) return Reattach(opening, run);
  if (NeverHeardOfItsSession(*opening, run)) return Admit(opening, run, *run.ledger.newest());
  const auto decided = run.ledger.Decide(open.launch_key(), open.rank(), open.nranks(), open.takeover());
  if (!decided.ok()) return Fail(opening, decided.status());
  switch (*decided) {
    case Ledger::Joining::kJoin:
      return Admit(opening, run, *run.ledger.newest());
    case Ledger::Joining::kMakeNew:
      return MakeLaunch(opening, run);
    case Ledger::Joining::kBusy:
      if (sessions_.OnlyBroken(run)) return DecideLater(opening, run);
      opening->call->Fail(local::BUSY, fmt::format("launch {} of run {} is still alive ({}); wait for it, end it, or "
                                                   "open with takeover",
                                                   run.ledger.newest()->id, run.name, sessions_.Describe(run)));
      return End(opening);
  }
}

void Openings::DecideLater(const OpeningPtr& opening, Run& run) {
  opening->call->WaitingFor(fmt::format("the end of launch {} of run {}, whose streams broke and are kept for {} ms,",
                                        run.ledger.newest()->id, run.name, context_.config.ingest.resume_ms));
  End(opening);  // a rank that comes back opens the same prefix
  run.waits.Wait([this, opening, &run] {
    if (IsUnheard(*opening)) return true;
    if (sessions_.OnlyBroken(run)) return false;
    context_.loop().Post([this, opening] {
      if (!opening->call->answered()) Open(opening->connection, opening->call, opening->open);
    });
    return true;
  });
}

// The stream broke under the answer to this client's first Open: it opens again and has no token to show.
bool Openings::NeverHeardOfItsSession(const Opening& opening, const Run& run) const {
  const local::Open& open = opening.open;
  const Launch* launch = run.ledger.newest();
  if (launch == nullptr || launch->key != open.launch_key() || launch->nranks != open.nranks()) return false;
  const Sessions::ByRank& sessions = sessions_.RanksOf(run);
  const auto known = sessions.find(open.rank());
  if (known == sessions.end()) return false;
  const Session& session = *known->second;
  return !session.ended && !session.used && !session.connection && session.peer == opening.connection->peer();
}

void Openings::Reattach(const OpeningPtr& opening, Run& run) {
  const local::Open& open = opening->open;
  const Launch* launch = run.ledger.newest();
  if (launch == nullptr || launch->id != open.launch()) {
    opening->call->Fail(local::FENCED, fmt::format("launch {} has been shut out: launch {} has taken over",
                                                   open.launch(), launch ? launch->id : 0));
    return End(opening);
  }
  if (launch->nranks != open.nranks()) {
    return Fail(opening, InvalidArgument("launch {} has {} ranks, this rank says {}", launch->id, launch->nranks,
                                         open.nranks()));
  }
  if (!Sessions::IsToken(open.token(), *launch, open.rank())) {
    return Fail(opening, PermissionDenied("launch {}: the token of rank {} is not right", launch->id, open.rank()));
  }
  if (launch->ranks[open.rank()] == RankState::kClosed) {
    return Fail(opening, FailedPrecondition("launch {}: rank {} has closed its session", launch->id, open.rank()));
  }
  Admit(opening, run, *launch);
}

// Someone else may have committed datasets since this daemon looked (`cairn adopt` does): a new launch restarts from
// the newest there is, so it is looked again first.
void Openings::MakeLaunch(const OpeningPtr& opening, Run& run) {
  struct Made {
    PrefixLook look;
    absl::StatusOr<LaunchRecord> record = absl::UnknownError("");
  };
  Inventory::Known before = run.inventory.WhatIsKnown();
  auto make = [prefix = run.gate.prefix(), key = opening->open.launch_key(), nranks = opening->open.nranks(),
               looked = opening->looked, known = std::move(before.known)] {
    Made made;
    made.record = [&]() -> absl::StatusOr<LaunchRecord> {
      if (!looked) {
        CAIRN_ASSIGN_OR_RETURN(made.look, LookAtPrefix(*prefix, known));
      }
      return prefix->MakeLaunch(key, nranks);
    }();
    return made;
  };
  making_.try_emplace(run.id);
  context_.OnPrefix(std::move(make), [this, opening, &run, had = std::move(before.had)](const Made& made) {
    if (!made.record.ok()) return LaunchMade(opening, run, made.record);
    Warn(made.look.warnings);
    if (!opening->looked) run.inventory.AdoptSince(made.look, had);
    run.ids.Ensure([this, opening, &run, record = *made.record](const absl::Status& status) {
      LaunchMade(opening, run, status.ok() ? absl::StatusOr<LaunchRecord>(record) : status);
    });
  });
}

void Openings::LaunchMade(const OpeningPtr& opening, Run& run, const absl::StatusOr<LaunchRecord>& record) {
  const std::vector<OpeningPtr> waiting = std::move(making_.extract(run.id).mapped());
  if (record.ok()) {
    const Launch& launch = sessions_.EnterLaunch(run, *record, /*from_record=*/false);
    spdlog::info("run {}: launch {} with {} ranks", run.name, launch.id, launch.nranks);
    Admit(opening, run, launch);
  } else {
    Fail(opening, record.status());
  }
  for (const OpeningPtr& next : waiting) Decide(next, run);
}

void Openings::Admit(const OpeningPtr& opening, Run& run, const Launch& launch) {
  if (IsUnheard(*opening)) return End(opening);
  Answer(opening, sessions_.Admit(opening->connection, opening->open, run, launch));
  run.waits.Changed();
}

// --- Observers: of no launch, so they are never BUSY, shut nobody out, and nothing waits for them ---

// What others have committed since this daemon looked counts, too. While a launch of the run lives here, this daemon
// commits for it, and what it knows is left as it is.
void Openings::Observe(const OpeningPtr& opening, Run& run) {
  if (opening->looked || HasLaunch(run)) return AdmitObserver(opening, run);
  Inventory::Known before = run.inventory.WhatIsKnown();
  context_.OnPrefix(
      [prefix = run.gate.prefix(), known = std::move(before.known)] { return LookAtPrefix(*prefix, known); },
      [this, opening, &run, had = std::move(before.had)](const absl::StatusOr<PrefixLook>& look) {
        if (!look.ok()) return Fail(opening, look.status());
        Warn(look->warnings);
        if (!HasLaunch(run)) run.inventory.AdoptSince(*look, had);
        AdmitObserver(opening, run);
      });
}

bool Openings::HasLaunch(const Run& run) const {
  return !sessions_.RanksOf(run).empty() || making_.contains(run.id);
}

void Openings::AdmitObserver(const OpeningPtr& opening, Run& run) {
  if (IsUnheard(*opening)) return End(opening);
  Answer(opening, sessions_.AdmitObserver(opening->connection, run));
}

}  // namespace cairn
