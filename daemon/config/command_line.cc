#include "daemon/config/command_line.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "daemon/config/config_file.h"
#include "storage/base/host_name.h"
#include "storage/base/status.h"
#include "storage/base/user_name.h"
#include "storage/base/version.h"

namespace cairn {
namespace {

constexpr char kFooter[] = R"(
Sizes are written as 64MiB or "2 GB", rates as "2 GB/s", durations as 30s, 5min or 2h.
Settings are looked for in --config FILE, else $CAIRN_CONFIG, else /etc/cairn/cairnd.toml if it is there; flags count more.
Signals: SIGTERM and SIGINT bring what was captured to the cache, then end (a second one ends at once); SIGHUP reloads.

Exit codes:
  0  stopped as asked, everything captured is in the cache
  1  could not start: the message says why
  2  wrong flags or configuration
  3  another daemon holds the sockets or the cache: the message names it
  4  stopped at once by a second signal, or not everything captured reached the cache in time)";

// "flush.retry_min" -> "--flush-retry-min"
std::string FlagOf(std::string key) {
  std::ranges::replace(key, '.', '-');
  std::ranges::replace(key, '_', '-');
  return (key == "cache.path" || key == "cache-path" ? "--cache,--" : "--") + key;
}

void AddFields(CLI::App& app, CommandLine& line) {
  for (const std::string& key : OldConfigKeys()) {
    app.add_option_function<std::string>(
           FlagOf(key), [&line, key](const std::string& value) { line.fields.emplace_back(key, value); })
        ->take_last()
        ->group("");
  }
  for (const ConfigFieldInfo& info : ConfigFields()) {
    const std::string help = info.help + " [" + info.value + "]";
    app.add_option_function<std::string>(
           FlagOf(info.key),
           [&line, key = info.key](const std::string& value) { line.fields.emplace_back(key, value); }, help)
        ->option_text(info.unit)
        ->take_last()
        ->group("Settings");
  }
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  CommandLine line;
  try {
    CLI::App app("cairnd: takes checkpoints of the applications on its node and makes them safe in the background.",
                 "cairnd");
    app.get_formatter()->column_width(34);
    app.footer(kFooter);
    app.set_version_flag("--version", std::string("cairnd ") + kVersion);
    app.add_option("--config", line.config_file, "settings (TOML); see deploy/cairnd.toml")->option_text("FILE");
    app.add_flag("--check-config", line.check_config, "check the settings and end");
    app.add_flag("--print-config", line.print_config, "print the settings as TOML and end");
    app.add_flag("--background", line.background,
                 "go on in the background once ready; prints the process id and the socket's path");
    app.add_flag("--take-cache", line.take_cache,
                 "use this cache though another node made it, once: only if that node is gone or was renamed");
    app.add_flag("--single-user", line.single_user,
                 "serve the user who starts it, also if that is root; root's daemon serves all users otherwise");
    app.add_flag("--worker", line.worker)->group("");  // a supervisor's only
    AddFields(app, line);
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& asked) {  // --help, --version
      line.answered = true;
      line.text = dynamic_cast<const CLI::CallForVersion*>(&asked) ? std::string(asked.what()) + "\n" : app.help();
    }
  } catch (const CLI::Error& error) {
    return InvalidArgument("{} (cairnd --help tells more)", error.what());
  }
  return line;
}

std::vector<std::string> FlagsForWorkers(const CommandLine& line, const Surroundings& surroundings) {
  std::vector<std::string> flags;
  if (const std::string file = ConfigFileOf(line, surroundings); !file.empty()) flags = {"--config", file};
  if (line.take_cache) flags.emplace_back("--take-cache");
  for (const auto& [key, value] : line.fields) {
    if (key == "runtime_dir" || key == "cache.path" || key == "log_file") continue;
    flags.push_back(FlagOf(key).substr(0, FlagOf(key).find(',')) + "=" + value);
  }
  return flags;
}

Serves ServesOf(const CommandLine& line, const Surroundings& surroundings) {
  return surroundings.uid == 0 && !line.single_user && !line.worker ? Serves::kAllUsers : Serves::kOneUser;
}

std::string ConfigFileOf(const CommandLine& line, const Surroundings& surroundings) {
  if (!line.config_file.empty()) return line.config_file;
  if (const auto named = surroundings.variable("CAIRN_CONFIG")) return *named;
  return ::access(kSystemConfigFile, F_OK) == 0 ? kSystemConfigFile : "";
}

absl::StatusOr<Config> MakeConfig(const CommandLine& line, const Surroundings& surroundings) {
  Config config;
  const std::string file = ConfigFileOf(line, surroundings);
  if (!file.empty()) {
    CAIRN_ASSIGN_OR_RETURN(config, LoadConfigFile(file, config));
  }
  // Old names first: the new ones count.
  std::vector<std::pair<std::string, std::string>> fields = line.fields;
  const std::vector<std::string> old = OldConfigKeys();
  std::ranges::stable_partition(
      fields, [&](const std::string& key) { return std::ranges::find(old, key) != old.end(); },
      &std::pair<std::string, std::string>::first);
  for (const auto& [key, value] : fields) CAIRN_RETURN_IF_ERROR(SetConfigField(config, key, value));
  config.cache.take = line.take_cache;
  ResolvePaths(config, surroundings, ServesOf(line, surroundings));
  // A worker's is where its supervisor has put it: the one of the settings is the supervisor's.
  if (line.worker) config.log_file.clear();
  CAIRN_RETURN_IF_ERROR(ValidateConfig(config));
  return config;
}

absl::StatusOr<std::vector<DrainFolder>> MakeDrains(const CommandLine& line, const Surroundings& surroundings) {
  const std::string file = ConfigFileOf(line, surroundings);
  if (file.empty()) return std::vector<DrainFolder>();
  CAIRN_ASSIGN_OR_RETURN(const std::string text, ReadConfigFile(file));
  CAIRN_ASSIGN_OR_RETURN(std::vector<DrainFolder> folders, ParseDrains(file, text));
  return Resolved(std::move(folders), UserName(), HostName());
}

}  // namespace cairn
