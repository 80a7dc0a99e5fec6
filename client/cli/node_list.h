// Lists of hosts as Slurm writes them in SLURM_JOB_NODELIST: "login1,cn[001-128,200],gpu[1-2]-[3-4]". Pure.
#ifndef CAIRN_CLIENT_CLI_NODE_LIST_H_
#define CAIRN_CLIENT_CLI_NODE_LIST_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli {

inline constexpr std::size_t kHostsMax = 1 << 17;

// All hosts, in order. kInvalidArgument: it is no such list, or has more than kHostsMax.
absl::StatusOr<std::vector<std::string>> ExpandNodeList(std::string_view list);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_NODE_LIST_H_
