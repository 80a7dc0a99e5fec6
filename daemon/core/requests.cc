#include "daemon/core/requests.h"

#include "daemon/core/run.h"
#include "storage/base/caught.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// Could what other nodes have change the answer? Only if it is about something that is not here, or not all here.
bool MayTurnOut(const Ledger& ledger, DatasetId id) {
  const DatasetPtr known = ledger.Get(id);
  return known ? known->whole() && !known->can_be_read() : ledger.FindGone(id) == nullptr;
}

// Other nodes' caches, or the folder that is redundant itself.
bool IsLooking(const Run& run) {
  return run.others.looking() || run.tier.taking_up();
}

bool DependsOnOthers(const Session& session, const local::Request& request) {
  const Ledger& ledger = session.run->ledger;
  switch (request.body_case()) {
    case local::Request::kTest:  // of what is partly here it is said that the rest is not known
      return !ledger.Get(request.test().dataset()) && MayTurnOut(ledger, request.test().dataset());
    case local::Request::kWait:
      return MayTurnOut(ledger, request.wait().dataset());
    case local::Request::kLatest: {
      const Launch* launch = ledger.Find(session.launch);
      if (launch == nullptr || launch->pin.state != Launch::Pin::State::kSet || launch->pin_passed_over()) return true;
      return ledger.Get(launch->pin.dataset) != nullptr && MayTurnOut(ledger, launch->pin.dataset);
    }
    case local::Request::kFind:
      return !request.find().name().empty() || MayTurnOut(ledger, request.find().dataset());
    case local::Request::kStored:
      return MayTurnOut(ledger, request.stored().dataset());
    case local::Request::kRestore:
      return MayTurnOut(ledger, request.restore().dataset());
    case local::Request::kRead:
      return MayTurnOut(ledger, request.read().dataset());
    case local::Request::kReject:
      return MayTurnOut(ledger, request.reject().dataset());
    default:
      return false;
  }
}

}  // namespace

void Requests::Answer(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  if (session->ended) return call->Fail(local::FENCED, "this session has ended");
  if (session->observer) return AnswerObserver(session, call, request);
  if (!IsFenced(*session) && session->followed) return AnswerFollowed(session, call, request);
  if (!IsFenced(*session)) return AnswerRank(session, call, request);
  if (request->has_close()) return sessions_.Close(session, call);
  const Launch* newest = session->run->ledger.newest();
  call->Fail(local::FENCED, fmt::format("launch {} has been shut out: launch {} has taken over", session->launch,
                                        newest != nullptr ? newest->id : 0));
}

// A daemon that was started again does not know yet what other nodes have in parts: a question whose answer that may
// change waits for it. True: it is answered, or put aside.
bool Requests::AwaitsOthers(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  if (!IsLooking(*session->run) || !DependsOnOthers(*session, *request)) return false;
  if (request->has_test()) {
    call->Fail(Unavailable("dataset {}: other nodes are being asked for it", request->test().dataset()));
    return true;
  }
  call->WaitingFor(fmt::format("what other nodes' caches have of run {}", session->run->name));
  session->run->waits.Wait([this, session, call, request] {
    const bool looking = !call->answered() && !session->ended && IsLooking(*session->run);
    if (looking && DependsOnOthers(*session, *request)) return false;
    context_.loop().Post([this, session, call, request] { AnswerAtLast(session, call, request); });
    return true;
  });
  return true;
}

void Requests::AnswerAtLast(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  if (call->answered()) return;
  if (context_.quiescing()) return call->Fail(Unavailable("the daemon is going away"));
  const absl::Status status = Caught([&] { Answer(session, call, request); });
  if (!status.ok()) call->Fail(status);
}

// The client knows best what is in its memory.
void Requests::HearOfMemory(const Session& session, const local::Request& request) {
  if (session.ended || session.observer || session.followed) return;
  Ledger& ledger = session.run->ledger;
  if (request.dirty()) {
    if (ledger.MemoryDirty(session.launch, session.rank)) session.run->waits.Changed();
  } else if (!request.has_restore() && !request.has_copied()) {  // these may follow a delivery that was cut off
    ledger.MemoryClean(session.launch, session.rank);
  }
}

bool Requests::IsFenced(const Session& session) const {
  const Launch* launch = session.run->ledger.Find(session.launch);
  return launch == nullptr || launch->fenced() || session.run->gate.replaced();
}

// What a client says without waiting for an answer.
bool Requests::Say(const SessionPtr& session, const RequestPtr& request) {
  if (session) HearOfMemory(*session, *request);
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
    case local::Request::kMark:  // what it says of the memory is heard already
      if (session && !session->observer && session->connection->shares_memory()) {
        session->run->captures.Expect(*session, request->mark().expected_bytes());
      }
      if (session && session->followed) session->run->home.Say(*session, *request);
      return true;
    default:
      return false;
  }
}

// What a rank may ask, and an observer. True: that is it.
bool Requests::AnswerQuestion(const SessionPtr& session, const CallPtr& call, const local::Request& request) {
  Run& run = *session->run;
  switch (request.body_case()) {
    case local::Request::kTest:
      run.levels.Test(call, request.test());
      return true;
    case local::Request::kWait:
      run.levels.Wait(*session, call, request.wait());
      return true;
    case local::Request::kLatest:
      run.levels.Latest(session, call);
      return true;
    case local::Request::kFind:
      run.levels.Find(call, request.find());
      return true;
    case local::Request::kStored:
      run.levels.Stored(session, call, request.stored());
      return true;
    case local::Request::kRead:
      run.restores.Read(session, call, request.read());
      return true;
    default:
      return false;
  }
}

void Requests::AnswerRank(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  Run& run = *session->run;
  sessions_.Used(session);
  if (request->has_latest() && !IsLooking(run)) run.restores.LatestAsked(*session, *call);
  if (AwaitsOthers(session, call, request)) return;
  if (!request->has_restore()) run.restores.HeardOfEnd(*session);
  if (AnswerQuestion(session, call, *request)) return;
  switch (request->body_case()) {
    case local::Request::kRestore:
      if (run.captures.IsOpen(*session) || run.outputs.IsOpen(*session) || run.away_parts.IsOpen(*session)) {
        return call->Fail(FailedPrecondition("a checkpoint of this session is open"));
      }
      return run.restores.Restore(session, call, request->restore());
    case local::Request::kReject:
      return run.rejections.Reject(*session, call, request->reject().dataset());
    case local::Request::kRestartFile:
      return run.outputs.RestartFile(session, call, *request);
    case local::Request::kShouldExit:
    case local::Request::kNeedCheckpoint:
      return run.steering.Ask(session, call, *request);
    case local::Request::kClose:
      return sessions_.Close(session, call);
    default:
      return AnswerWriting(session, call, request);
  }
}

// A dataset on its way whose bytes are this daemon's, of memory or of files. True: that is it.
bool Requests::AnswerOfDataset(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  Run& run = *session->run;
  switch (request->body_case()) {
    case local::Request::kBegin:
    case local::Request::kOutputBegin:
      Begin(session, call, request);
      return true;
    case local::Request::kCommit:
      run.captures.Commit(session, call, request->commit());
      return true;
    case local::Request::kResume:
      run.captures.Resume(session, call, request->resume());
      return true;
    case local::Request::kRouteFile:
      run.outputs.RouteFile(session, call, *request);
      return true;
    case local::Request::kOutputEnd:
      run.outputs.End(session, call, *request);
      return true;
    default:
      return false;
  }
}

void Requests::Begin(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  Run& run = *session->run;
  if (session->followed ? run.followed.IsRestoring(*session) : run.restores.IsRestoring(*session)) {
    return call->Fail(FailedPrecondition("this session is restoring"));
  }
  if (request->has_begin() && run.outputs.IsOpen(*session)) {
    return call->Fail(FailedPrecondition("an output of files is open: memory and files do not mix"));
  }
  if (request->has_output_begin() && run.captures.IsOpen(*session)) {
    return call->Fail(FailedPrecondition("the last checkpoint or output of this session is not ended"));
  }
  run.restores.CaptureBegan(*session);
  request->has_begin() ? run.captures.Begin(session, call, request) : run.outputs.Begin(session, call, *request);
}

// A rank of a launch that has its home on another node: its bytes are this daemon's, all else is decided there.
void Requests::AnswerFollowed(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  Run& run = *session->run;
  sessions_.Used(session);
  if (AnswerOfDataset(session, call, request)) return;
  switch (request->body_case()) {
    case local::Request::kAbort:
      run.captures.Abort(*session, request->abort().reason());
      run.outputs.Abort(*session, request->abort().reason());
      return run.home.Relay(session, call, *request);
    case local::Request::kRestore:
    case local::Request::kRead:
      if (run.captures.IsOpen(*session) || run.outputs.IsOpen(*session)) {
        return call->Fail(FailedPrecondition("a checkpoint of this session is open"));
      }
      return run.followed.Restore(session, call, *request);
    case local::Request::kRestartFile:
      return run.outputs.RestartFile(session, call, *request);
    case local::Request::kClose:
      return sessions_.Close(session, call);
    default:
      return run.home.Relay(session, call, *request);
  }
}

// A rank whose bytes are with another node's daemon.
void Requests::AnswerAway(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  Run& run = *session->run;
  switch (request->body_case()) {
    case local::Request::kBegin:
      if (run.restores.IsRestoring(*session)) return call->Fail(FailedPrecondition("this session is restoring"));
      return run.away_parts.Begin(session, call, request->begin());
    case local::Request::kOutputBegin:
      if (run.restores.IsRestoring(*session)) return call->Fail(FailedPrecondition("this session is restoring"));
      return run.away_parts.BeginOutput(session, call, request->output_begin());
    case local::Request::kRouteFile:
      return run.away_parts.RouteFile(session, call, request->route_file());
    case local::Request::kCommit:
    case local::Request::kOutputEnd:
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

void Requests::AnswerWriting(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  if (!call->connection()->node().empty()) return AnswerAway(session, call, request);
  if (AnswerOfDataset(session, call, request)) return;
  if (!request->has_abort()) {
    return call->Fail(InvalidArgument("request {} is unknown to this daemon", request->call()));
  }
  Run& run = *session->run;
  run.captures.Abort(*session, request->abort().reason());
  run.outputs.Abort(*session, request->abort().reason());
  call->Reply({});
  run.waits.Changed();
}

void Requests::AnswerObserver(const SessionPtr& session, const CallPtr& call, const RequestPtr& request) {
  Run& run = *session->run;
  if (run.gate.replaced() && !request->has_close()) {
    return call->Fail(FailedPrecondition("the prefix was made anew: this run is history, open it again"));
  }
  if (AwaitsOthers(session, call, request) || AnswerQuestion(session, call, *request)) return;
  if (request->has_close()) return sessions_.Close(session, call);
  call->Fail(
      FailedPrecondition("this session is an observer: it can ask for the latest dataset, for names, for what is "
                         "stored and for levels, and read; for all else open one that joins a launch"));
}

}  // namespace cairn
