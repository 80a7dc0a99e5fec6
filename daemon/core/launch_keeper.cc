#include "daemon/core/launch_keeper.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "storage/base/launch_mark.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kWritesInTerm = 6;

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
  context_.OnPrefix([prefix = given_.gate.prefix(), confirm = MakeConfirm()] { return confirm(*prefix); },
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
  Renew();
}

LaunchKeeper::Wanted LaunchKeeper::WhatIsSo() const {
  const Launch* newest = given_.ledger.newest();
  if (!launch_ || (newest != nullptr && (!newest->ours || newest->id != launch_->id))) return {};
  if (newest != nullptr && !newest->over())
    return {.state = State::kLive, .what = fmt::format("{} ranks of launch {}", newest->live(), newest->id)};
  const DatasetPtr last = given_.ledger.NewestRestorable();
  if (!last || last->in_prefix() || !reports_.flushing(last->id)) return {};
  return {.state = State::kDraining,
          .what = fmt::format("dataset {} (step {}) is on its way to the prefix", last->id, last->step)};
}

void LaunchKeeper::Update() {
  if (!launch_ || context_.quiescing() || given_.gate.replaced()) return;
  const State wanted = WhatIsSo().state;
  if (lease_ ? wanted != lease_->state : wanted != State::kEnded) Renew();
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
  context_.OnPrefix([prefix = given_.gate.prefix()] { return prefix->NewestLaunch(); },
                    [this](const absl::StatusOr<std::optional<LaunchRecord>>& newest) {
                      looking_ = false;
                      if (!newest.ok()) {
                        return context_.Warn(
                            fmt::format("run {}: its newest launch: {}", given_.run_name, MessageOf(newest.status())));
                      }
                      if (!launch_ && *newest) Found(**newest);
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
  const bool make = !lease_;
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
  auto look = [prefix = given_.gate.prefix(), next, make] {
    Looked looked;
    if (make) {
      auto made = prefix->MakeLease(next);
      looked.written = made.status();
      if (made.ok()) looked.lease = *std::move(made);
    } else {
      looked.written = prefix->WriteLease(next);
    }
    looked.newer = prefix->LaunchAfter(next.launch);
    return looked;
  };
  context_.OnPrefix(std::move(look), [this, began = context_.now(), next](Looked looked) {
    working_ = false;
    // A launch may have begun since: then this says nothing of its lease.
    const bool current = launch_ && launch_->id == next.launch;
    if (current) Written(began, next.state, looked);
    const bool newer = looked.newer.ok() && *looked.newer;
    // One of this daemon's own is entered when it is made.
    if (newer && !IsOurs(context_, **looked.newer)) Found(**looked.newer);
    if (std::exchange(again_, false)) return Renew();
    // Whose launch is not the newest has no lease to keep.
    const bool ended = lease_ && lease_->state == State::kEnded && looked.written.ok();
    if (current && !newer && !ended) RenewLater();
  });
}

void LaunchKeeper::Written(SteadyTime began, State state, const Looked& looked) {
  const absl::Status& status = looked.written.ok() ? looked.newer.status() : looked.written;
  if (looked.written.ok()) {
    written_at_ = began;
    written_ = state;
    if (looked.lease) lease_ = looked.lease;
  }
  if (status.ok()) {
    failed_ = false;
  } else if (!std::exchange(failed_, true)) {
    context_.Warn(fmt::format("run {}: the lease of launch {}: {}", given_.run_name, launch_->id, MessageOf(status)));
  }
}

}  // namespace cairn
