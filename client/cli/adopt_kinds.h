// The kinds of `cairn adopt`: what each takes, and the call that does and tells it.
#ifndef CAIRN_CLIENT_CLI_ADOPT_KINDS_H_
#define CAIRN_CLIENT_CLI_ADOPT_KINDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "storage/job/launch/launch_wait.h"

namespace cairn::cli {

// Of each, `run`: a directory, made if it is not there; or a run that the daemon knows.

struct AdoptFtiOptions {
  std::string run;
  std::vector<std::string> roots;  // FTI's directories, of all nodes
  std::string config, execution;
  std::optional<std::int32_t> checkpoint;
  std::optional<std::uint32_t> node_size, group_size, ranks;
  bool heads = false;
  LaunchWait wait;
};
ExitCode RunAdoptFti(const Context& context, const AdoptFtiOptions& options);

struct AdoptScrOptions {
  std::string run;
  std::vector<std::string> roots;  // SCR's stores and control directories, of all nodes
  std::string job;
  std::optional<std::uint64_t> dataset;
  bool all = false;
  std::string prefix_was;
  bool unverified = false;  // take files, too, that nothing verifies
  LaunchWait wait;
};
ExitCode RunAdoptScr(const Context& context, const AdoptScrOptions& options);

struct AdoptBpOptions {
  std::string run;
  std::string directory;  // to be adopted
  std::optional<std::uint64_t> step;
  LaunchWait wait;
};
ExitCode RunAdoptBp(const Context& context, const AdoptBpOptions& options);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_ADOPT_KINDS_H_
