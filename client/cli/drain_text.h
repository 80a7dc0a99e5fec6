// What a drain does, as text: of `cairn drain` and of `cairn status`.
#ifndef CAIRN_CLIENT_CLI_DRAIN_TEXT_H_
#define CAIRN_CLIENT_CLI_DRAIN_TEXT_H_

#include <cstdint>
#include <string>

#include "client/cli/look.h"
#include "proto/admin.pb.h"

namespace cairn::cli {

// "3 of 12 files, 1.0 GiB of 4.0 GiB, 200.0 MiB/s, 15 s left". A rate of 0 is shown, a time of 0 is not.
struct DrainPace {
  std::uint64_t files = 0, files_all = 0, bytes = 0, bytes_all = 0, bytes_per_s = 0, left_ms = 0;
};
std::string DescribePace(const DrainPace& pace);

// A folder that the daemon drains; ended lines.
std::string DescribeDrain(const Look& look, const admin::DrainStatus& drain);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_DRAIN_TEXT_H_
