// Sessions that only read: of no launch, so they are never BUSY, shut nobody out, and nothing waits for them.
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <utility>

#include "daemon/core/core_impl.h"
#include "daemon/core/opening.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

absl::StatusOr<std::string> ExistingPath(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return NotFound("{}: there is no such directory", path);
  std::string real = resolved;
  std::free(resolved);
  return real;
}

}  // namespace

// Like a launch's, but nothing is made at the prefix, and where it cannot be written it is only read.
void CoreImpl::PrepareObserving(std::shared_ptr<Opening> opening) {
  std::set<RunId> known;
  for (const auto& [id, run] : runs_) {
    if (run->adopted) known.insert(id);
  }
  auto work = [this, path = opening->open.prefix(), known] {
    auto prepared = std::make_shared<Prepared>();
    prepared->status = [&]() -> absl::Status {
      CAIRN_ASSIGN_OR_RETURN(prepared->path, ExistingPath(path));
      CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<Prefix> prefix, Prefix::OpenReadOnly(prefix_disk_, prepared->path));
      if (prefix->run() == RunId()) return NotFound("{}: no run of Cairn's has this prefix", prepared->path);
      auto writable = Prefix::Open(prefix_disk_, prepared->path);
      prepared->read_only = !writable.ok();
      prepared->prefix = writable.ok() ? std::shared_ptr<Prefix>(*std::move(writable)) : std::move(prefix);
      if (known.contains(prepared->prefix->run())) return absl::OkStatus();
      CAIRN_RETURN_IF_ERROR(ReadCommitted(*prepared->prefix, {}, &prepared->committed));
      CAIRN_ASSIGN_OR_RETURN(prepared->cache,
                             CacheFolder::Open(cache_disk_, config_.cache.path, process_.user, BaseOf(prepared->path),
                                               prepared->prefix->run(), prepared->path));
      return absl::OkStatus();
    }();
    return prepared;
  };
  BlockingPrefix(std::move(work), [this, opening](std::shared_ptr<Prepared> prepared) { RunKnown(opening, prepared); });
}

// What others have committed since this daemon looked counts, too. While a launch of the run lives here, this daemon
// commits for it, and what it knows is left as it is.
void CoreImpl::RunObserved(std::shared_ptr<Opening> opening, const RunPtr& run) {
  if (opening->looked || !run->sessions.empty() || run->making_launch) return AdmitObserver(opening, run);
  std::set<DatasetId> known, had;
  WhatIsKnown(*run, &known, &had);
  auto look = [prefix = run->prefix, known = std::move(known)] {
    Committed committed;
    const absl::Status read = ReadCommitted(*prefix, known, &committed);
    return std::pair(read, std::move(committed));
  };
  BlockingPrefix(std::move(look),
                 [this, opening, run, had = std::move(had)](const std::pair<absl::Status, Committed>& looked) {
                   const auto& [status, committed] = looked;
                   if (!status.ok()) {
                     opening->call->Fail(status);
                     return EndOpening(opening);
                   }
                   for (const std::string& warning : committed.warnings) Warn(warning);
                   if (run->sessions.empty() && !run->making_launch) AdoptSince(run, committed, had);
                   AdmitObserver(opening, run);
                 });
}

void CoreImpl::AdmitObserver(std::shared_ptr<Opening> opening, const RunPtr& run) {
  const auto at = connections_.find(opening->connection.get());
  if (opening->call->answered() || at == connections_.end()) return EndOpening(opening);
  const auto session = std::make_shared<Session>();
  session->id = ++last_session_;
  session->run = run;
  session->observer = true;
  session->connection = at->second.connection;
  session->peer = session->connection->peer();
  at->second.session = session;
  run->observers.insert(session);
  local::Reply reply;
  reply.mutable_open()->set_run(run->id.Hex());
  reply.mutable_open()->set_image_alignment(Image::kAlignment);
  opening->call->Reply(std::move(reply));
  EndOpening(opening);
}

void CoreImpl::EndObserver(const SessionPtr& session) {
  session->ended = true;
  if (const std::shared_ptr<RestoreGroup> reading = session->reading) {
    EndGroup(session->run, reading, local::UNAVAILABLE, "the session was lost during the read");
  }
  session->idle_images.clear();
  DropImageWishes(session);
  session->run->observers.erase(session);
  if (const auto state = connections_.find(session->connection.get()); state != connections_.end()) {
    state->second.session = nullptr;
  }
  RetryImageWishes();
}

void CoreImpl::DispatchObserver(const SessionPtr& session, const CallPtr& call, Requested request) {
  if (session->run->replaced && !request->has_close()) {
    return call->Fail(FailedPrecondition("the prefix was made anew: this run is history, open it again"));
  }
  switch (request->body_case()) {
    case local::Request::kTest:
      return HandleTest(session, call, request->test());
    case local::Request::kWait:
      return HandleWait(session, call, request->wait());
    case local::Request::kLatest:
      return ObserveLatest(session, call);
    case local::Request::kStored:
      return HandleStored(session, call, request->stored());
    case local::Request::kRead:
      return HandleRead(session, call, request->read());
    case local::Request::kClose:
      EndObserver(session);
      return call->Reply({});
    default:
      return call->Fail(
          FailedPrecondition("this session is an observer: it can ask for the latest dataset, for what is stored and "
                             "for levels, and read; for all else open one that joins a launch"));
  }
}

// What a launch that began now would be told, as far as it is whole: nothing is waited for and nothing pinned.
void CoreImpl::ObserveLatest(const SessionPtr& session, const CallPtr& call) {
  const RunPtr& run = session->run;
  const Launch* newest = run->ledger.newest();
  Launch mine;
  mine.bound = newest != nullptr ? run->ledger.BoundOf(*newest) : run->bound;
  mine.bound_set_us = newest != nullptr ? newest->bound_set_us : run->bound_set_us;
  const DatasetPtr dataset = run->ledger.NewestRestorableFor(mine);
  if (!dataset) return call->Fail(NotFound("run {} has no checkpoint that can be restored", run->name));
  local::Reply reply;
  reply.mutable_latest()->set_dataset(dataset->id);
  reply.mutable_latest()->set_step(dataset->step);
  reply.mutable_latest()->set_files(dataset->files);
  call->Reply(std::move(reply));
}

}  // namespace cairn
