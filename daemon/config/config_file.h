// The settings' file as text.
#ifndef CAIRN_DAEMON_CONFIG_CONFIG_FILE_H_
#define CAIRN_DAEMON_CONFIG_CONFIG_FILE_H_

#include <absl/status/statusor.h>

#include <string>

namespace cairn {

// At most 1 MiB. kNotFound, kPermissionDenied; kInvalidArgument: larger, or no file that can be read.
absl::StatusOr<std::string> ReadConfigFile(const std::string& path);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_CONFIG_FILE_H_
