// The folders that the daemon drains (storage/job/drain): the tables [[drain]] of the settings' file. They are a list,
// which the table of fields (fields.h) cannot hold, and no flags set them.
#ifndef CAIRN_DAEMON_CONFIG_DRAINS_H_
#define CAIRN_DAEMON_CONFIG_DRAINS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

struct DrainFolder {
  std::string from, to;                         // absolute; %u is the user's name, %h this machine's
  std::optional<std::uint64_t> settle_ms = {};  // none: age does not count
  std::string marker = {};
  bool delete_source = false;
  bool check = true;
  std::uint64_t bytes_per_s = 0;  // 0: no limit
  std::uint32_t parallel = 2;
  std::uint32_t nice = 19;
  std::string io_priority = "best-effort:7";  // as IoPriority (storage/io/io_priority.h) takes it
  std::uint64_t look_ms = 60'000;
  friend bool operator==(const DrainFolder&, const DrainFolder&) = default;
};

// Of a file's text; what else is in there is not looked at. Every error names `name`, line and key, all in one message.
//   kInvalidArgument  not TOML, an unknown key, a wrong type, unit or range; folders of which one lies in another; a
//                     folder that is drained twice
absl::StatusOr<std::vector<DrainFolder>> ParseDrains(std::string_view name, std::string_view text);

// %u and %h by these names.
//   kInvalidArgument  two of them are one folder now
absl::StatusOr<std::vector<DrainFolder>> Resolved(std::vector<DrainFolder> folders, std::string_view user,
                                                  std::string_view host);

// As ParseDrains reads it.
std::string PrintDrains(const std::vector<DrainFolder>& folders);
// What stands in the sample file: each key, explained, as a comment.
std::string_view DrainsExplained();

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_DRAINS_H_
