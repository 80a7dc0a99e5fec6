#include "daemon/core/launch_keeper.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "storage/base/launch_mark.h"
#include "storage/base/status.h"
#include "storage/place/prefix/lease.h"

namespace cairn {
namespace {

constexpr int kWritesInTerm = 6;

// The newest checkpoint, if no restart would choose it now, but one may later: it is still being written, or it is not
// known here where all its parts are. Null: a restart would choose the newest one.
DatasetPtr MayTurnOutNewest(const Ledger& ledger) {
  for (const DatasetPtr& dataset : ledger.ByAge() | std::views::reverse) {
    if (!dataset->superseding()) continue;
    if (dataset->restorable()) return nullptr;
    const bool arriving = dataset->cache == Place::kArriving || dataset->prefix == Place::kArriving;
    if (arriving || dataset->in_cache()) return dataset;
  }
  return nullptr;
}

// If the launch's lease is this cache's and has ended: what it says that was left behind.
absl::StatusOr<std::optional<std::string>> LeftBy(Prefix& prefix, LaunchId launch, const std::string& cache) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<LeaseSeen> lease, prefix.FindLease(launch));
  if (!lease || !lease->record) return std::optional<std::string>();
  const LeaseRecord& record = *lease->record;
  const bool says = record.run == prefix.run() && record.cache == cache && record.state == LeaseRecord::State::kEnded;
  return says ? std::optional(record.what) : std::nullopt;
}

}  // namespace

Maker ThisDaemon(const Context& context) {
  return {.cache = context.cache_id, .host = context.env.process.host, .pid = context.env.process.pid};
}

bool IsOurs(const Context& context, const LaunchRecord& launch) {
  if (!launch.has_base()) return launch.maker.host == context.env.process.host;
  return launch.maker.cache == context.cache_id;
}

std::string DescribeMaker(const LaunchRecord& launch) {
  return launch.maker.pid == 0 ? launch.maker.host
                               : fmt::format("{} (process {})", launch.maker.host, launch.maker.pid);
}

LaunchKeeper::LaunchKeeper(const Context& context, const Given& given, Reports reports)
    : context_(context), given_(given), reports_(std::move(reports)), committer_(given.folder->record().served) {}

bool LaunchKeeper::IsProvisional(const std::string& mark) const {
  if (mark.empty()) return false;
  const RunRecord record = given_.folder->record();
  return std::ranges::any_of(record.provisional,
                             [&](const ProvisionalLaunch& launch) { return LaunchMark(launch.secret) == mark; });
}

void LaunchKeeper::Begin(const LaunchRecord& launch, LeaseRecord lease, SteadyTime written_at) {
  committer_ = launch.has_base() ? launch.id : 0;
  launch_ = launch;
  lease_ = std::move(lease);
  left_before_.reset();
  lease_lost_ = false;
  written_at_ = written_at;
  written_ = lease_->state;
  failed_ = false;
  RenewLater();
}

void LaunchKeeper::BeginProvisional() {
  Stop();
  launch_.reset();  // the lease of the one before it is not its own
  ConfirmNow();
}

LaunchKeeper::Confirm LaunchKeeper::MakeConfirm() const {
  return [folder = given_.folder, maker = ThisDaemon(context_), mutex = confirming_](Prefix& prefix) {
    const absl::MutexLock lock(mutex.get());
    return ConfirmProvisional(prefix, *folder, maker);
  };
}

void LaunchKeeper::ConfirmNow() {
  if (context_.quiescing() || given_.gate.replaced() || !given_.gate.writable()) return RenewLater();
  context_.OnPrefix(
      given_.gate.path(), [prefix = given_.gate.prefix(), confirm = MakeConfirm()] { return confirm(*prefix); },
      [this](const absl::StatusOr<std::vector<ConfirmedLaunch>>& confirmed) {
        if (confirmed.ok()) return TellConfirmed(*confirmed);
        if (!std::exchange(failed_, true)) {
          context_.Warn(
              fmt::format("run {}: a launch that began without the prefix is not made there "
                          "yet: {}",
                          given_.run_name, MessageOf(confirmed.status())));
        }
        RenewLater();
      });
}

void LaunchKeeper::TellConfirmed(const std::vector<ConfirmedLaunch>& confirmed) {
  if (confirmed.empty()) return;
  failed_ = false;
  committer_ = confirmed.back().made.id;
  reports_.on_confirmed(confirmed);
  if (!confirmed.back().made.abandoned) Resume(confirmed.back().made);
}

void LaunchKeeper::Resume(const LaunchRecord& launch) {
  committer_ = launch.has_base() ? launch.id : 0;
  if (!launch.has_base() || (launch_ && launch_->id == launch.id)) return;
  launch_ = launch;
  lease_.reset();
  left_before_.reset();
  lease_lost_ = false;
  Renew();
}

LaunchKeeper::Wanted LaunchKeeper::WhatIsSo() const {
  const Launch* newest = given_.ledger.newest();
  if (!launch_ || (newest != nullptr && (!newest->ours || newest->id != launch_->id))) return {};
  if (newest != nullptr && !newest->over())
    return {.state = State::kLive, .what = fmt::format("{} ranks of launch {}", newest->live(), newest->id)};
  return WhatIsLeft();
}

LaunchKeeper::Wanted LaunchKeeper::WhatIsLeft() const {
  const DatasetPtr last = given_.ledger.NewestRestorable();
  const bool flushing = last && !last->in_prefix() && reports_.flushing(last->id);
  const bool in_caches_only = last && !last->in_prefix() && !last->in_folder();
  if (flushing || (in_caches_only && reports_.bringing(*last))) {
    return {.state = State::kDraining,
            .what = fmt::format("dataset {} (step {}) is on its way to {}", last->id, last->step,
                                flushing ? "the prefix" : "redundant.path")};
  }
  if (const DatasetPtr newer = MayTurnOutNewest(given_.ledger)) {
    return {.what = fmt::format("dataset {} (step {}) may be whole in caches of nodes", newer->id, newer->step)};
  }
  if (in_caches_only) {
    return {.what = fmt::format("dataset {} (step {}) is in caches of nodes only", last->id, last->step)};
  }
  return {.what = std::string(lease::kLeftNothing)};
}

void LaunchKeeper::Update() {
  if (!launch_ || context_.quiescing() || given_.gate.replaced()) return;
  const Wanted wanted = WhatIsSo();
  const bool ended = wanted.state == State::kEnded;
  // A lease that has ended is made anew only if the one before it says something else.
  if (!lease_ && ended && (!left_before_ || wanted.what.empty() || wanted.what == *left_before_)) return;
  if (!lease_ || wanted.state != lease_->state || (ended && wanted.what != lease_->what)) Renew();
}

bool LaunchKeeper::LeaseHolds() const {
  return lease_ && written_ != State::kEnded && context_.now() < written_at_ + term();
}

// A daemon that has just started knows the run from its cache alone. If the newest launch is its own, others may have
// to wait for what it still flushes; if it is another's, what it would commit does not count.
void LaunchKeeper::LookForNewest() {
  if (launch_) return Renew();
  if (looking_ || !given_.gate.writable()) return;
  looking_ = true;
  context_.OnPrefix(
      given_.gate.path(),
      [prefix = given_.gate.prefix(), cache = context_.cache_id]() -> absl::StatusOr<Newest> {
        Newest newest;
        CAIRN_ASSIGN_OR_RETURN(newest.launch, prefix->NewestLaunch());
        if (newest.launch && newest.launch->maker.cache == cache) {
          CAIRN_ASSIGN_OR_RETURN(newest.left, LeftBy(*prefix, newest.launch->id, cache));
        }
        return newest;
      },
      [this](const absl::StatusOr<Newest>& newest) {
        looking_ = false;
        if (!newest.ok()) {
          return context_.Warn(
              fmt::format("run {}: its newest launch: {}", given_.run_name, MessageOf(newest.status())));
        }
        if (launch_ || !newest->launch) return;
        left_before_ = newest->left;
        Found(*newest->launch);
      });
}

void LaunchKeeper::Found(const LaunchRecord& newest) {
  const Launch* known = given_.ledger.newest();
  if (!IsOurs(context_, newest)) {
    if (known == nullptr || known->id < newest.id) reports_.on_newer(newest);
  } else if (newest.has_base()) {
    launch_ = newest;
    Update();
  }
}

void LaunchKeeper::Stop() {
  if (timer_ != 0) context_.loop().Cancel(std::exchange(timer_, 0));
}

void LaunchKeeper::RenewLater() {
  Stop();
  if (context_.quiescing()) return;
  timer_ = context_.loop().After(std::max(term() / kWritesInTerm, std::chrono::milliseconds(1)), [this] {
    timer_ = 0;
    given_.folder->record().provisional.empty() ? Renew() : ConfirmNow();
  });
}

// One look at a time; what has changed meanwhile is told by the next.
void LaunchKeeper::Renew() {
  if (!launch_ || context_.quiescing() || given_.gate.replaced()) return;
  if (working_) {
    again_ = true;
    return;
  }
  if (!given_.gate.writable()) return RenewLater();
  working_ = true;
  Wanted wanted = WhatIsSo();
  const bool make = !lease_ || lease_lost_;
  LeaseRecord next = lease_.value_or(LeaseRecord{});
  next.launch = launch_->id;
  next.cache = context_.cache_id;
  next.host = context_.env.process.host;
  next.pid = context_.env.process.pid;
  next.term_ms = context_.config.lease.term_ms;
  next.state = wanted.state;
  next.what = std::move(wanted.what);
  ++next.counter;
  if (lease_) lease_ = next;
  auto write = [prefix = given_.gate.prefix(), next, make]() -> absl::StatusOr<LeaseRecord> {
    if (make) return prefix->MakeLease(next);
    CAIRN_RETURN_IF_ERROR(prefix->WriteLease(next));
    return next;
  };
  context_.OnPrefix(given_.gate.path(), std::move(write),
                    [this, began = context_.now(), next](const absl::StatusOr<LeaseRecord>& written) {
                      // A launch may have begun since: then this says nothing of its lease.
                      if (launch_ && launch_->id == next.launch) Written(began, written);
                      LookForNewer(next.launch, written);
                    });
}

// On its own, after the lease: what others read there counts here from then on, even if the prefix hangs just now.
void LaunchKeeper::LookForNewer(LaunchId launch, const absl::StatusOr<LeaseRecord>& written) {
  context_.OnPrefix(
      given_.gate.path(), [prefix = given_.gate.prefix(), launch] { return prefix->LaunchAfter(launch); },
      [this, launch, written](const absl::StatusOr<std::optional<LaunchRecord>>& newer) {
        working_ = false;
        if (!newer.ok()) WarnOnce(newer.status());
        if (newer.ok() && written.ok()) failed_ = false;
        const bool shut_out = newer.ok() && *newer;
        // One of this daemon's own is entered when it is made.
        if (shut_out && !IsOurs(context_, **newer)) Found(**newer);
        if (std::exchange(again_, false)) return Renew();
        const bool current = launch_ && launch_->id == launch;
        const bool ended = written.ok() && written->state == State::kEnded;
        // Whose launch is over, or not the newest, has no lease to keep.
        if (current && !shut_out && !ended) RenewLater();
      });
}

void LaunchKeeper::Written(SteadyTime began, const absl::StatusOr<LeaseRecord>& written) {
  if (absl::IsNotFound(written.status())) lease_lost_ = true;
  if (!written.ok()) return WarnOnce(written.status());
  lease_lost_ = false;
  written_at_ = began;
  written_ = written->state;
  if (!lease_ || lease_->epoch != written->epoch) lease_ = *written;
}

void LaunchKeeper::WarnOnce(const absl::Status& status) {
  if (std::exchange(failed_, true)) return;
  context_.Warn(
      fmt::format("run {}: the lease of launch {}: {}", given_.run_name, launch_ ? launch_->id : 0, MessageOf(status)));
}

}  // namespace cairn
