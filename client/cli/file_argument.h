// The files that a command line names; some kinds are refused.
#ifndef CAIRN_CLIENT_CLI_FILE_ARGUMENT_H_
#define CAIRN_CLIENT_CLI_FILE_ARGUMENT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "client/cli/exit_code.h"

namespace cairn::cli {

// The absolute path, without symbolic links, of a file to read.
//   kNotFound           there is none
//   kInvalidArgument    a directory, a pipe, a device
//   kPermissionDenied, kInternal   a folder on the way cannot be entered
absl::StatusOr<std::string> ResolveFile(const std::string& given);

// The exit code of a command that asks no daemon: kUnavailable comes from the disk.
ExitCode FileCodeOf(const absl::Status& status);
// "cairn: …" to standard error; FileCodeOf.
ExitCode ComplainOfFile(const absl::Status& status);
// "cairn: note: …" to standard error.
void Note(std::string_view text);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_FILE_ARGUMENT_H_
