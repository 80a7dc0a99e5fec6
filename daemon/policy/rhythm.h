// When is a checkpoint due? From what checkpoints have cost so far, and how often they are wanted. No I/O, no clock.
#ifndef CAIRN_DAEMON_POLICY_RHYTHM_H_
#define CAIRN_DAEMON_POLICY_RHYTHM_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "storage/base/ids.h"

namespace cairn {

// How often; 0: not by this. Any that is set makes a checkpoint due.
struct Rhythm {
  std::uint32_t every = 0;                // at every so many-th question
  std::chrono::milliseconds interval{0};  // so long after the begin of the last one
  double overhead_percent = 0;            // while their share of the launch's time stays below
  std::chrono::milliseconds mtbf{0};      // of one node, mean time between failures: at BestInterval

  bool none() const { return every == 0 && interval.count() == 0 && overhead_percent <= 0 && mtbf.count() == 0; }
};

// What the checkpoints of one launch have cost the application: the time that the slowest rank was held up.
class CheckpointCosts {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::nanoseconds;

  explicit CheckpointCosts(Time opened = {}) : opened_(opened), last_begin_(opened) {}

  // A rank has begun dataset `id`: the first rank's word counts. Of a launch newer datasets have higher ids.
  void Begun(DatasetId id, Time now);
  // One rank was held up by it for so long. One that is older than the last kLast is not changed any more.
  void HeldUp(DatasetId id, Duration time);

  Time opened() const { return opened_; }
  Time last_begin() const { return last_begin_; }  // of a checkpoint; before the first one: opened()
  std::uint64_t measured() const { return measured_; }
  Duration total() const { return total_; }
  Duration mean() const;  // of the last ones; 0: none was measured

 private:
  static constexpr std::size_t kLast = 8;
  Time opened_, last_begin_;
  DatasetId last_begun_ = 0;
  std::map<DatasetId, Duration> last_;  // at most kLast
  std::uint64_t measured_ = 0;
  Duration total_{0};
};

// From the begin of one checkpoint to the begin of the next, so that as little time as possible is lost by checkpoints
// and by what failures undo: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
// dumps", Future Generation Computer Systems 22 (2006), equation 37, which is for the time between two checkpoints; the
// cost is added. `mtbf`: of all nodes together. Its first term, sqrt(2 cost mtbf), is Young's (1974).
CheckpointCosts::Duration BestInterval(CheckpointCosts::Duration cost, CheckpointCosts::Duration mtbf);

// The time from one to the next that `rhythm` asks for by interval or mtbf, the shorter one; none: by neither, or the
// cost is not known yet. `nodes`: of the launch, at least 1.
std::optional<CheckpointCosts::Duration> IntervalOf(const Rhythm& rhythm, const CheckpointCosts& costs,
                                                    std::uint32_t nodes);

// Why a checkpoint is due now, in words; none: it is not. `number`: of the question in this launch, from 1.
//   every     number is a multiple of it
//   interval  that time has passed since the last begin
//   overhead  with one more of mean cost, all would have cost less than this of the time until then; the first is due
//   mtbf      BestInterval has passed since the last begin, for the mean cost and mtbf / nodes; the first is due
std::optional<std::string> WhyDue(const Rhythm& rhythm, const CheckpointCosts& costs, std::uint64_t number,
                                  CheckpointCosts::Time now, std::uint32_t nodes);

}  // namespace cairn

#endif  // CAIRN_DAEMON_POLICY_RHYTHM_H_
