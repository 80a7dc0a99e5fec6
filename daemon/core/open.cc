// Launches and sessions: who may join, who is shut out, what a lost rank means. design.md, "Identity".
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>

#include "daemon/core/core_impl.h"
#include "daemon/core/opening.h"
#include "proto/frame.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kDescribedAtOpen = 8;

// A token proves that its bearer was given this rank by this launch: any daemon that can read the launch's record can
// check it, so that it holds over a restart of the daemon.
std::string TokenOf(const std::string& secret, Rank rank) {
  const std::string text = fmt::format("cairn session, rank {}", rank);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  const unsigned char* ok = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                 reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &bytes);
  CAIRN_CHECK(ok != nullptr);
  return std::string(reinterpret_cast<const char*>(digest), bytes);
}

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

absl::StatusOr<std::string> RealPath(Disk& disk, const std::string& path) {
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, path, 0755));
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return Unavailable("{}: cannot be resolved", path);
  std::string real = resolved;
  std::free(resolved);
  return real;
}

}  // namespace

// --- Open: one at a time for each prefix, so that two ranks of a launch never both make it ---

void CoreImpl::HandleOpen(const std::shared_ptr<Connection>& connection, const CallPtr& call, const local::Open& open) {
  ConnectionState& state = connections_[connection.get()];
  if (state.session || (state.opening && !state.opening->call->answered())) {
    return call->Fail(FailedPrecondition("this connection has a session already"));
  }
  if (absl::Status status = ValidateOpen(open); !status.ok()) return call->Fail(status);
  if (quiescing_) return call->Fail(Unavailable("the daemon is going away"));
  call->WaitingFor(fmt::format("the prefix {}", open.prefix()));
  auto opening = std::make_shared<Opening>(Opening{connection, call, open});
  state.opening = opening;
  auto& queue = openings_[open.prefix()];
  queue.push_back(opening);
  if (queue.size() == 1) PrepareOpening(opening);
}

void CoreImpl::EndOpening(std::shared_ptr<Opening> opening) {
  auto queue = openings_.find(opening->open.prefix());
  CAIRN_CHECK(queue != openings_.end() && queue->second.front() == opening);
  do {  // and those behind it whose deadline has passed meanwhile
    const std::shared_ptr<Opening>& ended = queue->second.front();
    auto at = connections_.find(ended->connection.get());
    if (at != connections_.end() && at->second.opening == ended) at->second.opening = nullptr;
    queue->second.pop_front();
  } while (!queue->second.empty() && queue->second.front()->call->answered());
  if (!queue->second.empty()) return PrepareOpening(queue->second.front());
  openings_.erase(queue);
}

void CoreImpl::PrepareOpening(std::shared_ptr<Opening> opening) {
  if (opening->open.observer()) return PrepareObserving(opening);
  std::set<RunId> known;
  for (const auto& [id, run] : runs_) {
    if (run->adopted) known.insert(id);
  }
  auto work = [this, path = opening->open.prefix(), known]() -> std::shared_ptr<Prepared> {
    auto prepared = std::make_shared<Prepared>();
    prepared->status = [&]() -> absl::Status {
      CAIRN_ASSIGN_OR_RETURN(prepared->path, RealPath(prefix_disk_, path));
      CAIRN_ASSIGN_OR_RETURN(auto prefix, Prefix::Open(prefix_disk_, prepared->path));
      prepared->prefix = std::move(prefix);
      auto newest = prepared->prefix->NewestLaunch();
      if (newest.ok()) {
        prepared->newest = *newest;
      } else if (newest.status().code() == absl::StatusCode::kDataLoss) {
        prepared->warnings.push_back(std::string(MessageOf(newest.status())));  // a new launch goes past it
      } else {
        return newest.status();
      }
      if (known.contains(prepared->prefix->run())) return absl::OkStatus();
      CAIRN_RETURN_IF_ERROR(ReadCommitted(*prepared->prefix, {}, &prepared->committed));
      CAIRN_ASSIGN_OR_RETURN(auto cache,
                             CacheFolder::Open(cache_disk_, config_.cache.path, process_.user, BaseOf(prepared->path),
                                               prepared->prefix->run(), prepared->path));
      prepared->cache = std::move(cache);
      return absl::OkStatus();
    }();
    return prepared;
  };
  BlockingPrefix(std::move(work), [this, opening](std::shared_ptr<Prepared> prepared) { RunKnown(opening, prepared); });
}

// Blocks. Catalogues are read of those that a restart may want; a long run has many more datasets, whose catalogues are
// read when they are asked for.
absl::Status CoreImpl::ReadCommitted(Prefix& prefix, const std::set<DatasetId>& known, Committed* committed) {
  CAIRN_ASSIGN_OR_RETURN(committed->found, prefix.Contents());
  committed->warnings = prefix.TakeWarnings();
  const auto& datasets = committed->found.datasets;
  std::size_t read = 0;
  for (auto at = datasets.rbegin(); at != datasets.rend() && read < kDescribedAtOpen; ++at) {
    const DatasetId id = at->first;
    if (known.contains(id) || !at->second.by_cairn) continue;  // SCR's own are described by reading all their data
    ++read;
    auto catalogues = prefix.Catalogues(id);
    if (catalogues.ok()) {
      committed->catalogues[id] = *std::move(catalogues);
    } else {
      committed->warnings.push_back(fmt::format("dataset {}: {}", id, MessageOf(catalogues.status())));
    }
  }
  return absl::OkStatus();
}

// Its folder in the cache is new, or could not be read at the start. Once, however many open the prefix by whatever
// names: nothing of the run may be in use meanwhile.
void CoreImpl::LoadRun(std::shared_ptr<Opening> opening, std::shared_ptr<Prepared> prepared) {
  auto [waiting, first] = loading_.try_emplace(prepared->prefix->run());
  waiting->second.emplace_back(opening, prepared);
  if (!first) return;
  BlockingCache([cache = prepared->cache] { return LoadFolder(cache); },
                [this, prepared](absl::StatusOr<Loaded> loaded) {
                  const RunId id = prepared->prefix->run();
                  const auto openings = std::move(loading_.extract(id).mapped());
                  if (loaded.ok()) AdoptCached(AddRun(id, prepared->path, prepared->cache), *std::move(loaded));
                  for (const auto& [waited, its] : openings) {
                    if (!loaded.ok()) its->status = Annotate(loaded.status(), prepared->cache->path());
                    RunKnown(waited, its);
                  }
                });
}

void CoreImpl::RunKnown(std::shared_ptr<Opening> opening, std::shared_ptr<Prepared> prepared) {
  if (!prepared->status.ok()) {
    opening->call->Fail(prepared->status);
    return EndOpening(opening);
  }
  const RunId id = prepared->prefix->run();
  auto at = runs_.find(id);
  if (at == runs_.end()) return LoadRun(opening, prepared);
  for (const std::string& warning : prepared->warnings) Warn(warning);
  const RunPtr run = at->second;
  // A flush may have opened it before.
  if (!run->prefix || (run->prefix_read_only && !prepared->read_only)) {
    run->prefix = prepared->prefix;
    run->prefix_read_only = prepared->read_only;
  }
  if (!std::exchange(run->adopted, true)) {
    run->prefix_path = prepared->path;
    for (const std::string& warning : prepared->committed.warnings) Warn(warning);
    AdoptCommitted(run, prepared->committed);
    opening->looked = true;
  }
  if (opening->open.observer()) return RunObserved(opening, run);
  run->replaced = false;
  TidyPrefix(run);
  MakeMissingViews(run);
  for (auto& [other_id, other] : runs_) {
    if (other_id != id && other->prefix_path == run->prefix_path) Replaced(other, id);
  }
  // Made by another daemon, or by one before this one. One that is being made here is entered when it is.
  if (prepared->newest && !run->making_launch &&
      (run->ledger.newest() == nullptr || run->ledger.newest()->id < prepared->newest->id)) {
    EnterLaunch(run, *prepared->newest).from_record = true;
  }
  if (run->ids.count > 0) return Decide(opening, run);
  ReserveIds(run, [this, opening, run](const absl::Status& status) {
    if (status.ok()) return Decide(opening, run);
    opening->call->Fail(status);
    EndOpening(opening);
  });
}

// The cache may hold several runs that had the same prefix, one after the other.
void CoreImpl::TellRunsApart(const std::string& prefix_path) {
  const auto lived_there = [&](const auto& item) { return item.second->prefix_path == prefix_path; };
  if (std::count_if(runs_.begin(), runs_.end(), lived_there) < 2) return;
  BlockingPrefix(
      [this, prefix_path] {
        const auto prefix = Prefix::OpenReadOnly(prefix_disk_, prefix_path);
        return prefix.ok() ? (*prefix)->run() : RunId();
      },
      [this, prefix_path](const RunId& now) {
        if (now == RunId()) return;  // out of reach: whoever opens it finds out
        for (auto& [id, run] : runs_) {
          if (run->prefix_path == prefix_path && id != now) Replaced(run, now);
        }
      });
}

// Another run lives at its prefix now.
void CoreImpl::Replaced(const RunPtr& run, const RunId& by) {
  if (std::exchange(run->replaced, true)) return;
  Warn(fmt::format("{}: the prefix was made anew as run {}; run {} is history", run->prefix_path, by.Hex(),
                   run->id.Hex()));
  for (auto& [dataset, job] : run->flushes) job->progress->stop = true;
}

// The newer of two datasets has the higher id: a block below one that has become known meanwhile is of no use.
void CoreImpl::ReserveIds(const RunPtr& run, std::function<void(absl::Status)> then) {
  BlockingPrefix([prefix = run->prefix, above = run->highest_id] { return prefix->ReserveIds(above); },
                 [this, run, then = std::move(then)](absl::StatusOr<Prefix::IdBlock> block) {
                   if (!block.ok()) return then(block.status());
                   if (block->first <= run->highest_id) return ReserveIds(run, then);
                   (run->ids.count == 0 ? run->ids : run->next_ids) = *block;
                   run->highest_id = std::max(run->highest_id, block->first + block->count - 1);
                   then(absl::OkStatus());
                 });
}

void CoreImpl::Decide(std::shared_ptr<Opening> opening, const RunPtr& run) {
  if (opening->call->answered() || !connections_.contains(opening->connection.get())) return EndOpening(opening);
  if (run->making_launch) {  // by one that names the prefix differently
    run->launch_waiters.push_back([this, opening, run] { Decide(opening, run); });
    return;
  }
  if (opening->open.launch() != 0) return Reattach(opening, run);
  if (NeverHeardOfItsSession(*opening, *run)) return Admit(opening, run, *run->ledger.newest());
  const local::Open& open = opening->open;
  auto decided = run->ledger.Decide(open.launch_key(), open.rank(), open.nranks(), open.takeover());
  if (!decided.ok()) {
    opening->call->Fail(decided.status());
    return EndOpening(opening);
  }
  switch (*decided) {
    case Ledger::Joining::kJoin:
      return Admit(opening, run, *run->ledger.newest());
    case Ledger::Joining::kMakeNew:
      return MakeLaunch(opening, run);
    case Ledger::Joining::kBusy: {
      if (OnlyBrokenStreams(*run)) return DecideLater(opening, run);
      std::string who;
      for (const auto& [rank, session] : run->sessions) {
        if (session->ended) continue;
        if (!who.empty()) who += ", ";
        who += fmt::format("rank {}: {} (pid {}) on {}", rank, session->peer.program, session->peer.pid,
                           session->peer.host);
        if (who.size() > 500) break;
      }
      opening->call->Fail(local::BUSY, fmt::format("launch {} of run {} is still alive ({}); wait for it, end it, or "
                                                   "open with takeover",
                                                   run->ledger.newest()->id, run->name, who));
      return EndOpening(opening);
    }
  }
}

// Of the newest launch nothing but broken streams is left: whether its ranks live is known when they come back, or when
// their time is up.
bool CoreImpl::OnlyBrokenStreams(const Run& run) {
  bool any = false;
  for (const auto& [rank, session] : run.sessions) {
    if (session->ended) continue;
    if (session->connection) return false;
    any = true;
  }
  return any;
}

void CoreImpl::DecideLater(std::shared_ptr<Opening> opening, const RunPtr& run) {
  opening->call->WaitingFor(fmt::format("the end of launch {} of run {}, whose streams broke and are kept for {} ms,",
                                        run->ledger.newest()->id, run->name, config_.ingest.resume_ms));
  EndOpening(opening);  // who comes back opens the same prefix
  Watch(run, [this, opening, run] {
    const auto at = connections_.find(opening->connection.get());
    if (opening->call->answered() || at == connections_.end()) return true;
    if (OnlyBrokenStreams(*run)) return false;
    loop_.Post([this, opening] {
      if (!opening->call->answered()) HandleOpen(opening->connection, opening->call, opening->open);
    });
    return true;
  });
}

// The stream broke under the answer to this client's first Open: it opens again and has no token to show.
bool CoreImpl::NeverHeardOfItsSession(const Opening& opening, Run& run) {
  const local::Open& open = opening.open;
  const Launch* launch = run.ledger.newest();
  if (launch == nullptr || launch->key != open.launch_key() || launch->nranks != open.nranks()) return false;
  const auto known = run.sessions.find(open.rank());
  if (known == run.sessions.end()) return false;
  const Session& session = *known->second;
  return !session.ended && !session.used && !session.connection && session.peer == opening.connection->peer();
}

void CoreImpl::Reattach(std::shared_ptr<Opening> opening, const RunPtr& run) {
  const local::Open& open = opening->open;
  Launch* launch = run->ledger.newest();
  absl::Status wrong;
  if (launch == nullptr || launch->id != open.launch()) {
    opening->call->Fail(local::FENCED, fmt::format("launch {} has been shut out: launch {} has taken over",
                                                   open.launch(), launch ? launch->id : 0));
    return EndOpening(opening);
  }
  if (launch->nranks != open.nranks()) {
    wrong = InvalidArgument("launch {} has {} ranks, this rank says {}", launch->id, launch->nranks, open.nranks());
  } else if (open.token() != TokenOf(launch->secret, open.rank())) {
    wrong = PermissionDenied("launch {}: the token of rank {} is not right", launch->id, open.rank());
  } else if (launch->ranks[open.rank()].state == RankSlot::State::kClosed) {
    wrong = FailedPrecondition("launch {}: rank {} has closed its session", launch->id, open.rank());
  }
  if (!wrong.ok()) {
    opening->call->Fail(wrong);
    return EndOpening(opening);
  }
  Admit(opening, run, *launch);
}

// Datasets that need not be read again, and those that were on the prefix when it was last looked at.
void CoreImpl::WhatIsKnown(const Run& run, std::set<DatasetId>* known, std::set<DatasetId>* had) {
  for (const auto& [id, dataset] : run.ledger.datasets()) {
    known->insert(id);
    if (dataset->in_prefix) had->insert(id);
  }
  for (const auto& [id, gone] : run.ledger.gone()) {
    if (!run.taken_out.contains(id)) known->insert(id);
  }
}

// Someone else may have committed datasets since this daemon looked (`cairn adopt` does): a new launch restarts from
// the newest there is, so it is looked again first.
void CoreImpl::MakeLaunch(std::shared_ptr<Opening> opening, const RunPtr& run) {
  struct Made {
    Committed committed;
    absl::StatusOr<LaunchRecord> record = absl::UnknownError("");
  };
  std::set<DatasetId> known, had;
  WhatIsKnown(*run, &known, &had);
  auto make = [prefix = run->prefix, key = opening->open.launch_key(), nranks = opening->open.nranks(),
               looked = opening->looked, known = std::move(known)] {
    Made made;
    const absl::Status read = looked ? absl::OkStatus() : ReadCommitted(*prefix, known, &made.committed);
    made.record = read.ok() ? prefix->MakeLaunch(key, nranks) : absl::StatusOr<LaunchRecord>(read);
    return made;
  };
  run->making_launch = true;
  BlockingPrefix(std::move(make), [this, opening, run, had = std::move(had)](Made made) {
    const auto end = [this, opening, run, record = made.record](const absl::Status& status) {
      run->making_launch = false;
      if (status.ok()) {
        LaunchMade(opening, run, *record);
      } else {
        opening->call->Fail(status);
        EndOpening(opening);
      }
      for (auto& decide : std::exchange(run->launch_waiters, {})) decide();
    };
    if (!made.record.ok()) return end(made.record.status());
    for (const std::string& warning : made.committed.warnings) Warn(warning);
    if (!opening->looked) AdoptSince(run, made.committed, had);
    if (run->ids.count > 0) return end(absl::OkStatus());
    ReserveIds(run, end);
  });
}

void CoreImpl::LaunchMade(std::shared_ptr<Opening> opening, const RunPtr& run, const LaunchRecord& record) {
  Launch& launch = EnterLaunch(run, record);
  spdlog::info("run {}: launch {} with {} ranks", run->name, launch.id, launch.nranks);
  Admit(opening, run, launch);
}

// From now on everything that an older launch sends is refused.
Launch& CoreImpl::EnterLaunch(const RunPtr& run, const LaunchRecord& record) {
  for (auto& [rank, session] : std::map(run->sessions)) EndSession(session, /*closed=*/false);
  run->restored_files.clear();
  Launch& launch = run->ledger.Enter(record.id, record.key, record.nranks, record.secret);
  launch.bound = run->bound;
  launch.bound_set_us = run->bound_set_us;
  for (const auto& [id, dataset] : run->ledger.datasets()) {
    if (dataset->launch == launch.id) launch.checkpoints = std::max(launch.checkpoints, dataset->ordinal);
  }
  return launch;
}

void CoreImpl::Admit(std::shared_ptr<Opening> opening, const RunPtr& run, Launch& launch) {
  auto at = connections_.find(opening->connection.get());
  if (opening->call->answered() || at == connections_.end()) return EndOpening(opening);
  const Rank rank = opening->open.rank();
  SessionPtr session;
  auto known = run->sessions.find(rank);
  if (known != run->sessions.end() && known->second->connection && !known->second->connection->resumable()) {
    // Its process has hung up, which has not been seen yet: what was in flight is lost, the rank is not.
    EndSession(known->second, /*closed=*/false);
    known = run->sessions.find(rank);
  }
  if (known != run->sessions.end() && !known->second->ended) {
    // The old connection of this rank is broken, or about to be found so.
    session = known->second;
    if (session->resume_timer != 0) loop_.Cancel(std::exchange(session->resume_timer, 0));
    if (session->connection) {
      SessionLeftRestore(session);
      AbandonCalls(*session->connection);
      if (auto old = connections_.find(session->connection.get()); old != connections_.end())
        old->second.session = nullptr;
      session->connection->Close();
    }
    session->known_images.clear();
    session->plan.reset();
  } else {
    session = std::make_shared<Session>();
    session->id = ++last_session_;
    session->run = run;
    session->launch = launch.id;
    session->rank = rank;
    run->sessions[rank] = session;
    run->ledger.SessionLive(launch, rank);
  }
  session->connection = at->second.connection;
  session->peer = session->connection->peer();
  at->second.session = session;
  JoinSteering(session, opening->open);
  local::Reply reply;
  local::OpenReply& opened = *reply.mutable_open();
  opened.set_run(run->id.Hex());
  opened.set_launch(launch.id);
  opened.set_token(TokenOf(launch.secret, rank));
  opened.set_image_alignment(Image::kAlignment);
  opening->call->Reply(std::move(reply));
  EndOpening(opening);
  Changed(run);
}

// --- The end of a session ---

void CoreImpl::EndSession(const SessionPtr& session, bool closed) {
  if (std::exchange(session->ended, true)) return;
  const RunPtr run = session->run;
  if (session->resume_timer != 0) loop_.Cancel(std::exchange(session->resume_timer, 0));
  if (!closed) {
    spdlog::info("run {}: launch {} lost rank {} ({}, pid {})", run->name, session->launch, session->rank,
                 session->peer.program, session->peer.pid);
  }
  SessionLeftRestore(session);
  if (Launch* launch = run->ledger.Find(session->launch)) {
    run->ledger.SessionEnded(*launch, session->rank, closed);
    if (launch->over()) ForgetKeptLater(run);
  }
  session->writer = nullptr;
  session->files = nullptr;
  session->idle_images.clear();
  DropImageWishes(session);
  auto at = run->sessions.find(session->rank);
  if (at != run->sessions.end() && at->second == session) run->sessions.erase(at);
  if (session->connection) {
    if (auto state = connections_.find(session->connection.get()); state != connections_.end() && closed) {
      state->second.session = nullptr;
    }
  }
  RetryImageWishes();
  Changed(run);
}

void CoreImpl::HandleClose(const SessionPtr& session, const CallPtr& call) {
  EndSession(session, /*closed=*/true);
  const Launch* launch = session->run->ledger.Find(session->launch);
  if (launch != nullptr && !launch->fenced && launch->all_closed()) return FinalizeHalt(session->run, call);
  call->Reply({});
}

}  // namespace cairn
