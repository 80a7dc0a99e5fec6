// XOR and RS: a set of n members has n stripes, in each of which k members hold a checksum and the others a chunk of
// their data. XOR is k = 1 with all factors 1. SCR specification, 10.6 and 10.7. Used by storage/file/redundancy/ only.
#ifndef CAIRN_STORAGE_FILE_REDUNDANCY_STRIPES_H_
#define CAIRN_STORAGE_FILE_REDUNDANCY_STRIPES_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "storage/file/redundancy/payload.h"

namespace cairn::redundancy {

std::uint32_t ChecksumsOf(const Set& set);  // k

// As Rebuild. REQUIRES: Check(set).ok().
absl::StatusOr<std::optional<Difference>> WalkStripes(const Set& set, const std::map<std::uint32_t, Targets>& targets);

// As CheckLost. REQUIRES: Check(set).ok().
absl::Status CheckLostStripes(const Set& set, std::uint32_t member);

// As ReadLost. REQUIRES: Check(set).ok().
absl::Status ReadLostStripes(const Set& set, std::uint32_t member, std::uint64_t offset, std::span<std::byte> target);

// As Unchecked. REQUIRES: Check(set).ok().
std::vector<Ranges> UncheckedStripes(const Set& set);

}  // namespace cairn::redundancy

#endif  // CAIRN_STORAGE_FILE_REDUNDANCY_STRIPES_H_
