// SCR's redundancy payloads: what members of a set keep for each other, checked and used to make good what is lost.
// PARTNER (copies), XOR, and RS over GF(2^8) with SCR's own matrix. SCR specification, 10.5 to 10.8.
// No I/O but through functions; memory is bounded by some 16 MiB, whatever the files' sizes. What is in the headers
// (how many members, how long) is storage/format/scr/redset_records.h.
//
// Each member has a logical file: its files end to end, which reads as zeros beyond its end.
#ifndef CAIRN_STORAGE_FILE_REDUNDANCY_PAYLOAD_H_
#define CAIRN_STORAGE_FILE_REDUNDANCY_PAYLOAD_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/format/scr/redset_records.h"

namespace cairn::redundancy {

inline constexpr std::uint32_t kMembersMax = 4096;

using ReadAt = std::function<absl::Status(std::uint64_t offset, std::span<std::byte> target)>;
using WriteAt = std::function<absl::Status(std::uint64_t offset, std::span<const std::byte> bytes)>;

// Bytes from `offset` on where their owner has them in memory anyhow, at least one, at most `bytes_max`. They stay
// until the same source is used again.
using LendAt = std::function<absl::StatusOr<std::span<const std::byte>>(std::uint64_t offset, std::uint64_t bytes_max)>;
// These bytes will be asked for next, in order, if the caller goes on so long.
using ExpectAt = std::function<void(std::uint64_t offset, std::uint64_t bytes)>;

// Bytes that a member has; empty: they are lost. A function that reads is enough. Without `lend` each byte is copied,
// without `expect` sources are read one after the other.
struct Source {
  Source() = default;
  template <typename Function>
  requires std::constructible_from<ReadAt, Function> Source(Function function) : read(std::move(function)) {}
  explicit operator bool() const { return static_cast<bool>(read); }

  ReadAt read;
  LendAt lend;
  ExpectAt expect;
};

// One member, by set rank. What it has not (any more) is empty: data and payload may be lost each for itself.
struct Member {
  std::uint64_t bytes = 0;  // of the logical file
  Source data;              // of it; never asked for more
  Source payload;           // what is behind the header, from 0; never asked for more than PayloadBytes
};

struct Set {
  scr::Scheme scheme = scr::Scheme::kSingle;
  std::uint32_t replicas = 0;     // kPartner
  std::uint32_t checksums = 0;    // kRs
  std::uint64_t chunk_bytes = 0;  // kXor, kRs
  std::vector<Member> members;
};

// Do the numbers fit each other? All else requires it. kDataLoss: no such set (too few or too many members, chunks that
// are not as long as the largest file needs, sums beyond 63 bits).
absl::Status Check(const Set& set);
// REQUIRES: Check(set).ok(); member < members.size().
std::uint64_t PayloadBytes(const Set& set, std::uint32_t member);

// A place where what is there contradicts itself: one of the members in it is damaged.
struct Difference {
  std::uint32_t member = 0;  // whose payload
  std::uint64_t offset = 0;  // in the payload: the first byte that is not what the others' data make of it
};

// Reads all that is there once, but for what there is nothing to do with; what is lost is made of the rest where that
// is enough. nullopt: no contradiction, though also where nothing is left over to compare with (Unchecked). Errors of
// the functions pass through, here and below.
absl::StatusOr<std::optional<Difference>> Verify(const Set& set);

// Where to put what a member has lost; empty: it is not wanted.
struct Targets {
  WriteAt data;     // any order; never beyond the logical file's end
  WriteAt payload;  // likewise; of a sole target in order, from its first byte to its last
};

// Verify, and writes what is lost and wanted (by set rank). After a difference, what was written is not to be trusted.
//   kDataLoss  more is lost than the scheme bears: names the members. Nothing was written then
absl::StatusOr<std::optional<Difference>> Rebuild(const Set& set, const std::map<std::uint32_t, Targets>& targets);

// Some bytes of the logical file of a member that has lost it, made of what is there; reads no more than that takes,
// and compares nothing.
// REQUIRES: Check(set).ok(); no `data` of the member; within its bytes.
absl::Status ReadLost(const Set& set, std::uint32_t member, std::uint64_t offset, std::span<std::byte> target);
// Is enough there for that? Pure. Both: kDataLoss: more is lost than the scheme bears; names the members.
absl::Status CheckLost(const Set& set, std::uint32_t member);

// [begin, end) of a member's logical file.
struct Range {
  std::uint64_t begin = 0, end = 0;
};
using Ranges = std::vector<Range>;  // in order, none empty, none that touches the one before

// Appends a range behind the others; an empty one is none.
void AddRange(Range range, Ranges* ranges);

// By set rank: what of the members' files, there or lost, Verify and Rebuild can compare with nothing, since what is
// lost takes all copies or checksums that are there. Whatever is damaged, there it would not show.
// Pure: asks only which functions are there. REQUIRES: Check(set).ok().
std::vector<Ranges> Unchecked(const Set& set);

// After a difference: the one member without which all else agrees, data and payload together; so it, and no other, is
// damaged. nullopt: it cannot be told (that takes RS with 2 checksums more than members that have lost something), or
// more than one is. Reads the set once per member.
absl::StatusOr<std::optional<std::uint32_t>> FindDamaged(const Set& set);

}  // namespace cairn::redundancy

#endif  // CAIRN_STORAGE_FILE_REDUNDANCY_PAYLOAD_H_
