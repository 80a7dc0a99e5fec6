#include "daemon/peers/tenure.h"

#include <algorithm>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

using coordinator_lease::Found;
using State = CoordinatorRecord::State;

constexpr int kWritesInTerm = 6;
constexpr int kPausesInTerm = 24;  // at least one lies between two writes, also while members come
constexpr int kLooksInTerm = 10, kFirstLooksInTerm = 100;

}  // namespace

Tenure::Tenure(Given given, Reports reports)
    : given_(std::move(given)), reports_(std::move(reports)), succession_(term()) {}

Tenure::~Tenure() {
  ClearTimers();
}

bool Tenure::acting() const {
  return holds_ && !ended_ && !remaking_ && now() >= acts_from_ && now() < written_at_ + term() / 2;
}

// One question at a time. Its answer is for whoever asked last: who holds, looks and ends is decided on the strand.
template <typename Result>
void Tenure::Ask(std::function<absl::StatusOr<Result>(Arbiter&)> work, Then<Result> then) {
  busy_ = true;
  auto result = std::make_shared<absl::StatusOr<Result>>(Unavailable("the arbiter was not asked"));
  given_.on_arbiter(
      [result, work = std::move(work)](Arbiter& arbiter) {
        *result = work(arbiter);
        return result->status();
      },
      [this, alive = std::weak_ptr<int>(alive_), began = now(), result,
       then = std::move(then)](const absl::Status& status) {
        if (alive.expired()) return;
        busy_ = false;
        answered_at_ = now();
        if (when_idle_) return std::exchange(when_idle_, nullptr)();
        if (!status.ok()) *result = status;
        if (result->ok() || absl::IsAborted(result->status())) succession_.Answered(now());
        then(began, *result);
      });
}

void Tenure::SetTimer(milliseconds delay, void (Tenure::*then)()) {
  if (timer_ != 0) given_.loop.Cancel(timer_);
  timer_ = given_.loop.After(std::max(delay, milliseconds(1)), [this, then] {
    timer_ = 0;
    (this->*then)();
  });
}

void Tenure::ClearTimers() {
  for (Loop::TimerId* timer : {&timer_, &acting_timer_}) {
    if (*timer != 0) given_.loop.Cancel(std::exchange(*timer, 0));
  }
}

// --- Looking ---

void Tenure::Look() {
  if (looking_ || holds_ || ended_) return;
  looking_ = true;
  pause_ = milliseconds(0);
  SetTimer(milliseconds(1), &Tenure::LookNow);
}

void Tenure::StopLooking() {
  if (!looking_) return;
  looking_ = false;
  watch_.CouldNotLook();  // what happens meanwhile nobody sees
  ClearTimers();
}

void Tenure::LookNow() {
  if (!looking_) return;
  if (busy_) {
    // The call before hangs. The owner may know other ways.
    SetTimer(term() / 2, &Tenure::LookNow);
    return reports_.on_silent(DeadlineExceeded("the arbiter has not answered yet"));
  }
  SetTimer(term() / 2, &Tenure::LookNow);
  Ask<Found>([](Arbiter& arbiter) { return coordinator_lease::Look(arbiter); },
             [this](SteadyTime began, const absl::StatusOr<Found>& found) {
               if (!looking_) return;
               found.ok() ? Judge(began, *found) : Silent(found.status());
             });
}

void Tenure::Silent(const absl::Status& why) {
  watch_.CouldNotLook();
  SetTimer(term() / kLooksInTerm, &Tenure::LookNow);
  reports_.on_silent(why);
}

void Tenure::Judge(SteadyTime began, const coordinator_lease::Found& found) {
  using Verdict = CoordinatorWatch::Verdict;
  const auto judged = watch_.Judge({.run = given_.self.run,
                                    .node = given_.self.node,
                                    .own_term = term(),
                                    .coordinated = coordinated_,
                                    .began = began,
                                    .ended = now()},
                                   found);
  if (!found.record || found.record->run == given_.self.run) known_ = std::max(known_, found.epoch());
  if (judged.verdict == Verdict::kOver) return Take(found, judged.lapsed);
  if (judged.verdict == Verdict::kFirst) return TryFirst(found);
  if (paused_for_ != found.epoch()) pause_ = milliseconds(0);
  paused_for_ = found.epoch();
  LookAgain(judged.left);
  found.record ? succession_.Saw(*found.record, now()) : succession_.SawUnread(found.epoch(), now());
  if (found.record && found.record->node != given_.self.node) reports_.on_found(*found.record);
}

// Often at first: a coordinator that is new is found soon.
void Tenure::LookAgain(milliseconds left) {
  pause_ = std::clamp(2 * pause_, term() / kFirstLooksInTerm, term() / kLooksInTerm);
  SetTimer(std::min(left, pause_), &Tenure::LookNow);
}

// --- Taking over ---

void Tenure::TryFirst(coordinator_lease::Found found) {
  Ask<bool>([self = given_.self](Arbiter& arbiter) { return coordinator_lease::IsFirst(arbiter, self); },
            [this, found = std::move(found)](SteadyTime, const absl::StatusOr<bool>& first) mutable {
              if (!looking_) return;
              if (!first.ok()) return Silent(first.status());
              if (*first) return Take(std::move(found));
              coordinated_ = true;
              succession_.SawUnread(0, now());
              LookAgain(term());
            });
}

void Tenure::Take(coordinator_lease::Found found, bool lapsed) {
  if (!remaking_) awaited_ = AwaitedAfter(found, lapsed, given_.self);
  awaited_ = given_.besides(std::move(awaited_), found.epoch());
  record_ = given_.self;
  record_.members = given_.members(awaited_);
  record_.address = given_.address();
  record_.counter = 1;
  record_.epoch = known_;
  Ask<coordinator_lease::Taken>([found = std::move(found), record = record_](
                                    Arbiter& arbiter) { return coordinator_lease::Take(arbiter, found, record); },
                                [this](SteadyTime began, const auto& taken) { Taken(began, taken); });
}

// If it was made it is held, also if a parent was found meanwhile: it is the newest one.
void Tenure::Taken(SteadyTime began, const absl::StatusOr<coordinator_lease::Taken>& taken) {
  if (ended_) return;
  if (!taken.ok()) {
    if (remaking_) return Lose(Lost::kNewer, taken.status());
    if (!looking_) return;
    if (!absl::IsAborted(taken.status())) return Silent(taken.status());
    return SetTimer(milliseconds(1), &Tenure::LookNow);
  }
  looking_ = false;
  watch_.CouldNotLook();
  remaking_ = false;
  holds_ = coordinated_ = true;
  record_.epoch = taken->epoch;
  written_at_ = began;
  acts_from_ = now() + taken->wait;
  const bool outdone = known_ > record_.epoch;  // somebody has told of a newer one meanwhile
  known_ = std::max(known_, record_.epoch);
  if (outdone) return Lose(Lost::kNewer, Aborted("epoch {} is known", known_));
  RenewAt(began + term() / kWritesInTerm);
  reports_.on_held(record_.epoch, awaited_);
  TellActing();
  MembersChanged();
}

// --- Holding ---

// Some time after the last answer: an arbiter that is slow is not kept busy.
void Tenure::RenewAt(SteadyTime at) {
  const SteadyTime may = std::max(at, answered_at_ + term() / kPausesInTerm);
  SetTimer(std::chrono::ceil<milliseconds>(may - now()), &Tenure::Renew);
}

void Tenure::Renew() {
  if (!holds_) return;
  if (now() >= written_at_ + term()) {
    return Lose(Lost::kSilent, DeadlineExceeded("epoch {} could not be renewed for a term", record_.epoch));
  }
  SetTimer(term() / kWritesInTerm, &Tenure::Renew);  // also if no answer comes
  if (busy_) return;
  ++record_.counter;
  record_.members = given_.members(awaited_);
  record_.address = given_.address();
  if (now() >= acts_from_) record_.state = State::kLive;
  Ask<bool>(
      [record = record_](Arbiter& arbiter) -> absl::StatusOr<bool> {
        CAIRN_RETURN_IF_ERROR(coordinator_lease::Renew(arbiter, record));
        return true;
      },
      [this, epoch = record_.epoch](SteadyTime began, const absl::StatusOr<bool>& renewed) {
        if (holds_ && record_.epoch == epoch) Renewed(began, renewed.status());
      });
}

void Tenure::Renewed(SteadyTime began, const absl::Status& renewed) {
  if (absl::IsNotFound(renewed)) return Remake();
  if (absl::IsAborted(renewed)) return Lose(Lost::kNewer, renewed);
  if (renewed.ok()) written_at_ = began;
  RenewAt(began + term() / kWritesInTerm);
  TellActing();
  MembersChanged();
}

void Tenure::MembersChanged() {
  if (!holds_ || busy_ || given_.members(awaited_) == record_.members) return;
  RenewAt(now());
}

// Somebody has removed the lease. Nobody may take over from no lease for a term, so that the next one can be made at
// once; but what else lies there was made by others who may act.
void Tenure::Remake() {
  remaking_ = true;
  TellActing();
  Ask<coordinator_lease::Found>([](Arbiter& arbiter) { return coordinator_lease::Look(arbiter); },
                                [this](SteadyTime, const absl::StatusOr<coordinator_lease::Found>& found) {
                                  if (!holds_) return;
                                  if (!found.ok()) {
                                    remaking_ = false;  // the next renewal finds it again
                                    written_at_ = std::min(written_at_, now() - term() / 2);
                                    RenewAt(now());
                                  } else if (found->seen) {
                                    Lose(Lost::kNewer, NotFound("{} was removed or written by another",
                                                                coordinator_lease::NameOf(record_.epoch)));
                                  } else {
                                    Take(*found);
                                  }
                                });
}

void Tenure::Heard(std::uint64_t epoch) {
  if (epoch <= known_) return;
  known_ = epoch;
  succession_.Heard(epoch, now());
  if (holds_) Lose(Lost::kNewer, Aborted("another member knows epoch {}", epoch));
}

void Tenure::Lose(Lost why, const absl::Status& status) {
  holds_ = remaking_ = false;
  watch_.CouldNotLook();
  ClearTimers();
  reports_.on_lost(why, status);
  reports_.on_acting();
}

// The next time at which acting() changes without a call.
void Tenure::TellActing() {
  if (acting_timer_ != 0) given_.loop.Cancel(std::exchange(acting_timer_, 0));
  const SteadyTime until = written_at_ + term() / 2;
  if (holds_ && !remaking_ && now() < until) {
    const SteadyTime next = now() < acts_from_ ? std::min(acts_from_, until) : until;
    acting_timer_ = given_.loop.After(std::chrono::ceil<milliseconds>(next - now()), [this] {
      acting_timer_ = 0;
      TellActing();
    });
  }
  reports_.on_acting();
}

void Tenure::Abandon() {
  ended_ = true;
  holds_ = looking_ = remaking_ = false;
  ClearTimers();
}

void Tenure::End(std::function<void()> done) {
  const bool live = holds_ && !remaking_ && now() >= acts_from_;
  if (live) record_.members = given_.members(awaited_);
  const bool taking = busy_ && !holds_;
  Abandon();
  if (!live && !taking) return given_.loop.Post(std::move(done));
  auto end = [this, live, done = std::move(done)] {
    if (!live) return done();
    Ask<bool>(
        [record = record_](Arbiter& arbiter) -> absl::StatusOr<bool> {
          CAIRN_RETURN_IF_ERROR(coordinator_lease::End(arbiter, record));
          return true;
        },
        // If it could not be written, others wait for a term.
        [done](SteadyTime, const absl::StatusOr<bool>&) { done(); });
  };
  if (!busy_) return end();
  when_idle_ = std::move(end);
}

}  // namespace cairn
