// PARTNER: each member keeps the logical files of its left neighbours, nearest first. SCR specification, 10.5.
// Used by storage/file/redundancy/ only.
#ifndef CAIRN_STORAGE_FILE_REDUNDANCY_COPIES_H_
#define CAIRN_STORAGE_FILE_REDUNDANCY_COPIES_H_

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

// Where the copy of the member's `distance`-th left neighbour (from 1) begins in its payload.
std::uint64_t CopyOffset(const Set& set, std::uint32_t member, std::uint32_t distance);

// As Rebuild. REQUIRES: Check(set).ok().
absl::StatusOr<std::optional<Difference>> WalkCopies(const Set& set, const std::map<std::uint32_t, Targets>& targets);

// As CheckLost. REQUIRES: Check(set).ok().
absl::Status CheckLostCopy(const Set& set, std::uint32_t member);

// As ReadLost. REQUIRES: Check(set).ok().
absl::Status ReadLostCopy(const Set& set, std::uint32_t member, std::uint64_t offset, std::span<std::byte> target);

// As Unchecked. REQUIRES: Check(set).ok().
std::vector<Ranges> UncheckedCopies(const Set& set);

}  // namespace cairn::redundancy

#endif  // CAIRN_STORAGE_FILE_REDUNDANCY_COPIES_H_
