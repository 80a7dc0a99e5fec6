#include "daemon/peers/succession.h"

#include <algorithm>

namespace cairn {
namespace {

using std::chrono::milliseconds;

// See tenure.cc: a holder writes so often.
constexpr int kWritesInTerm = 6;
constexpr milliseconds kSilentAtLeast(2'000);
// A member that has lost its coordinator notices within half a term, and takes over within 1.2 terms after that.
constexpr int kTermsUntilTaken = 3;

milliseconds TermOf(const CoordinatorRecord& record) {
  constexpr auto kMax = static_cast<std::uint64_t>(coordinator_lease::kTermMax.count());
  return milliseconds(std::min(record.term_ms, kMax));
}

}  // namespace

void Succession::Follow(std::uint64_t epoch, Time now) {
  followed_ = epoch_ != 0 ? std::optional(now) : std::nullopt;
  epoch_ = epoch;
  renewed_.reset();
  gathers_until_ = {};
}

void Succession::Saw(const CoordinatorRecord& held, Time now, WallTime wall) {
  term_ = TermOf(held);
  if (held.epoch != epoch_) {
    Follow(held.epoch, now);
    // Each of its writes takes a sixth of a term, or longer.
    const auto writes = static_cast<int>(std::clamp<std::uint64_t>(held.counter, 1, kWritesInTerm)) - 1;
    if (held.gathers) gathers_until_ = now + term_ / 2 - writes * (term_ / kWritesInTerm);
  } else if (held.counter != counter_ && counter_ != 0) {
    renewed_ = now;
  }
  counter_ = held.counter;
  const WallTime written{std::chrono::duration_cast<WallTime::duration>(std::chrono::microseconds(held.written_us))};
  nobody_is_left_ = held.written_us != 0 && wall - written > kTermsUntilTaken * term_;
}

void Succession::Heard(std::uint64_t epoch, Time now) {
  if (epoch <= epoch_) return;
  const bool knew_one = epoch_ != 0;
  Follow(epoch, now);
  counter_ = 0;
  nobody_is_left_ = false;
  // Who holds it may know nobody.
  if (knew_one) gathers_until_ = now + own_term_ / 2;
}

// One that has just come is not joined yet by this member, which may still be dialling the one before.
bool Succession::LivesAndStays(Time now) const {
  if (!renewed_ || now >= *renewed_ + 2 * term_ / kWritesInTerm) return false;
  return !followed_ || now >= *followed_ + own_term_ / 2;
}

bool Succession::IsExpected(Time now) const {
  // A metadata server that is busy for a few seconds, as when a job starts, has not fallen silent.
  const milliseconds silent = std::max(kSilentAtLeast, own_term_ / 2);
  if (!answered_ || now >= *answered_ + silent) return false;
  return epoch_ != 0 && !nobody_is_left_ && !LivesAndStays(now);
}

}  // namespace cairn
