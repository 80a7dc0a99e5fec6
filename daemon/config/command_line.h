// What `cairnd` was asked to do: flags over a file over the embedded defaults.
#ifndef CAIRN_DAEMON_CONFIG_COMMAND_LINE_H_
#define CAIRN_DAEMON_CONFIG_COMMAND_LINE_H_

#include <absl/status/statusor.h>

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/config/drains.h"

namespace cairn {

inline constexpr char kSystemConfigFile[] = "/etc/cairn/cairnd.toml";

struct CommandLine {
  std::string config_file;                                  // --config; empty: not given
  std::vector<std::pair<std::string, std::string>> fields;  // key and value of each flag that sets a field
  bool check_config = false;
  bool print_config = false;
  bool background = false;
  bool take_cache = false;
  bool single_user = false;
  bool worker = false;    // started by a supervisor
  bool answered = false;  // --help or --version: `text` is the answer
  std::string text;
};

// kInvalidArgument: an unknown flag, a missing or extra argument. Prints nothing.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// The settings that this line makes, as arguments for another cairnd: without its folders and its log.
std::vector<std::string> FlagsForWorkers(const CommandLine& line, const Surroundings& surroundings);

// Root's daemon serves all users, unless it is told otherwise.
Serves ServesOf(const CommandLine& line, const Surroundings& surroundings);

// The file that counts: --config, else $CAIRN_CONFIG, else kSystemConfigFile if it is there; empty: none.
std::string ConfigFileOf(const CommandLine& line, const Surroundings& surroundings);

// Defaults, file, flags, paths resolved, validated. Again at SIGHUP. A file that was named must be there.
absl::StatusOr<Config> MakeConfig(const CommandLine& line, const Surroundings& surroundings);

// The folders that this user's daemon drains, by the same file.
absl::StatusOr<std::vector<DrainFolder>> MakeDrains(const CommandLine& line, const Surroundings& surroundings);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_COMMAND_LINE_H_
