// Openings that what is elsewhere has a say in: the newest launch is another daemon's, or other nodes' caches have what
// this one lacks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "daemon/core/launch_keeper.h"
#include "daemon/core/openings.h"
#include "daemon/core/run.h"
#include "storage/base/launch_key.h"
#include "storage/base/status.h"
#include "storage/place/prefix/lease.h"

namespace cairn {

// Whether it lives is told by its lease: one that changes under our eyes does, one that has not changed for its term
// does not.
void Openings::DecideAgainstOther(const OpeningPtr& opening, Run& run) {
  using Verdict = LeaseWatch::Verdict;
  const local::Open& open = opening->open;
  const Launch& newest = *run.ledger.newest();
  const Prepared& prepared = *opening->prepared;
  if (!prepared.newest || prepared.newest->id < newest.id) {
    return Fail(opening, FailedPrecondition("{}: launch {}, which was seen here before, is gone: the directory was set "
                                            "back. A daemon that is started anew goes by what is there",
                                            prepared.path, newest.id));
  }
  const LeaseWatch::Judged judged =
      run.keeper.watch().Judge({.run = run.id,
                                .launch = newest.id,
                                .launch_run = prepared.newest->has_base() ? prepared.newest->run : run.id,
                                .own_cache = context_.cache_id,
                                .own_term = std::chrono::milliseconds(context_.config.lease.term_ms),
                                .lease = prepared.lease,
                                .now = context_.now()});
  const bool draining = judged.verdict == Verdict::kDraining;
  if (!draining && judged.verdict != Verdict::kOver && AskOfItsJob(opening, newest)) return;
  const bool over = judged.verdict == Verdict::kOver || (opening->job_over == newest.id && !draining);
  const bool same_key = newest.key == open.launch_key() && opening->not_joined != newest.id;
  if (!over && same_key && context_.env.peers != nullptr) return AskHome(opening, run);
  if (!over && same_key) {
    return Fail(
        opening,
        FailedPrecondition("launch {} of run {} is served by the daemon on {} ({}), and this daemon has no links "
                           "to other nodes (peers.interface): all ranks of the launch must use that one. If "
                           "that node is gone, open again in {} s",
                           newest.id, run.name, newest.maker, judged.holder, context_.config.lease.term_ms / 1000 + 1));
  }
  if (over || open.takeover() || IsRestartOf(open.launch_key(), newest.key)) return MakeLaunch(opening, run);
  if (judged.verdict == Verdict::kLive) return Busy(opening, run, judged.holder);
  if (draining && BringFirst(opening, run)) return;
  if (draining && HasAllOf(*opening, prepared.newest->maker.cache)) return MakeLaunch(opening, run);
  if (draining && TimeIsUp(*opening, judged.look_again)) {
    context_.Warn(
        fmt::format("run {}: launch {} is left behind before it was drained: {}", run.name, newest.id, judged.holder));
    return MakeLaunch(opening, run);
  }
  opening->call->WaitingFor(fmt::format("the end of launch {} of run {} ({})", newest.id, run.name, judged.holder));
  LookAgain(opening, judged.look_again);
}

// A launch whose job is over has no rank left, wherever its daemon is: nobody needs to wait for its lease. Not asked of
// the own job, whose steps come and go. True: the opening is put aside until there is an answer.
bool Openings::AskOfItsJob(const OpeningPtr& opening, const Launch& newest) {
  const std::string job = SlurmJobOf(newest.key);
  if (!jobs_.CanAsk() || job.empty() || job == SlurmJobOf(opening->open.launch_key())) return false;
  if (opening->job_over == newest.id || std::exchange(opening->job_asked, true)) return false;
  opening->call->WaitingFor(fmt::format("Slurm's word on job {}", job));
  End(opening);
  jobs_.Ask(job, [this, opening, id = newest.id](bool over) {
    if (over) opening->job_over = id;
    Again(opening);
  });
  return true;
}

// Whether a rank may join is decided there; meanwhile others that open the prefix have their turn.
void Openings::AskHome(const OpeningPtr& opening, Run& run) {
  const Launch& launch = *run.ledger.newest();
  const NodeId maker = opening->prepared->newest->maker.cache;
  opening->call->WaitingFor(
      fmt::format("the home of launch {} of run {}, the daemon on {},", launch.id, run.name, launch.maker));
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(context_.now() - opening->begun);
  const std::chrono::milliseconds left = std::max(opening->call->deadline() - spent, std::chrono::milliseconds(1));
  End(opening);
  run.home.Open(launch, maker, opening->connection, opening->open, left,
                [this, opening, &run, id = launch.id](const absl::Status& status, const local::Reply& reply) {
                  HomeAnswered(opening, run, id, status, reply);
                });
}

void Openings::HomeAnswered(const OpeningPtr& opening, Run& run, LaunchId launch, const absl::Status& status,
                            const local::Reply& reply) {
  constexpr std::chrono::milliseconds kPause(200);
  const local::Code code = reply.status().code();
  const Launch* now = run.ledger.newest();
  const bool let_in = status.ok() && code == local::OK;
  const bool heard = !IsUnheard(*opening) && !sessions_.Of(*opening->connection);
  const local::Open& open = opening->open;
  const bool same = let_in && reply.open().launch() == launch && now != nullptr && now->id == launch &&
                    open.nranks() == now->nranks && open.rank() < now->nranks;
  if (same && heard) {
    local::Reply opened = reply;
    *opened.mutable_open() =
        sessions_.AdmitFollowed(opening->connection, open, run, *now, std::move(*opened.mutable_open()));
    opening->call->Reply(std::move(opened));
    return run.waits.Changed();
  }
  if (let_in) run.home.Forget(*opening->connection);
  if (!heard) return opening->call->Fail(Unavailable("the connection has gone, or has a session already"));
  if (status.ok() && !let_in && code != local::RETRY && code != local::UNAVAILABLE) return opening->call->Reply(reply);
  if (status.ok() && code == local::RETRY) opening->not_joined = launch;
  context_.loop().After(kPause, [this, opening] { Again(opening); });
}

// To the daemon of the rank, on another node: nothing here can be joined.
void Openings::ReferBack(const OpeningPtr& opening) {
  opening->call->Fail(local::RETRY, "there is no launch here that this rank could join");
  End(opening);
}

// What the node drains is here by now: its flush is not waited for, and may be fenced.
bool Openings::HasAllOf(const Opening& opening, const NodeId& node) {
  return opening.brought && opening.brought->heard.contains(node) && opening.brought->missed.empty();
}

bool Openings::TimeIsUp(const Opening& opening, std::chrono::milliseconds pause) const {
  return context_.now() + pause > MustBegin(opening);
}

SteadyTime Openings::MustBegin(const Opening& opening) const {
  const std::chrono::milliseconds allowed = opening.call->deadline();
  const std::chrono::milliseconds to_begin = std::min<std::chrono::milliseconds>(allowed / 10, std::chrono::seconds(5));
  return opening.begun + allowed - to_begin;
}

// A launch that begins without the prefix begins while this daemon's lease holds.
SteadyTime Openings::MustGoOn(const Opening& opening, const Run& run, bool offline) const {
  constexpr std::chrono::seconds kMargin(5);  // until it has been decided again
  const SteadyTime begins = MustBegin(opening);
  if (!offline || !run.keeper.LeaseHolds()) return begins;
  return std::min(begins, run.keeper.LeaseEnds() - kMargin);
}

// What is only in the folder that is redundant itself may be newer than all that nodes have. True: the opening is put
// aside, and comes again, within bounds.
bool Openings::TakeUpFirst(const OpeningPtr& opening, Run& run, bool offline) {
  const auto how = offline ? Opening::Asked::kOffline : Opening::Asked::kOnline;
  if (!run.tier.configured() || run.ledger.newest() == nullptr || opening->took_up >= how) return false;
  opening->took_up = how;
  opening->call->WaitingFor(fmt::format("what is in {} of run {}", run.tier.lane(), run.name));
  const std::uint32_t bringing = ++opening->bringing;
  End(opening);
  const auto go_on = [this, opening, bringing] {
    if (opening->bringing != bringing) return;
    ++opening->bringing;
    Again(opening);
  };
  run.tier.TakeUp(go_on, offline ? RedundantTier::For::kOfflineLaunch : RedundantTier::For::kLaunch);
  const SteadyTime until = MustGoOn(*opening, run, offline);
  const SteadyTime::duration left = std::max(until - context_.now(), SteadyTime::duration(0));
  context_.loop().After(std::chrono::ceil<std::chrono::milliseconds>(left), go_on);
  return true;
}

// What only other nodes' caches have is brought before the launch is made: until then those nodes may still commit it,
// and if it does not come, nothing is lost by the try. True: the opening is put aside, and comes again with `brought`;
// at the latest when it must go on with what is here to be in time.
bool Openings::BringFirst(const OpeningPtr& opening, Run& run) {
  const std::optional<LaunchRecord>& newest = opening->prepared->newest;
  if (!newest) return false;
  const NodeId& maker = newest->maker.cache;
  return BringBefore(opening, run, newest->id, maker == context_.cache_id ? "" : maker, /*offline=*/false);
}

bool Openings::BringBefore(const OpeningPtr& opening, Run& run, LaunchId launch, const NodeId& maker, bool offline) {
  const auto how = offline ? Opening::Asked::kOffline : Opening::Asked::kOnline;
  const bool asked = opening->brought && opening->brought->launch == launch && opening->brought_how >= how;
  const SteadyTime until = MustGoOn(*opening, run, offline);
  const bool again = opening->ask_again && !offline && context_.now() < until;
  if (context_.env.peers == nullptr || (asked && !again)) return false;
  opening->brought_how = how;
  opening->ask_again = false;
  opening->late = false;
  opening->call->WaitingFor(fmt::format("what other nodes' caches have of run {}", run.name));
  const std::uint32_t bringing = ++opening->bringing;
  End(opening);
  const auto then = [this, opening, bringing](const OtherCaches::Brought& brought) {
    BroughtTo(opening, bringing, brought);
  };
  run.others.Bring({.launch = launch, .maker = maker, .offline = offline}, then);
  const SteadyTime::duration left = std::max(until - context_.now(), SteadyTime::duration(0));
  context_.loop().After(std::chrono::ceil<std::chrono::milliseconds>(left), [this, opening, bringing, launch] {
    if (opening->bringing != bringing) return;
    opening->late = true;
    BroughtTo(opening, bringing, {.launch = launch, .heard = {}, .missed = {}, .made = {}, .why_not = {}});
  });
  return true;
}

// A launch never begins from an older step without a word. Once, however often it is tried: the warnings that are kept
// are few.
void Openings::TellIfNotAllHeard(Opening& opening, const Run& run) const {
  std::vector<std::string> texts = WhatWasNotHeard(opening, run);
  if (texts.empty() || texts == opening.told) return;
  Warn(texts);
  opening.told = std::move(texts);
}

std::vector<std::string> Openings::WhatWasNotHeard(const Opening& opening, const Run& run) const {
  constexpr std::string_view kSo = "what the launch begins from may be older than a step that one of them holds";
  if (opening.late) {
    return {fmt::format(
        "run {}: the launch begins before all was heard of what other nodes' caches have, to be in time: {}", run.name,
        kSo)};
  }
  std::vector<std::string> texts;
  if (opening.brought && !opening.brought->others_known) {
    texts.push_back(fmt::format(
        "run {}: no coordinator of its nodes was found, or some whom the one before it knew have not come, so "
        "that not all of them may be known here: {}",
        run.name, kSo));
  }
  if (opening.brought && !opening.brought->lacks.empty()) {
    texts.push_back(fmt::format("run {}: no node that was heard has {}: {}", run.name, opening.brought->lacks, kSo));
  }
  const std::vector<std::string> names = NotHeard(opening, run);
  if (!names.empty()) {
    texts.push_back(fmt::format("run {}: what other nodes' caches have was not heard of {}: {}", run.name,
                                fmt::join(names, ", "), kSo));
  }
  return texts;
}

// Those who are known, and the node that made the newest launch, unless the lease of that says that it has left nothing
// there. Without the prefix that node is this one, and what the prefix said before may be of an older launch.
std::vector<std::string> Openings::NotHeard(const Opening& opening, const Run& run) const {
  const OtherCaches::Brought brought = opening.brought.value_or(OtherCaches::Brought{});
  std::vector<std::string> names = brought.NamesOfUnheard();
  if (!opening.prepared) return names;
  const std::optional<LaunchRecord>& newest = opening.prepared->newest;
  const Launch* const known = run.ledger.newest();
  if (newest && known != nullptr && known->id > newest->id) return names;
  if (!newest || newest->maker.cache.empty() || newest->maker.cache == context_.cache_id) return names;
  const NodeId& maker = newest->maker.cache;
  if (brought.heard.contains(maker) || brought.unheard.contains(maker)) return names;
  const std::optional<LeaseSeen>& lease = opening.prepared->lease;
  const bool left_nothing = lease && lease->record && lease->record->run == run.id &&
                            lease->record->state == LeaseRecord::State::kEnded &&
                            lease->record->what == lease::kLeftNothing;
  if (!left_nothing) names.push_back(fmt::format("{}, which made launch {}", DescribeMaker(*newest), newest->id));
  return names;
}

void Openings::BroughtTo(const OpeningPtr& opening, std::uint32_t bringing, const OtherCaches::Brought& brought) {
  if (opening->bringing != bringing) return;
  ++opening->bringing;
  opening->brought = brought;
  Again(opening);
}

}  // namespace cairn
