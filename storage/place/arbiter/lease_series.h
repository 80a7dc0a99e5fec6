// Leases that follow each other under one stem: <stem>.<epoch>.lease, at a run's arbiter. Whoever holds the newest one
// writes it again and again, with a higher counter; who takes over makes the next epoch; the highest counts. What a
// record says is its owner's affair (../prefix/lease.h, ../prefix/coordinator_lease.h).
//
// A challenger compares no clocks: it waits until the bytes have not changed for a term by its own steady clock
// (ChangeWatch).
//
// The bytes: a kvtree, whose header has its length and whose end has its CRC, then zeros up to kBytes. Calls block as
// the arbiter's; stateless.
#ifndef CAIRN_STORAGE_PLACE_ARBITER_LEASE_SERIES_H_
#define CAIRN_STORAGE_PLACE_ARBITER_LEASE_SERIES_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/format/kvtree/tree.h"
#include "storage/place/arbiter/arbiter.h"

namespace cairn {
namespace lease_series {

inline constexpr std::size_t kBytes = 1024;  // of each file, always: it is written with one call
inline constexpr std::uint64_t kEpochMax = 999'999'999'999'999'999;  // in names: NumberAfter reads 18 digits

std::string NameOf(std::string_view stem, std::uint64_t epoch);
// (stem, epoch), which is from 1 on; none: it is no lease's name. The stem is a part of `name`.
std::optional<std::pair<std::string_view, std::uint64_t>> Parse(std::string_view name);
// Of this stem, at most `epoch_max`; 0: none.
std::uint64_t HighestEpoch(std::string_view stem, const std::vector<std::string>& names,
                           std::uint64_t epoch_max = kEpochMax);

// The bytes of a lease. kInternal: they would not fit.
absl::StatusOr<std::string> Pack(const std::string& name, const kvtree::Tree& tree);
// Text for a lease: cut to `bytes_max`, but not within a character of UTF-8, and on one line: control characters become
// '?'.
std::string Cleaned(std::string_view text, std::size_t bytes_max);

struct Seen {
  std::uint64_t epoch = 0;
  std::string bytes;    // the first kBytes; "" if it cannot be a lease
  bool longer = false;  // than kBytes: it is none, but may change as well
  friend bool operator==(const Seen&, const Seen&) = default;
};
// None: not a whole lease. Nobody needs to know why: whatever it is, one waits for it to change.
std::optional<kvtree::Tree> Unpack(const Seen& seen);

// kNotFound.
absl::StatusOr<Seen> Read(Arbiter& arbiter, std::string_view stem, std::uint64_t epoch);
// The newest epoch's among `names`, which the arbiter gave, and which is still there; none: there is none.
absl::StatusOr<std::optional<Seen>> Find(Arbiter& arbiter, std::string_view stem,
                                         const std::vector<std::string>& names);

}  // namespace lease_series

// Since when has a lease been as it is? Give it every look. No I/O, no clock: not thread-safe.
class ChangeWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  void Saw(std::string_view stem, const std::optional<lease_series::Seen>& lease, Time now);
  // A look was not possible: the next one is a first one.
  void Forget() { seen_ = false; }
  Time since() const { return since_; }      // of the first look that found it as it is
  bool changed() const { return changed_; }  // between two looks at this stem

 private:
  std::string stem_;
  std::optional<lease_series::Seen> lease_;
  bool seen_ = false;     // the above are of a look
  bool changed_ = false;  // since the first of these looks
  Time since_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_ARBITER_LEASE_SERIES_H_
