#include "daemon/core/sessions.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/core/launch_keeper.h"
#include "daemon/core/run.h"
#include "daemon/data/image.h"
#include "storage/base/check.h"
#include "storage/base/launch_key.h"
#include "storage/base/launch_mark.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kWhoBytesMax = 500;  // of an error's text

// Sessions are made here, and nobody else changes them.
Session& Own(const SessionPtr& session) {
  return const_cast<Session&>(*session);
}

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

// Something of this cache that is not on the prefix yet.
bool HasBegunAnything(const Run& run, const Launch& since) {
  return std::ranges::any_of(run.ledger.InPlay(), [&since](const auto& item) {
    const Dataset& dataset = *item.second;
    return dataset.launch < since.id && !dataset.in_prefix() && dataset.bytes_here() > 0;
  });
}

}  // namespace

// --- Which are there ---

SessionPtr Sessions::Of(const Connection& connection) const {
  const auto at = by_connection_.find(&connection);
  return at == by_connection_.end() ? nullptr : at->second;
}

const Sessions::ByRank& Sessions::RanksOf(const Run& run) const {
  static const ByRank kNone;
  const auto at = by_rank_.find(run.id);
  return at == by_rank_.end() ? kNone : at->second;
}

bool Sessions::OnlyBroken(const Run& run) const {
  bool any = false;
  for (const auto& [rank, session] : RanksOf(run)) {
    if (session->ended) continue;
    if (session->connection) return false;
    any = true;
  }
  return any;
}

std::string Sessions::Describe(const Run& run) const {
  std::string who;
  for (const auto& [rank, session] : RanksOf(run)) {
    if (session->ended) continue;
    if (!who.empty()) who += ", ";
    who +=
        fmt::format("rank {}: {} (pid {}) on {}", rank, session->peer.program, session->peer.pid, session->peer.host);
    if (who.size() > kWhoBytesMax) break;
  }
  return who;
}

// --- Launches ---

const Launch& Sessions::EnterLaunch(Run& run, const LaunchRecord& record, bool from_record) {
  for (const auto& [rank, session] : ByRank(RanksOf(run))) End(session, /*closed=*/false);
  const Launch& launch = run.ledger.Enter(record.id, record.key, record.nranks, record.secret, from_record);
  const bool ours = IsOurs(context_, record);
  run.ledger.SetOrigin(launch, {.ours = ours,
                                .maker = DescribeMaker(record),
                                .mark = record.has_base() ? LaunchMark(record.secret) : std::string(),
                                .counts = !record.abandoned});
  if (!ours && HasBegunAnything(run, launch)) {
    context_.Warn(
        fmt::format("run {}: launch {} was made by the daemon on {}: what was begun here before it does not "
                    "count any more, unless it is on the prefix",
                    run.name, record.id, DescribeMaker(record)));
  }
  run.ledger.SetBound(launch, run.inventory.bound(), run.inventory.bound_set_us());
  run.away_parts.LaunchEntered();
  NoteJob(run, launch);
  return launch;
}

// So that the next daemon here knows whose end it is asked about. Where this daemon has made the launch, it is noted.
void Sessions::NoteJob(const Run& run, const Launch& launch) const {
  const std::string job = SlurmJobOf(launch.key);
  if (run.folder->record().job == job) return;
  context_.OnCache(
      [folder = run.folder, job] { return folder->ChangeRecord([&job](RunRecord& noted) { noted.job = job; }); },
      [this, name = run.name](const absl::Status& status) {
        if (!status.ok()) context_.Warn(fmt::format("run {}: {}", name, MessageOf(status)));
      });
}

void Sessions::BeganOffline(Run& run, const Launch& launch) {
  run.ledger.SetOrigin(launch, {.ours = true, .provisional = true, .maker = launch.maker, .mark = launch.mark});
}

void Sessions::LaunchesConfirmed(Run& run, const std::vector<ConfirmedLaunch>& confirmed) {
  for (const auto& [carried, made] : confirmed) {
    if (!made.abandoned) {
      spdlog::info("run {}: launch {}, which began without the prefix, is made there", run.name, made.id);
      if (const Launch* launch = run.ledger.Find(carried)) run.ledger.Confirmed(*launch);
      continue;
    }
    context_.Warn(
        fmt::format("run {}: launch {} began while the prefix did not answer, and another one was made elsewhere "
                    "meanwhile: what it has made does not count, it can be restored by number",
                    run.name, carried));
    const std::string mark = LaunchMark(made.secret);
    for (const auto& [id, dataset] : run.ledger.datasets()) {
      if (dataset->mark == mark && dataset->whole()) run.ledger.Fenced(*dataset, /*there=*/false);
    }
    EnterLaunch(run, made, /*from_record=*/true);
  }
}

bool Sessions::IsToken(const std::string& token, const Launch& launch, Rank rank) {
  return token == TokenOf(launch.secret, rank);
}

// --- Admission ---

local::OpenReply Sessions::Admit(const std::shared_ptr<Connection>& connection, const local::Open& open, Run& run,
                                 const Launch& launch) {
  const SessionPtr session = SessionFor(*connection, open, run, launch);
  Connect(session, connection);
  run.steering.Join(*session, open);
  run.ledger.RankIsAt(launch, session->rank, connection->node());
  if (open.dirty()) run.ledger.MemoryDirty(launch.id, session->rank);
  if (!connection->node().empty()) CountElsewhere(run);
  local::OpenReply opened;
  opened.set_run(run.id.Hex());
  opened.set_launch(launch.id);
  opened.set_token(TokenOf(launch.secret, session->rank));
  opened.set_image_alignment(Image::kAlignment);
  return opened;
}

local::OpenReply Sessions::AdmitFollowed(const std::shared_ptr<Connection>& connection, const local::Open& open,
                                         Run& run, const Launch& launch, local::OpenReply opened) {
  run.ledger.Followed(launch);
  const SessionPtr session = SessionFor(*connection, open, run, launch);
  Own(session).followed = true;
  Connect(session, connection);
  run.home.Admitted(session);
  opened.set_image_alignment(Image::kAlignment);
  return opened;
}

// Of the newest launch: they take no room in this node's cache.
void Sessions::CountElsewhere(Run& run) const {
  const Launch* launch = run.ledger.newest();
  if (launch == nullptr || !launch->ours) return;
  std::uint32_t elsewhere = 0;
  for (const auto& [rank, session] : RanksOf(run)) {
    if (session->connection && !session->connection->node().empty()) ++elsewhere;
  }
  run.ledger.SetElsewhere(*launch, std::max(launch->elsewhere, elsewhere));
}

// The rank's session as it is, without a connection, or a new one. `connection` is the one that it gets.
SessionPtr Sessions::SessionFor(const Connection& connection, const local::Open& open, Run& run, const Launch& launch) {
  ByRank& sessions = by_rank_[run.id];
  auto known = sessions.find(open.rank());
  if (known != sessions.end() && known->second->connection && !known->second->connection->resumable()) {
    // Its process has hung up, which has not been seen yet: what was in flight is lost, the rank is not.
    End(SessionPtr(known->second), /*closed=*/false);
    known = sessions.find(open.rank());
  }
  if (known != sessions.end() && !known->second->ended) {
    // The old connection of this rank is broken, or about to be found so.
    const SessionPtr session = known->second;
    StopWaiting(session);
    if (session->connection) TakeFromConnection(session);
    images_.ConnectionChanged(*session->images);
    run.lists.ConnectionChanged(*session);
    // A client of this node says all it has said again; what another node's daemon has said may be lost.
    if (!connection.node().empty()) run.ledger.CameBack(launch, open.rank());
    return session;
  }
  SessionPtr session = Make(run, open.rank());
  Own(session).launch = launch.id;
  sessions[open.rank()] = session;
  run.ledger.SessionLive(launch, open.rank());
  run.restores.SessionOpened(session);
  return session;
}

void Sessions::TakeFromConnection(const SessionPtr& session) {
  const std::shared_ptr<Connection> old = session->connection;
  session->run->restores.SessionLeft(session);
  connections_.AbandonCalls(*old);
  by_connection_.erase(old.get());
  old->Close();
}

local::OpenReply Sessions::AdmitObserver(const std::shared_ptr<Connection>& connection, Run& run) {
  const SessionPtr session = Make(run, 0);
  Own(session).observer = true;
  Connect(session, connection);
  local::OpenReply opened;
  opened.set_run(run.id.Hex());
  opened.set_image_alignment(Image::kAlignment);
  return opened;
}

SessionPtr Sessions::Make(Run& run, Rank rank) {
  auto session = std::make_shared<Session>();
  session->id = ++last_;
  session->run = &run;
  session->rank = rank;
  session->images = images_.NewOwner(run.id, rank);
  return session;
}

void Sessions::Connect(const SessionPtr& session, const std::shared_ptr<Connection>& connection) {
  Own(session).connection = connection;
  Own(session).peer = connection->peer();
  by_connection_[connection.get()] = session;
}

// --- What happens to one ---

void Sessions::Used(const SessionPtr& session) {
  Own(session).used = true;
}

void Sessions::ConnectionLost(const Connection& connection) {
  const SessionPtr session = Of(connection);
  if (!session) return;
  by_connection_.erase(&connection);
  if (session->ended || session->connection.get() != &connection) return;
  if (session->observer) return EndObserver(session);
  if (!connection.resumable() || context_.quiescing()) return End(session, /*closed=*/false);
  Own(session).connection = nullptr;
  session->run->restores.SessionLeft(session);
  const std::chrono::milliseconds resume(context_.config.ingest.resume_ms);
  Own(session).resume_timer = context_.loop().After(resume, [this, session] {
    Own(session).resume_timer = 0;
    if (!session->connection) End(session, /*closed=*/false);
  });
}

void Sessions::StopWaiting(const SessionPtr& session) {
  if (session->resume_timer != 0) context_.loop().Cancel(std::exchange(Own(session).resume_timer, 0));
}

void Sessions::Close(const SessionPtr& session, const std::shared_ptr<Call>& call) {
  if (session->observer) {
    EndObserver(session);
    return call->Reply({});
  }
  Run& run = *session->run;
  if (session->followed) {
    local::Request request;
    request.set_call(call->number());
    request.mutable_close();
    run.home.Relay(session, call, request);
    return End(session, /*closed=*/true);
  }
  End(session, /*closed=*/true);
  const Launch* launch = run.ledger.Find(session->launch);
  if (launch != nullptr && !launch->fenced() && launch->all_closed()) {
    run.ids.Return();
    return run.steering.Finalize(call);
  }
  call->Reply({});
}

void Sessions::End(const SessionPtr& session, bool closed) {
  if (std::exchange(Own(session).ended, true)) return;
  Run& run = *session->run;
  StopWaiting(session);
  if (!closed) {
    spdlog::info("run {}: launch {} lost rank {} ({}, pid {})", run.name, session->launch, session->rank,
                 session->peer.program, session->peer.pid);
  }
  run.restores.SessionLeft(session);
  if (const Launch* launch = run.ledger.Find(session->launch)) {
    run.ledger.SessionEnded(*launch, session->rank, closed);
    if (launch->over()) ForgetKeptLater(run);
  }
  run.captures.SessionEnded(*session);
  run.outputs.SessionEnded(*session);
  run.away_parts.SessionEnded(*session);
  if (session->followed) {
    run.followed.SessionEnded(*session);
    closed ? run.home.Closed(*session) : run.home.SessionEnded(*session);
  }
  run.steering.SessionEnded(*session);
  run.lists.ConnectionChanged(*session);
  images_.OwnerGone(session->images);
  ByRank& sessions = by_rank_[run.id];
  const auto at = sessions.find(session->rank);
  if (at != sessions.end() && at->second == session) sessions.erase(at);
  if (session->connection && closed) by_connection_.erase(session->connection.get());
  run.waits.Changed();
}

void Sessions::EndObserver(const SessionPtr& session) {
  Own(session).ended = true;
  session->run->restores.SessionLeft(session);
  images_.OwnerGone(session->images);
  by_connection_.erase(session->connection.get());
}

// Memory is the application's first of all: when it is gone, the image that it might restart from is kept for a while
// only.
void Sessions::ForgetKeptLater(Run& run) {
  context_.loop().After(std::chrono::milliseconds(context_.config.image.linger_ms), [this, &run] {
    if (run.ledger.over()) images_.DropKept(run.id);
  });
}

}  // namespace cairn
