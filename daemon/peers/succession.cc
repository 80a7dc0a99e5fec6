#include "daemon/peers/succession.h"

#include <algorithm>

namespace cairn {
namespace {

using std::chrono::milliseconds;

// See tenure.cc: a holder writes so often.
constexpr int kHolderWritesInTerm = 6;
constexpr milliseconds kSilentAtLeast(2'000);

milliseconds TermOf(const CoordinatorRecord& record) {
  constexpr auto kMax = static_cast<std::uint64_t>(coordinator_lease::kTermMax.count());
  return milliseconds(std::min(record.term_ms, kMax));
}

}  // namespace

void Succession::Follow(std::uint64_t epoch, Time now) {
  followed_ = epoch_ != 0 ? std::optional(now) : std::nullopt;
  epoch_ = epoch;
  renewed_.reset();
}

void Succession::Saw(const CoordinatorRecord& held, Time now) {
  term_ = TermOf(held);
  if (held.epoch != epoch_) {
    Follow(held.epoch, now);
  } else if (held.counter != counter_ && counter_ != 0) {
    renewed_ = now;
  }
  counter_ = held.counter;
  members_ = held.members.count;
}

void Succession::SawUnread(std::uint64_t epoch, Time now) {
  unread_ = true;
  if (epoch <= epoch_) return;  // what it said before counts
  Follow(epoch, now);
  counter_ = 0;
  members_ = 0;
}

void Succession::Heard(std::uint64_t epoch, Time now) {
  if (epoch <= epoch_) return;
  Follow(epoch, now);
  counter_ = 0;
  members_ = 0;
}

bool Succession::IsExpected(Time now) const {
  // A metadata server that is busy for a few seconds, as when a job starts, has not fallen silent.
  const milliseconds silent = std::max(kSilentAtLeast, own_term_ / 2);
  if ((epoch_ == 0 && !unread_) || !answered_ || now >= *answered_ + silent) return false;
  // One that has just come is not joined yet by this member, which may still be dialling the one before.
  if (followed_ && now < *followed_ + own_term_ / 2) return true;
  if (renewed_ && now < *renewed_ + 2 * term_ / kHolderWritesInTerm) return false;
  return members_ != 1;
}

}  // namespace cairn
