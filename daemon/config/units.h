// Numbers with units, as people write them: "64MiB", "2 GB/s", "30s".
#ifndef CAIRN_DAEMON_CONFIG_UNITS_H_
#define CAIRN_DAEMON_CONFIG_UNITS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

// Bytes: a whole or decimal number and B, kB, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024),
// with or without a space; a number alone is bytes. kInvalidArgument: anything else, a fraction of a byte, beyond 2^63.
absl::StatusOr<std::uint64_t> ParseSize(std::string_view text);

// Bytes per second: a size, with or without "/s".
absl::StatusOr<std::uint64_t> ParseRate(std::string_view text);

// Milliseconds: a number and ms, s, min, h or d; a number alone only if it is 0. kInvalidArgument as above.
absl::StatusOr<std::uint64_t> ParseDuration(std::string_view text);

// Texts that parse back to exactly the number: "64MiB", "2GB/s" (the shortest), "10min" (in the largest unit).
std::string FormatSize(std::uint64_t bytes);
std::string FormatRate(std::uint64_t bytes_per_s);
std::string FormatDuration(std::uint64_t ms);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_UNITS_H_
