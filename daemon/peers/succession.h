// What one member concludes from its looks at the coordinators' leases of whoever comes next: is a take-over to be
// waited for? Nobody acts by this; it only says how long it is worth waiting for the table (Membership::knowledge).
// Pure: times are the caller's.
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

  explicit Succession(std::chrono::milliseconds own_term) : own_term_(own_term) {}

  // The arbiter has answered, whatever was asked.
  void Answered(Time now) { answered_ = now; }
  // A look has found that this lease is held. Its holder lives, or its term is not over.
  void Saw(const CoordinatorRecord& held, Time now);
  // The same of one that cannot be read, or that somebody has removed (epoch 0): it will be followed within its term,
  // or the own one.
  void SawUnread(std::uint64_t epoch, Time now);
  // Another member has told of this epoch, whose lease no look has found yet.
  void Heard(std::uint64_t epoch, Time now);

  // By the arbiter's last word, which is not old: the newest lease is held, and its holder has not renewed it of late,
  // or has just come. So it will be taken over within its term, or links will lead to its holder. How long ago the
  // lease was written does not count: wall clocks do not agree, and while the arbiter is silent nobody can write it.
  // Not so if
  // - the arbiter has been silent for half a term (and for 2 s),
  // - the holder renews it: then it lives, and nobody takes over,
  // - the lease says that its holder knew nobody else: then there is nobody who could tell of others.
  bool IsExpected(Time now) const;

 private:
  void Follow(std::uint64_t epoch, Time now);

  const std::chrono::milliseconds own_term_;
  std::optional<Time> answered_;
  std::uint64_t epoch_ = 0;  // the newest; 0: none was seen held
  bool unread_ = false;      // one was there of which nothing is known
  std::uint64_t counter_ = 0;
  std::uint32_t members_ = 0;          // KnownMembers::count of its lease
  std::chrono::milliseconds term_{0};  // of its lease
  std::optional<Time> followed_;       // when it was first known, if an earlier one had been seen
  std::optional<Time> renewed_;        // the last time that a look found it so
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_SUCCESSION_H_
