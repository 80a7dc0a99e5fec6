#include "storage/file/redundancy/payload.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <string>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/file/redundancy/copies.h"
#include "storage/file/redundancy/stripes.h"

namespace cairn::redundancy {
namespace {

constexpr std::uint64_t kBytesMax = std::numeric_limits<std::int64_t>::max();

absl::Status CheckCopies(const Set& set) {
  const std::size_t members = set.members.size();
  if (set.replicas < 1 || set.replicas >= members) {
    return DataLoss("a set of {} members with {} copies of each", members, set.replicas);
  }
  std::uint64_t sum = 0;
  for (const Member& member : set.members) {
    if (member.bytes > kBytesMax - sum) return DataLoss("a set's files have more than 2^63 bytes");
    sum += member.bytes;
  }
  return absl::OkStatus();
}

absl::Status CheckStripes(const Set& set) {
  const std::uint64_t members = set.members.size();
  const std::uint64_t checksums = ChecksumsOf(set);
  if (checksums < 1 || checksums >= members || (set.scheme == scr::Scheme::kRs && members + checksums > 256)) {
    return DataLoss("a set of {} members with {} checksums", members, checksums);
  }
  std::uint64_t most = 0;
  for (const Member& member : set.members) most = std::max(most, member.bytes);
  if (most > kBytesMax / 2) return DataLoss("a set's file has more than 2^62 bytes");
  const std::uint64_t parts = members - checksums;
  const std::uint64_t chunk = std::max<std::uint64_t>(1, (most + parts - 1) / parts);
  if (set.chunk_bytes != chunk) {
    return DataLoss("chunks of {} bytes in a set of {} members with {} checksums whose largest has {} bytes: {} fit",
                    set.chunk_bytes, members, checksums, most, chunk);
  }
  if (chunk > kBytesMax / members) return DataLoss("chunks of {} bytes in a set of {} members", chunk, members);
  return absl::OkStatus();
}

absl::Status HasNone(std::uint32_t member) {
  return DataLoss("member {} is lost, and its set has no redundancy", member);
}

}  // namespace

absl::Status Check(const Set& set) {
  if (set.members.empty() || set.members.size() > kMembersMax) {
    return DataLoss("a set of {} members, expected 1 to {}", set.members.size(), kMembersMax);
  }
  switch (set.scheme) {
    case scr::Scheme::kSingle:
      return set.members.size() == 1 ? absl::OkStatus()
                                     : DataLoss("a set of {} without any redundancy", set.members.size());
    case scr::Scheme::kPartner:
      return CheckCopies(set);
    case scr::Scheme::kXor:
    case scr::Scheme::kRs:
      return CheckStripes(set);
  }
  return DataLoss("a set of no known scheme");
}

std::uint64_t PayloadBytes(const Set& set, std::uint32_t member) {
  CAIRN_CHECK(member < set.members.size());
  switch (set.scheme) {
    case scr::Scheme::kSingle:
      return 0;
    case scr::Scheme::kPartner:
      return CopyOffset(set, member, set.replicas + 1);
    case scr::Scheme::kXor:
    case scr::Scheme::kRs:
      break;
  }
  return ChecksumsOf(set) * set.chunk_bytes;
}

absl::StatusOr<std::optional<Difference>> Verify(const Set& set) {
  return Rebuild(set, {});
}

absl::StatusOr<std::optional<Difference>> Rebuild(const Set& set, const std::map<std::uint32_t, Targets>& targets) {
  CAIRN_RETURN_IF_ERROR(Check(set));
  switch (set.scheme) {
    case scr::Scheme::kSingle:
      for (const auto& [member, target] : targets) {
        if (target.data) return HasNone(member);
      }
      return std::nullopt;
    case scr::Scheme::kPartner:
      return WalkCopies(set, targets);
    case scr::Scheme::kXor:
    case scr::Scheme::kRs:
      break;
  }
  return WalkStripes(set, targets);
}

absl::Status ReadLost(const Set& set, std::uint32_t member, std::uint64_t offset, std::span<std::byte> target) {
  CAIRN_CHECK(member < set.members.size() && !set.members[member].data);
  CAIRN_CHECK(offset <= set.members[member].bytes && target.size() <= set.members[member].bytes - offset);
  if (target.empty()) return absl::OkStatus();
  switch (set.scheme) {
    case scr::Scheme::kSingle:
      return HasNone(member);
    case scr::Scheme::kPartner:
      return ReadLostCopy(set, member, offset, target);
    case scr::Scheme::kXor:
    case scr::Scheme::kRs:
      break;
  }
  return ReadLostStripes(set, member, offset, target);
}

absl::Status CheckLost(const Set& set, std::uint32_t member) {
  CAIRN_CHECK(member < set.members.size() && !set.members[member].data);
  if (set.members[member].bytes == 0) return absl::OkStatus();
  switch (set.scheme) {
    case scr::Scheme::kSingle:
      return HasNone(member);
    case scr::Scheme::kPartner:
      return CheckLostCopy(set, member);
    case scr::Scheme::kXor:
    case scr::Scheme::kRs:
      break;
  }
  return CheckLostStripes(set, member);
}

void AddRange(Range range, Ranges* ranges) {
  if (range.begin >= range.end) return;
  if (!ranges->empty() && ranges->back().end == range.begin) {
    ranges->back().end = range.end;
  } else {
    ranges->push_back(range);
  }
}

std::vector<Ranges> Unchecked(const Set& set) {
  CAIRN_CHECK(Check(set).ok());
  switch (set.scheme) {
    case scr::Scheme::kSingle:
      break;
    case scr::Scheme::kPartner:
      return UncheckedCopies(set);
    case scr::Scheme::kXor:
    case scr::Scheme::kRs:
      return UncheckedStripes(set);
  }
  std::vector<Ranges> unchecked(set.members.size());
  for (std::size_t i = 0; i < set.members.size(); ++i)
    AddRange({.begin = 0, .end = set.members[i].bytes}, &unchecked[i]);
  return unchecked;
}

absl::StatusOr<std::optional<std::uint32_t>> FindDamaged(const Set& set) {
  CAIRN_RETURN_IF_ERROR(Check(set));
  if (set.scheme != scr::Scheme::kRs) return std::nullopt;
  const auto lost = std::count_if(set.members.begin(), set.members.end(),
                                  [](const Member& member) { return !member.data || !member.payload; });
  if (lost + 2 > static_cast<std::ptrdiff_t>(set.checksums)) return std::nullopt;
  std::optional<std::uint32_t> found;
  for (std::uint32_t suspect = 0; suspect < set.members.size(); ++suspect) {
    const Member& member = set.members[suspect];
    if (!member.data && !member.payload) continue;
    Set without = set;
    without.members[suspect] = {.bytes = member.bytes, .data = {}, .payload = {}};
    CAIRN_ASSIGN_OR_RETURN(const auto difference, Verify(without));
    if (difference) continue;
    if (found) return std::nullopt;
    found = suspect;
  }
  return found;
}

}  // namespace cairn::redundancy
