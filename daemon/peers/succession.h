// What one member concludes from its looks at the coordinators' leases of whoever comes next: is a take-over to be
// waited for, and do those who were below a coordinator that is gone know the new one? Nobody acts by this; it only
// says how long it is worth waiting for the table (Membership::knowledge). Pure: times are the caller's.
#ifndef CAIRN_DAEMON_PEERS_SUCCESSION_H_
#define CAIRN_DAEMON_PEERS_SUCCESSION_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "storage/place/prefix/coordinator_lease.h"

namespace cairn {

class Succession {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using WallTime = std::chrono::system_clock::time_point;

  explicit Succession(std::chrono::milliseconds own_term) : own_term_(own_term) {}

  // The arbiter has answered, whatever was asked.
  void Answered(Time now) { answered_ = now; }
  // A look has found that this lease is held. Its holder lives, or its term is not over.
  void Saw(const CoordinatorRecord& held, Time now, WallTime wall);
  // Another member has told of this epoch, whose lease no look has found yet.
  void Heard(std::uint64_t epoch, Time now);

  // By the arbiter's last word, which is not old: the newest lease is held, and whoever holds it has not renewed it of
  // late, or has just come. So it will be taken over within its term, or links will lead to whoever holds it. Not so if
  // - the arbiter has been silent for half a term (and for 2 s),
  // - the holder renews it: then it lives, and nobody takes over,
  // - it was last written three terms ago: who lives of its members would have taken over. (By wall clocks. If they do
  //   not agree, this says too early that there is nobody, or waits for a take-over of this member's own.)
  bool IsExpected(Time now) const;
  // The newest lease's holder has not had the time that those who were below the one before need to find it.
  bool Gathers(Time now) const { return now < gathers_until_; }
  // All that were members of the lease that was seen last are gone: IsExpected's third case.
  bool nobody_is_left() const { return nobody_is_left_; }

 private:
  void Follow(std::uint64_t epoch, Time now);
  bool LivesAndStays(Time now) const;

  const std::chrono::milliseconds own_term_;
  std::optional<Time> answered_;
  std::uint64_t epoch_ = 0;  // the newest; 0: none was seen held
  std::uint64_t counter_ = 0;
  std::chrono::milliseconds term_{0};  // of its lease
  std::optional<Time> followed_;       // when it was first known, if an earlier one had been seen
  std::optional<Time> renewed_;        // the last time that a look found it so
  bool nobody_is_left_ = false;
  Time gathers_until_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_SUCCESSION_H_
