// Tells which daemon coordinates a run: coordinator.<epoch>.lease, at the run's arbiter. Its maker writes it again in
// place every sixth of its term; nobody else ever writes it. Epochs only grow and the highest counts: whoever takes
// over makes the next one. A lease only decides who acts; what counts of what was done is decided by launches.h.
//
// Two never act at once, if both go by these rules and their clocks run alike:
// - The holder acts until half a term after the start of its last write that counts. A write counts if after it there
//   was no newer lease (Renew). A holder whose lease has gone, or has been written by another, acts no more.
// - A challenger first sees the lease unchanged for its whole term (CoordinatorWatch), then makes the next (Take), and
//   then looks once more: a holder that had only stood still either finds the new lease when it has written its own, or
//   its write is found by that look. In that case the new holder waits for the older term before it acts; until then
//   its own lease says TAKING, and nobody concludes from it that the older one is over.
// - Where there is no lease at all, nobody has ever coordinated, or somebody has removed the leases. `coordinated`, a
//   record that the first one makes, tells the two apart: if it is there already, a challenger waits for a term, in
//   which the former holder finds out.
//
// The bytes are as of all leases (../arbiter/lease_series.h), with VERSION 1, RUN, EPOCH, COUNTER, NODE, INCARNATION,
// HOST, ADDRESS, TERM in ms, STATE; MEMBERS and OTHERS, which releases before do not write and do not read. Calls of
// `coordinator_lease` block as the arbiter's; stateless.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_COORDINATOR_LEASE_H_
#define CAIRN_STORAGE_PLACE_PREFIX_COORDINATOR_LEASE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "storage/base/ids.h"
#include "storage/place/arbiter/arbiter.h"
#include "storage/place/arbiter/lease_series.h"

namespace cairn {

// Whom the holder of a lease knows, so that whoever follows it knows for whom to wait. Nobody acts by it.
struct KnownMembers {
  std::uint32_t count = 0;            // with the holder; 0: it does not say
  std::set<std::string> others = {};  // without the holder, as ShortNode; none: it does not say, or there are none
  friend bool operator==(const KnownMembers&, const KnownMembers&) = default;
};

struct CoordinatorRecord {
  RunId run;  // one that was copied with its directory is of another run, and means nothing
  std::uint64_t epoch = 0;
  std::uint64_t counter = 0;
  std::string node;  // identity of the holder's cache (node.cairn), hex
  std::uint64_t incarnation = 0;
  std::string host;
  std::string address;        // where the members reach it
  std::uint64_t term_ms = 0;  // at least 1
  // kTaking: it may have to wait before it acts, and has not said yet that it need not. kLive: it need not, or has
  // waited. kEnded: it was live, and acts no more, so that the next may be made at once.
  enum class State : std::uint8_t { kTaking, kLive, kEnded };
  State state = State::kTaking;
  KnownMembers members = {};

  friend bool operator==(const CoordinatorRecord&, const CoordinatorRecord&) = default;
};

namespace coordinator_lease {

// What is longer is cut, and control characters become '?', when a record is written.
inline constexpr std::size_t kNodeBytesMax = 32;
inline constexpr std::size_t kHostBytesMax = 64;
inline constexpr std::size_t kAddressBytesMax = 128;
inline constexpr std::uint32_t kMembersMax = 16'384;
inline constexpr std::size_t kOthersMax = 32;      // more are counted only
inline constexpr std::size_t kShortNodeBytes = 8;  // the last of 32 hex digits, which are random
// No lease keeps others out for longer.
inline constexpr std::chrono::milliseconds kTermMax = std::chrono::hours(1);

std::string NameOf(std::uint64_t epoch);  // coordinator.<epoch>.lease
std::string ShortNode(std::string_view node);

// The newest lease. `record` is none if it cannot be read: torn, just being written, or of another version.
struct Found {
  std::optional<lease_series::Seen> seen;  // none: there is no lease
  std::optional<CoordinatorRecord> record;
  std::uint64_t epoch() const { return seen ? seen->epoch : 0; }
};
absl::StatusOr<Found> Look(Arbiter& arbiter);

// Makes the record `coordinated`: true, no daemon of the run has come so far before; false, one has.
absl::StatusOr<bool> IsFirst(Arbiter& arbiter, const CoordinatorRecord& record);

struct Taken {
  std::uint64_t epoch = 0;
  // An older lease is not as it was judged: its holder may act for so long after this call. 0: as judged.
  std::chrono::milliseconds wait{0};
};
// Makes `record` the next lease, above `record.epoch` and above `judged`, which the challenger may follow. It says
// TAKING.
//   kAborted  another has made one meanwhile: judge anew
//   kInvalidArgument, kResourceExhausted  no such term; a name has the last number that there is
absl::StatusOr<Taken> Take(Arbiter& arbiter, const Found& judged, CoordinatorRecord record);

// Writes it over: it is ours. It counts if OK is the answer.
//   kNotFound  somebody has removed it, or another has written it
//   kAborted   there is a newer one
absl::Status Renew(Arbiter& arbiter, const CoordinatorRecord& record);

// Says that it has ended. Its maker acts no more, and never renews it again.
// REQUIRES: it need not wait any more
absl::Status End(Arbiter& arbiter, CoordinatorRecord record);

}  // namespace coordinator_lease

// What one challenger concludes from its looks. No I/O, no clock: not thread-safe.
class CoordinatorWatch {
 public:
  using Time = ChangeWatch::Time;
  enum class Verdict : std::uint8_t {
    kOver,   // the next may be made
    kFirst,  // the same if IsFirst says so; else judge again with `coordinated`
    kHeld,   // wait, and look again
  };
  struct Look {
    RunId run;
    std::string node;                       // of the challenger: an earlier life's lease is void
    std::chrono::milliseconds own_term{0};  // for a lease that cannot be read, or none
    bool coordinated = false;               // IsFirst has said that another was before
    Time began, ended;                      // the look, by the challenger's steady clock
  };
  struct Judged {
    Verdict verdict = Verdict::kHeld;
    std::chrono::milliseconds left{0};  // until it is over if nothing changes. kHeld: at least 1 ms
    bool lapsed = false;                // it is over since it was not renewed, or is not there any more
  };
  Judged Judge(const Look& look, const coordinator_lease::Found& found);
  // A look was not possible: the holder may not have been able to write its lease either.
  void CouldNotLook() { watch_.Forget(); }

 private:
  ChangeWatch watch_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_COORDINATOR_LEASE_H_
