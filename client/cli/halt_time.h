// The times that `cairn halt` takes.
#ifndef CAIRN_CLIENT_CLI_HALT_TIME_H_
#define CAIRN_CLIENT_CLI_HALT_TIME_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::cli {

// Seconds since the epoch: of YYYY-MM-DDTHH:MM[:SS], a 'T' or a space between, in this process's time zone; or of
// +DURATION (+2h, +90min) after `now_s`. kInvalidArgument: anything else, and a time that does not exist (February 30,
// the hour that summer time leaves out).
absl::StatusOr<std::int64_t> ParseHaltTime(std::string_view text, std::int64_t now_s);

// Seconds: 900, 15min. At least 1, below 2^31, since SCR keeps them in an int. kInvalidArgument.
absl::StatusOr<std::uint64_t> ParseHaltSeconds(std::string_view text);

// YYYY-MM-DDTHH:MM:SS in this process's time zone; the seconds since the epoch if that is beyond the calendar.
std::string FormatHaltTime(std::int64_t seconds);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_HALT_TIME_H_
