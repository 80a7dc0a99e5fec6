#include "daemon/core/openings.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/core/launch_keeper.h"
#include "daemon/core/run.h"
#include "proto/frame.h"
#include "storage/base/check.h"
#include "storage/base/launch_key.h"
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

// So long nobody asks whether an opening could do without its prefix.
constexpr std::chrono::seconds kPatience{2};

// The prefix was asked about what the folder that is redundant itself has.
void TellJudged(Run& run, const PrefixLook& look) {
  for (const auto& [id, origin] : look.origins) run.tier.IsJudged(id);
}

}  // namespace

// --- One at a time ---

void Openings::Open(const std::shared_ptr<Connection>& connection, const std::shared_ptr<Call>& call,
                    const local::Open& open) {
  if (sessions_.Of(*connection) || IsOpening(*connection)) {
    return call->Fail(FailedPrecondition("this connection has a session already"));
  }
  if (absl::Status status = ValidateOpen(open); !status.ok()) return call->Fail(status);
  if (context_.quiescing()) return call->Fail(Unavailable("the daemon is going away"));
  Enqueue(std::make_shared<Opening>(
      Opening{.connection = connection, .call = call, .open = open, .begun = context_.now(), .prepared = {}}));
}

void Openings::Enqueue(const OpeningPtr& opening) {
  opening->call->WaitingFor(opening->silent.empty() ? fmt::format("the prefix {}", opening->open.prefix())
                                                    : opening->silent);
  auto& queue = queues_[opening->open.prefix()];
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

// By value: it may be the queue's own, which leaves the queue on the way.
void Openings::Prepare(OpeningPtr opening) {
  if (silent_.contains(opening->open.prefix())) return DoesNotAnswer(opening);
  opening->left = false;
  opening->asked_at = context_.now();
  opening->patience = context_.loop().After(kPatience, [this, opening] {
    opening->patience = 0;
    DoesNotAnswer(opening);
  });
  context_.OnPrefix(opening->open.prefix(),
                    Preparation(context_, opening->open.prefix(), opening->open.observer(), runs_.Known()),
                    [this, opening](const PreparedPtr& prepared) {
                      opening->prepared = prepared;
                      Answers(opening);
                    });
}

void Openings::RunKnown(const OpeningPtr& opening) {
  const Prepared& prepared = *opening->prepared;
  if (IsArbiterSilent(prepared.status)) return AwaitArbiter(opening, prepared.status);
  opening->silent.clear();
  if (!prepared.status.ok()) return Fail(opening, prepared.status);
  Run* const run = runs_.Find(prepared.prefix->run());
  if (run == nullptr) return LoadRun(opening);
  opened_as_[opening->open.prefix()] = run->id;
  RunReached(opening, *run);
}

// Its folder in the cache is new, or could not be read at the start. Once, however many open the prefix by whatever
// names: nothing of the run may be in use meanwhile.
void Openings::LoadRun(const OpeningPtr& opening) {
  const PreparedPtr prepared = opening->prepared;
  auto [waiting, first] = loading_.try_emplace(prepared->prefix->run());
  waiting->second.push_back(opening);
  if (!first) return;
  context_.OnCache(runs_.Loading(prepared->folder), [this, prepared](Runs::Loaded loaded) {
    const RunId id = prepared->prefix->run();
    const auto openings = std::move(loading_.extract(id).mapped());
    Warn(loaded.warnings);
    if (loaded.status.ok()) runs_.Add(id, prepared->path, prepared->folder, std::move(loaded.contents));
    for (const OpeningPtr& waited : openings) {
      if (!loaded.status.ok()) waited->prepared->status = Annotate(loaded.status, prepared->folder->path());
      RunKnown(waited);
    }
  });
}

void Openings::RunReached(const OpeningPtr& opening, Run& run) {
  const Prepared& prepared = *opening->prepared;
  Warn(prepared.warnings);
  TellWhere(run, prepared);
  run.gate.Reached(prepared.prefix, prepared.path, prepared.read_only);
  if (!run.inventory.prefix_adopted() && prepared.look) {
    Warn(prepared.look->warnings);
    TellJudged(run, *prepared.look);
    run.inventory.AdoptPrefix(*prepared.look);
    opening->looked = true;
  }
  run.watch.Found();
  if (opening->open.observer()) return Observe(opening, run);
  run.gate.LivesHere();
  run.keeper.TellConfirmed(prepared.confirmed);
  run.removals.Tidy();
  run.views.MakeMissing();
  runs_.LivesAt(run.gate.path(), run.id);
  LaunchSeen(run, prepared);
  Decide(opening, run);
}

// Where the run is now, and what its directory was before, is kept with the cache: a copy of the directory is told from
// it by that, and what was made under another identity of it is its own.
void Openings::TellWhere(Run& run, const Prepared& prepared) const {
  const RunIdentity& identity = prepared.prefix->identity();
  if (identity.made_now && identity.parent) {
    context_.Warn(
        fmt::format("{}: is a copy of run {}'s directory, and from now on a branch, run {}: its checkpoints can be "
                    "restored, what caches hold of the parent is not used. If it was moved and not copied: "
                    "`cairn run moved {}`",
                    prepared.path, identity.parent->Hex(), identity.run.Hex(), prepared.path));
  }
  const RunRecord record = run.folder->record();
  if (record.prefix == prepared.path && std::ranges::includes(record.run.before, identity.before)) return;
  if (record.prefix != prepared.path) {
    spdlog::info("run {}: its directory is {} now, it was {}", run.name, prepared.path, record.prefix);
  }
  context_.OnCache(
      [folder = run.folder, path = prepared.path, before = identity.before] {
        return folder->ChangeRecord([&](RunRecord& noted) {
          noted.prefix = path;
          noted.run.before.insert(before.begin(), before.end());
        });
      },
      [this, &run](const absl::Status& status) {
        if (!status.ok()) context_.Warn(fmt::format("run {}: {}", run.name, MessageOf(status)));
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
  const bool away = !opening->connection->node().empty();
  const Launch* const now = run.ledger.newest();
  if (away && (now == nullptr || !now->ours)) return ReferBack(opening);
  if (open.launch() != 0) return Reattach(opening, run);
  if (const Launch* newest = run.ledger.newest(); newest != nullptr && !newest->ours) {
    return DecideAgainstOther(opening, run);
  }
  if (NeverHeardOfItsSession(*opening, run)) return Join(opening, run);
  const auto decided = run.ledger.Decide(open.launch_key(), open.rank(), open.nranks(), open.takeover());
  if (!decided.ok()) return Fail(opening, decided.status());
  switch (*decided) {
    case Ledger::Joining::kJoin:
      return Join(opening, run);
    case Ledger::Joining::kMakeNew:
      return away ? ReferBack(opening) : MakeLaunch(opening, run);
    case Ledger::Joining::kBusy:
      if (IsRestartOf(open.launch_key(), run.ledger.newest()->key)) {
        return away ? ReferBack(opening) : MakeLaunch(opening, run);
      }
      if (sessions_.OnlyBroken(run)) return DecideLater(opening, run);
      return Busy(opening, run, sessions_.Describe(run));
  }
}

void Openings::Busy(const OpeningPtr& opening, const Run& run, const std::string& who) {
  opening->call->Fail(local::BUSY, fmt::format("launch {} of run {} is still alive ({}); wait for it, end it, or open "
                                               "with takeover",
                                               run.ledger.newest()->id, run.name, who));
  End(opening);
}

// It is a service that other nodes share: it may come back.
void Openings::AwaitArbiter(const OpeningPtr& opening, const absl::Status& silent) {
  constexpr std::chrono::milliseconds kPause(200);
  if (Run* const run = KnownByPath(opening->open.prefix())) run->keeper.watch().CouldNotLook();
  ArbiterWasSilent(*opening);
  opening->silent = fmt::format("word from the run's arbiter ({})", MessageOf(silent));
  opening->call->WaitingFor(opening->silent);
  LookAgain(opening, kPause);
}

// Others that open the same prefix have their turn meanwhile.
void Openings::LookAgain(const OpeningPtr& opening, std::chrono::milliseconds pause) {
  opening->job_asked = false;
  End(opening);
  context_.loop().After(pause, [this, opening] { Again(opening); });
}

void Openings::Again(const OpeningPtr& opening) {
  if (!IsUnheard(*opening) && !context_.quiescing()) return Enqueue(opening);
  opening->call->Fail(Unavailable("the daemon is going away"));
}

void Openings::DecideLater(const OpeningPtr& opening, Run& run) {
  opening->call->WaitingFor(fmt::format("the end of launch {} of run {}, whose streams broke and are kept for {} ms,",
                                        run.ledger.newest()->id, run.name, context_.config.ingest.resume_ms));
  End(opening);  // a rank that comes back opens the same prefix
  run.waits.Wait([this, opening, &run] {
    if (IsUnheard(*opening)) return true;
    if (sessions_.OnlyBroken(run)) return false;
    context_.loop().Post([this, opening] {
      if (!opening->call->answered()) Enqueue(opening);
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
  if (!launch->ours && context_.env.peers != nullptr && opening->prepared && opening->prepared->newest &&
      opening->prepared->newest->id == launch->id) {
    return AskHome(opening, run);
  }
  if (!launch->ours) {
    return Fail(opening, FailedPrecondition("launch {} is served by the daemon on {}: its ranks must come back there",
                                            launch->id, launch->maker));
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
  Join(opening, run);
}

// A launch that a daemon before this one has made goes on with ids and a lease of this one.
void Openings::Join(const OpeningPtr& opening, Run& run) {
  run.ids.Ensure([this, opening, &run, id = run.ledger.newest()->id](const absl::Status& status) {
    if (!status.ok()) return Fail(opening, status);
    const Launch* now = run.ledger.newest();
    if (now->id != id) return Decide(opening, run);  // another was made meanwhile
    const Prepared* prepared = opening->prepared.get();
    if (prepared != nullptr && prepared->newest && prepared->newest->id == id) {
      run.keeper.Resume(*prepared->newest);
      if (now->from_record) run.announced.Again();
      if (now->from_record && !IsUnheard(*opening)) run.others.LookForParts(id);
      if (now->from_record && run.tier.MayTakeUp(id)) run.tier.TakeUp([] {}, RedundantTier::For::kGoesOn);
    }
    Admit(opening, run, *now);
  });
}

// What making a launch has come to.
struct Openings::Made {
  absl::Status status;
  LaunchRecord record;
  LeaseRecord lease;
  IdBlock ids;
  PrefixLook look;
  SteadyTime began;
};

// In this order: the launch with its base, so that what counts is decided; its lease, so that others wait; its ids; a
// look at what it may restart from, which others may have changed since this daemon looked; then the cache's record, by
// which a later daemon knows under which launch it acts.
void Openings::MakeLaunch(const OpeningPtr& opening, Run& run) {
  if (TakeUpFirst(opening, run, /*offline=*/false) || BringFirst(opening, run)) return;
  TellIfNotAllHeard(*opening, run);
  Inventory::Known before = run.inventory.WhatIsKnown();
  const local::Open& open = opening->open;
  auto make =
      [prefix = run.gate.prefix(), folder = run.folder, after = opening->prepared->after(),
       wanted = NewLaunch{.key = open.launch_key(), .nranks = open.nranks(), .run = {}, .maker = ThisDaemon(context_)},
       above = run.ids.highest(), term_ms = context_.config.lease.term_ms, began = context_.now(),
       known = std::move(before.known), cached = std::move(before.cached)] {
        Made made;
        made.began = began;
        made.status = [&]() -> absl::Status {
          CAIRN_ASSIGN_OR_RETURN(made.record, prefix->MakeLaunch(wanted, after));
          CAIRN_ASSIGN_OR_RETURN(made.lease, prefix->MakeLease({.run = {},
                                                                .launch = made.record.id,
                                                                .cache = wanted.maker.cache,
                                                                .host = wanted.maker.host,
                                                                .pid = wanted.maker.pid,
                                                                .term_ms = term_ms,
                                                                .state = LeaseRecord::State::kLive,
                                                                .what = "just begun"}));
          CAIRN_ASSIGN_OR_RETURN(made.ids, prefix->ReserveIds(above));
          CAIRN_ASSIGN_OR_RETURN(made.look, LookAtPrefix(*prefix, *folder, known, cached));
          return folder->ChangeRecord([&](RunRecord& record) {
            record.served = made.record.id;
            record.job = SlurmJobOf(wanted.key);
          });
        }();
        if (!made.status.ok() && made.lease.epoch != 0) {  // nobody will serve it
          made.lease.state = LeaseRecord::State::kEnded;
          made.lease.what.clear();  // not known: what this cache has is not looked at here
          prefix->WriteLease(made.lease).IgnoreError();
        }
        return made;
      };
  making_.try_emplace(run.id);
  context_.OnPrefix(run.gate.path(), std::move(make),
                    [this, opening, &run, had = std::move(before.had)](const Made& made) {
                      if (made.status.ok()) {
                        Warn(made.look.warnings);
                        run.ids.Begin(made.ids);
                        TellJudged(run, made.look);
                        run.inventory.AdoptSince(made.look, had);
                      }
                      LaunchMade(opening, run, made);
                    });
}

void Openings::LaunchMade(const OpeningPtr& opening, Run& run, const Made& made) {
  const std::vector<OpeningPtr> waiting = std::move(making_.extract(run.id).mapped());
  if (made.status.ok()) {
    run.keeper.Begin(made.record, made.lease, made.began);
    run.announced.Again();
    const Launch& launch = sessions_.EnterLaunch(run, made.record, /*from_record=*/false);
    spdlog::info("run {}: launch {} with {} ranks", run.name, launch.id, launch.nranks);
    Admit(opening, run, launch);
    run.others.LaunchBegan(launch.id);
    run.tier.Tidy();
  } else if (absl::IsAborted(made.status) && made.record.id == 0) {
    Prepare(opening);  // somebody has made one meanwhile: whether it lives is another question
  } else if (IsArbiterSilent(made.status)) {
    AwaitArbiter(opening, made.status);
  } else {
    Fail(opening, made.status);
  }
  for (const OpeningPtr& next : waiting) Decide(next, run);
}

void Openings::Admit(const OpeningPtr& opening, Run& run, const Launch& launch) {
  if (IsUnheard(*opening)) {
    End(opening);
    return run.waits.Changed();  // others are not to wait for a launch that nobody is in
  }
  // A client may have asked again on the same connection while this one was put aside.
  if (sessions_.Of(*opening->connection)) {
    return Fail(opening, FailedPrecondition("this connection has a session already"));
  }
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
      run.gate.path(),
      [prefix = run.gate.prefix(), folder = run.folder, known = std::move(before.known),
       cached = std::move(before.cached)] { return LookAtPrefix(*prefix, *folder, known, cached); },
      [this, opening, &run, had = std::move(before.had)](const absl::StatusOr<PrefixLook>& look) {
        if (!look.ok()) return Fail(opening, look.status());
        Warn(look->warnings);
        if (!HasLaunch(run)) {
          TellJudged(run, *look);
          run.inventory.AdoptSince(*look, had);
        }
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
