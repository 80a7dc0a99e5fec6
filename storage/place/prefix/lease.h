// Tells whether somebody still works under a launch: launch.<n>.<epoch>.lease, at the run's arbiter (without another
// service that is <prefix>/.cairn). The daemon that serves the launch makes one and writes it again in place, with a
// higher counter, every sixth of its term; nobody else ever writes it. A daemon that comes to the same launch after it
// (a new incarnation) makes the next epoch; the highest counts. A lease only delays others: launches.h decides which
// commits count. Calls of `lease` block as the arbiter's; stateless.
//
// A daemon that wants to make a newer launch (a challenger) compares no clocks: it waits until the lease has not
// changed for its term by the challenger's own steady clock, and remembers what it saw from one look to the next
// (LeaseWatch).
//
// The bytes are as of all leases (../arbiter/lease_series.h), with VERSION 1, RUN, LAUNCH, EPOCH, COUNTER, CACHE, HOST,
// PID, TERM in ms, STATE, WHAT.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_LEASE_H_
#define CAIRN_STORAGE_PLACE_PREFIX_LEASE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/place/arbiter/arbiter.h"
#include "storage/place/arbiter/lease_series.h"

namespace cairn {

struct LeaseRecord {
  // kDraining: no session lives, but what a restart would choose is still on its way to the prefix.
  enum class State : std::uint8_t { kLive, kDraining, kEnded };
  RunId run;  // one that was copied with its directory is of another run, and means nothing
  LaunchId launch = 0;
  std::uint64_t epoch = 0;
  std::uint64_t counter = 0;
  std::string cache;  // identity of the writer's cache (node.cairn), hex
  std::string host;
  std::uint32_t pid = 0;
  std::uint64_t term_ms = 0;  // at least 1
  State state = State::kLive;
  // For messages: the sessions that live there, or the dataset that is being drained. Ended: the dataset that a restart
  // would choose, if only caches have it, or may have it; or lease::kLeftNothing. Empty: it is not known what was left.
  // Older releases always leave it empty then.
  std::string what;

  friend bool operator==(const LeaseRecord&, const LeaseRecord&) = default;
};

// A lease as found. `record` is none if it cannot be read: torn, just being written, of another version, or no lease at
// all. `bytes`, at most kBytes, tell whether it has changed.
struct LeaseSeen {
  std::uint64_t epoch = 0;
  std::string bytes;
  std::optional<LeaseRecord> record;
};

namespace lease {

inline constexpr std::size_t kBytes = lease_series::kBytes;
// What a lease that has ended says if no restart would choose anything that only caches have. Daemons compare this
// text: it never changes.
inline constexpr std::string_view kLeftNothing = "nothing is in caches of nodes only";
// What is longer is cut, and control characters become '?', when a record is written and again in messages.
inline constexpr std::size_t kWhatBytesMax = 500;
inline constexpr std::size_t kHostBytesMax = 64;   // HOST_NAME_MAX of Linux (gethostname(2))
inline constexpr std::size_t kCacheBytesMax = 32;  // RunId::Hex

std::string NameOf(LaunchId launch, std::uint64_t epoch);  // launch.<n>.<epoch>.lease
// (launch, epoch), both from 1 on; none: it is no lease's name.
std::optional<std::pair<LaunchId, std::uint64_t>> Parse(std::string_view name);

// Makes the next epoch's (exclusive, complete, durable), above all that the arbiter names and above the record's own,
// if it had one that was removed; the answer is the record with its epoch.
//   kInvalidArgument    launch or term is 0, or launch has more than 18 digits, which no name has
//   kAborted            others made the next one, again and again
//   kResourceExhausted  a name has the last number that there is
absl::StatusOr<LeaseRecord> Make(Arbiter& arbiter, LeaseRecord record);
// Writes it over, durably: it is ours. Each call writes all of it, so it may be tried again after any error.
// Until then the file may be torn: it delays others then for their own term. kNotFound: it is gone (the prefix was
// removed or renamed).
absl::Status Write(Arbiter& arbiter, const LeaseRecord& record);
// The newest epoch's among `names`, which the arbiter gave, and which is still there; none: there is none.
absl::StatusOr<std::optional<LeaseSeen>> Find(Arbiter& arbiter, LaunchId launch, const std::vector<std::string>& names);

}  // namespace lease

// Remembers for one challenger how the lease of one run's newest launch looked, and since when it has. Give it every
// look; the verdict tells what the challenger may do. No I/O, no clock: not thread-safe.
class LeaseWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Verdict : std::uint8_t {
    kOver,      // nobody works there: a new launch may be made
    kUnproven,  // nobody may be there: wait, and look again
    kLive,      // it has changed between two looks, the last time less than a term ago: somebody works there. Looks
                // that are more than half a term apart prove nothing of now: the second is a first one
    kDraining,  // as kUnproven or kLive, of a lease that says draining
  };
  struct Look {
    RunId run;              // of the prefix
    LaunchId launch = 0;    // the newest
    RunId launch_run;       // that it was made under
    std::string own_cache;  // whose lock the challenger holds: a lease of this cache is void for it. "": none
    std::chrono::milliseconds own_term{0};  // for a launch without lease, or one that cannot be read
    std::optional<LeaseSeen> lease;
    Time now;  // of this look
  };
  struct Judged {
    Verdict verdict = Verdict::kUnproven;
    // Unless it is over: a tenth of the term, but at least 10 ms, and never beyond the end of the term.
    std::chrono::milliseconds look_again{0};
    std::string holder;  // "cairnd 123 on node7 (…)", or that no lease is there yet, or that it cannot be read
  };
  Judged Judge(const Look& look);
  // A look was not possible: whoever holds the lease may not have been able to write it either. The next look is a
  // first one.
  void CouldNotLook() { watch_.Forget(); }

 private:
  ChangeWatch watch_;
  std::optional<Time> looked_;  // the last time
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_LEASE_H_
