// What every command works with: where the daemon is, how to print, and the options that all commands have.
#ifndef CAIRN_CLIENT_CLI_CONTEXT_H_
#define CAIRN_CLIENT_CLI_CONTEXT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>

#include "client/cli/admin_client.h"
#include "client/cli/exit_code.h"
#include "client/cli/look.h"
#include "storage/io/disk.h"

namespace cairn::cli {

struct Context {
  std::string address;  // as given; empty: the usual places
  bool json = false;
  bool terminal = false;  // standard output is one
  Look look;              // of what is printed there

  // kUnavailable: no daemon.
  absl::StatusOr<std::unique_ptr<AdminClient>> Daemon() const;
};

// To standard output, whole.
void Print(std::string_view text);
// "cairn: …" to standard error; the exit code that the status means.
ExitCode Complain(const absl::Status& status);

// RUN as given: an existing directory becomes its absolute path without symbolic links, as the daemon knows prefixes;
// anything else (an identity, a name) stays as it is.
struct RunArgument {
  std::string text;
  bool is_directory = false;
};
RunArgument ParseRun(const std::string& given);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_CONTEXT_H_
