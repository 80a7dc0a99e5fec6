// The commands on runs and their datasets: most ask the daemon.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "client/cli/actions_command.h"
#include "client/cli/command_line.h"
#include "client/cli/datasets_command.h"
#include "client/cli/status_command.h"
#include "daemon/config/units.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct Options {
  std::string run_name;
  DatasetId dataset = 0;
  std::string level_name;
  std::string timeout;
  std::string interval = "1s";
  bool watch = false, wait = false, off = false;
};
using SharedOptions = std::shared_ptr<Options>;

// Milliseconds; the text was checked when it was parsed.
std::uint64_t Ms(const std::string& duration) {
  const auto ms = ParseDuration(duration.empty() ? "0" : duration);
  return ms.ok() ? *ms : 0;
}

std::string CheckDuration(const std::string& text) {
  const auto ms = ParseDuration(text);
  return ms.ok() ? "" : std::string(MessageOf(ms.status()));
}

std::string CheckLevel(const std::string& text) {
  const auto level = ParseLevel(text);
  return level.ok() && *level != Level::kNone ? "" : "'" + text + "' is none of captured, local, redundant, prefix";
}

void AddRun(CLI::App& command, Options& options, bool required = true) {
  command.add_option("RUN", options.run_name, "Prefix, identity or name of the run")->required(required);
}

void AddDataset(CLI::App& command, Options& options, bool required = true) {
  command.add_option("DATASET", options.dataset, "Number of the dataset, from `cairn ls`")->required(required);
}

void AddTimeout(CLI::App& command, Options& options) {
  command.add_option("--timeout", options.timeout, "Give up after this time, for example 10min (default: never)")
      ->check(CheckDuration);
}

void AddLooking(CLI::App& app, CommandLine& line, const SharedOptions& options) {
  CLI::App* const status = app.add_subcommand("status", "The daemon, its runs, and how their flushes come along");
  status->add_flag("--watch", options->watch, "Look on until interrupted");
  status->add_option("--interval", options->interval, "How often, with --watch (default 1s)")->check(CheckDuration);
  status->callback([&line, options] {
    line.run = [&line, options] {
      // Not 0: that would ask without a pause.
      return RunStatus(line.context,
                       {.watch = options->watch, .interval_ms = std::max<std::uint64_t>(Ms(options->interval), 10)});
    };
  });

  CLI::App* const list = app.add_subcommand("ls", "The datasets of a run, or of all runs of the daemon");
  AddRun(*list, *options, /*required=*/false);
  list->callback(
      [&line, options] { line.run = [&line, options] { return RunList(line.context, options->run_name); }; });

  CLI::App* const show = app.add_subcommand("show", "One dataset: its ranks, files and variables");
  AddRun(*show, *options);
  AddDataset(*show, *options);
  show->callback([&line, options] {
    line.run = [&line, options] { return RunShow(line.context, options->run_name, options->dataset); };
  });
}

void AddWaiting(CLI::App& app, CommandLine& line, const SharedOptions& options) {
  CLI::App* const wait = app.add_subcommand("wait", "Wait until a dataset has reached a level");
  AddRun(*wait, *options);
  AddDataset(*wait, *options);
  wait->add_option("LEVEL", options->level_name, "captured, local, redundant or prefix")->required()->check(CheckLevel);
  AddTimeout(*wait, *options);
  wait->callback([&line, options] {
    line.run = [&line, options] {
      const auto level = ParseLevel(options->level_name);  // checked when it was parsed
      return RunWait(line.context, options->run_name, options->dataset, *level, Ms(options->timeout));
    };
  });

  CLI::App* const flush =
      app.add_subcommand("flush", "Bring a dataset to the prefix now (default: the newest checkpoint)");
  AddRun(*flush, *options);
  AddDataset(*flush, *options, /*required=*/false);
  flush->add_flag("--wait", options->wait, "Wait until it is there");
  AddTimeout(*flush, *options);
  flush->callback([&line, options] {
    line.run = [&line, options] {
      return RunFlush(line.context, options->run_name,
                      {.dataset = options->dataset, .wait = options->wait, .timeout_ms = Ms(options->timeout)});
    };
  });
}

void AddKeeping(CLI::App& app, CommandLine& line, const SharedOptions& options) {
  CLI::App* const pin = app.add_subcommand("pin", "Keep a dataset, whatever the policy says");
  AddRun(*pin, *options);
  AddDataset(*pin, *options);
  pin->add_flag("--off", options->off, "Keep it no longer");
  pin->callback([&line, options] {
    line.run = [&line, options] { return RunPin(line.context, options->run_name, options->dataset, !options->off); };
  });

  CLI::App* const remove = app.add_subcommand("rm", "Remove a dataset from cache and prefix");
  AddRun(*remove, *options);
  AddDataset(*remove, *options);
  remove->callback([&line, options] {
    line.run = [&line, options] { return RunRemove(line.context, options->run_name, options->dataset); };
  });
}

}  // namespace

void AddRunCommands(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<Options>();
  AddLooking(app, line, options);
  AddWaiting(app, line, options);
  AddKeeping(app, line, options);
}

}  // namespace cairn::cli
