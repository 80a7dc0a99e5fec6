// Openings of a prefix that does not answer. A run that this daemon knows goes on from image or cache: ranks join or
// come back to the launch that is here, and a new launch may begin, provisionally (provisional.h), as long as nobody
// else may have made one: while this daemon's lease has not run out by its own clock; after that if take-over is asked
// for. Else an opening waits until the prefix answers, or until its deadline.
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "daemon/core/openings.h"
#include "daemon/core/run.h"
#include "storage/base/launch_key.h"
#include "storage/base/launch_mark.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// A prefix that answers sooner is slow; one that takes longer was silent.
constexpr std::chrono::seconds kSlow{10};

}  // namespace

// It leaves the queue, whether it is decided now or waits: those behind it may be luckier.
void Openings::DoesNotAnswer(const OpeningPtr& opening) {
  silent_.try_emplace(opening->open.prefix());
  opening->left = true;
  if (Run* const run = KnownByPath(opening->open.prefix())) run->keeper.watch().CouldNotLook();
  if (DecideOffline(opening)) return;
  auto& waiting = silent_[opening->open.prefix()];
  // Those whose deadline has passed go, so that repeated requests cannot grow the list.
  std::erase_if(waiting, [](const OpeningPtr& other) { return other->call->answered(); });
  waiting.push_back(opening);
  End(opening);
}

// What took long is good all the same: where the prefix is slow, and does not hang, the next try would take as long.
void Openings::Answers(const OpeningPtr& opening) {
  if (opening->patience != 0) context_.loop().Cancel(std::exchange(opening->patience, 0));
  std::vector<OpeningPtr> waiting;
  if (auto silent = silent_.extract(opening->open.prefix())) waiting = std::move(silent.mapped());
  const bool waits = std::erase(waiting, opening) > 0 && !IsUnheard(*opening);
  const SteadyTime::duration took = context_.now() - opening->asked_at;
  if (waits) AnsweredAfter(*opening, took);
  for (const OpeningPtr& other : waiting) AnsweredAfter(*other, took);
  const Prepared& prepared = *opening->prepared;
  if (!opening->left || (waits && TakesTurn(opening))) {
    RunKnown(opening);
  } else if (prepared.status.ok()) {
    if (Run* run = runs_.Find(prepared.prefix->run())) run->keeper.TellConfirmed(prepared.confirmed);
  }
  for (const OpeningPtr& next : waiting) {
    if (!IsUnheard(*next)) Enqueue(next);
  }
}

// A late answer may be the end of a silence. Where all answers are late, the prefix is slow, and whoever is asked each
// time never begins.
void Openings::AnsweredAfter(Opening& opening, SteadyTime::duration took) {
  if (!opening.brought || opening.brought->others_known) return;
  if (took < kSlow && std::exchange(opening.was_slow, true)) return;
  ArbiterWasSilent(opening);
}

// Others' caches may have been asked without those to whom the arbiter's word would have led: they are asked again when
// it answers, each time, until the opening must go on to be in time (BringBefore).
void Openings::ArbiterWasSilent(Opening& opening) {
  if (opening.brought && !opening.brought->others_known) opening.ask_again = true;
}

// It is in the queue again. True: as the only one, so that what it was answered may be used now; else it asks anew in
// its turn.
bool Openings::TakesTurn(const OpeningPtr& opening) {
  auto& queue = queues_[opening->open.prefix()];
  queue.push_back(opening);
  if (queue.size() > 1) return false;
  opening->left = false;
  return true;
}

Run* Openings::KnownByPath(const std::string& path) const {
  if (const auto known = opened_as_.find(path); known != opened_as_.end()) return runs_.Find(known->second);
  for (const auto& [id, run] : runs_.all()) {
    if (run->gate.path() == path && !run->gate.replaced()) return run.get();
  }
  return nullptr;
}

// True: it is answered, or will be without the prefix.
bool Openings::DecideOffline(const OpeningPtr& opening) {
  const local::Open& open = opening->open;
  Run* const run = KnownByPath(open.prefix());
  if (IsUnheard(*opening) || run == nullptr || open.observer() || making_.contains(run->id)) return false;
  const Launch* newest = run->ledger.newest();
  if (newest != nullptr && !newest->ours) return false;
  if (open.launch() != 0) {
    if (newest == nullptr || newest->id != open.launch() || run->ids.first() == 0) return false;
    Reattach(opening, *run);
    return true;
  }
  if (NeverHeardOfItsSession(*opening, *run)) {
    Admit(opening, *run, *newest);
    return true;
  }
  const auto decided = run->ledger.Decide(open.launch_key(), open.rank(), open.nranks(), open.takeover());
  if (!decided.ok()) {
    Fail(opening, decided.status());
    return true;
  }
  if (*decided == Ledger::Joining::kJoin) {
    Admit(opening, *run, *newest);
    return true;
  }
  const bool restarted = newest != nullptr && IsRestartOf(open.launch_key(), newest->key);
  if (*decided == Ledger::Joining::kBusy && !restarted) {
    sessions_.OnlyBroken(*run) ? DecideLater(opening, *run) : Busy(opening, *run, sessions_.Describe(*run));
    return true;
  }
  if (!opening->connection->node().empty()) {  // its own daemon makes launches for it
    ReferBack(opening);
    return true;
  }
  if (!MayBeginOffline(*opening, *run)) return false;
  // As before any launch, but that the prefix does not tell what counts.
  if (TakeUpFirst(opening, *run, /*offline=*/true)) return true;
  if (BringBefore(opening, *run, newest->id, /*maker=*/"", /*offline=*/true)) return true;
  BeginOffline(opening, *run);
  return true;
}

// A launch without the prefix needs ids that nobody else gives out, and a launch that it comes after.
bool Openings::MayBeginOffline(const Opening& opening, const Run& run) const {
  const Launch* newest = run.ledger.newest();
  if (run.ids.first() == 0 || newest == nullptr || newest->mark.empty()) return false;
  return newest->provisional || opening.open.takeover() || run.keeper.LeaseHolds();
}

void Openings::BeginOffline(const OpeningPtr& opening, Run& run) {
  TellIfNotAllHeard(*opening, run);
  const Launch& newest = *run.ledger.newest();
  const local::Open& open = opening->open;
  const ProvisionalLaunch launch{.id = newest.id + 1,
                                 .predecessor = newest.id,
                                 .key = open.launch_key(),
                                 .nranks = open.nranks(),
                                 .secret = NewLaunchSecret(),
                                 .first = run.ids.first(),
                                 .last = run.ids.last(),
                                 .created_us = context_.now_us()};
  making_.try_emplace(run.id);
  context_.OnCache(
      [folder = run.folder, launch] {
        return folder->ChangeRecord([&](RunRecord& record) { record.provisional.push_back(launch); });
      },
      [this, opening, &run, launch](const absl::Status& noted) { BegunOffline(opening, run, launch, noted); });
}

void Openings::BegunOffline(const OpeningPtr& opening, Run& run, const ProvisionalLaunch& launch,
                            const absl::Status& noted) {
  const std::vector<OpeningPtr> waiting = std::move(making_.extract(run.id).mapped());
  if (noted.ok()) {
    const LaunchRecord record{.id = launch.id,
                              .key = launch.key,
                              .nranks = launch.nranks,
                              .secret = launch.secret,
                              .created_us = launch.created_us,
                              .maker = ThisDaemon(context_),
                              .run = run.id,
                              .predecessor = launch.predecessor};
    const Launch& entered = sessions_.EnterLaunch(run, record, /*from_record=*/false);
    sessions_.BeganOffline(run, entered);
    context_.Warn(
        fmt::format("run {}: {} does not answer: launch {} begins without it, from what is on this node; nothing "
                    "goes to the prefix until it answers",
                    run.name, run.gate.path(), launch.id));
    Admit(opening, run, entered);
    run.keeper.BeginProvisional();
    run.others.LaunchBegan(launch.id);
  } else {
    Fail(opening, noted);
  }
  for (const OpeningPtr& next : waiting) Decide(next, run);
}

}  // namespace cairn
