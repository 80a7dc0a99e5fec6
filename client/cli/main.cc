// The `cairn` command: reads its arguments and runs one command.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "client/cli/actions_command.h"
#include "client/cli/context.h"
#include "client/cli/datasets_command.h"
#include "client/cli/doctor_command.h"
#include "client/cli/inspect_command.h"
#include "client/cli/status_command.h"
#include "client/cli/verify_command.h"
#include "daemon/config/units.h"
#include "daemon/version.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

constexpr const char* kAbout =
    "cairn: look after checkpoints.\n\n"
    "An application hands its state to the daemon cairnd on its node and computes on; the daemon makes it safe step "
    "by\n"
    "step: captured (in the daemon's hands), local (on this node's disk), redundant (on other nodes), prefix (on the\n"
    "parallel file system). This command shows how far that is, and asks the daemon for more.";

constexpr const char* kFooter =
    "RUN is the run's directory on the parallel file system (its prefix), its identity or the beginning of it, or its\n"
    "name. DATASET is the number that `cairn ls` shows. Durations are like 30s, 5min, 2h.\n"
    "\n"
    "Examples:\n"
    "  cairn status                        what is going on; --watch to look on\n"
    "  cairn ls /scratch/me/heat           the run's checkpoints, also without a daemon\n"
    "  cairn show heat 17                  ranks, files and variables of dataset 17\n"
    "  cairn wait heat 17 prefix           until dataset 17 is safe on the parallel file system\n"
    "  cairn flush heat --wait             the newest checkpoint goes there now\n"
    "  cairn pin heat 17                   keep it, whatever the policy says\n"
    "  cairn verify /scratch/me/heat       read every byte and compare\n"
    "  cairn inspect Ckpt17-Rank0.fti      what a checkpoint file, a record of SCR or a catalogue holds\n"
    "  cairn doctor                        what works on this machine and what does not\n"
    "\n"
    "Exit codes:\n"
    "  0  done                             4  no such run, dataset or file\n"
    "  1  failed                           5  damaged bytes were found\n"
    "  2  the command is wrong             6  not done in time\n"
    "  3  no daemon answers\n"
    "\n"
    "Environment:\n"
    "  CAIRN_ADMIN_ADDRESS  the daemon's socket, as --address; else the one beside $CAIRN_ADDRESS\n"
    "  CAIRN_PREFIX, CAIRN_CACHE  what `doctor` looks at";

// What one command line says. `run` is set by the command that was named.
struct CommandLine {
  Context context;
  std::function<ExitCode()> run;

  std::string run_name;
  DatasetId dataset = 0;
  std::string level_name;
  std::string timeout;
  std::string interval = "1s";
  std::string file;
  std::vector<std::string> targets;
  bool watch = false, wait = false, off = false;
  DoctorOptions doctor;
};

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

void AddRun(CLI::App& command, CommandLine& line, bool required = true) {
  command.add_option("RUN", line.run_name, "Prefix, identity or name of the run")->required(required);
}

void AddDataset(CLI::App& command, CommandLine& line, bool required = true) {
  command.add_option("DATASET", line.dataset, "Number of the dataset, from `cairn ls`")->required(required);
}

void AddTimeout(CLI::App& command, CommandLine& line) {
  command.add_option("--timeout", line.timeout, "Give up after this time, for example 10min (default: never)")
      ->check(CheckDuration);
}

void AddLooking(CLI::App& app, CommandLine& line) {
  CLI::App* const status = app.add_subcommand("status", "The daemon, its runs, and how their flushes come along");
  status->add_flag("--watch", line.watch, "Look on until interrupted");
  status->add_option("--interval", line.interval, "How often, with --watch (default 1s)")->check(CheckDuration);
  status->callback([&line] {
    line.run = [&line] {
      // Not 0: that would ask without a pause.
      return RunStatus(line.context,
                       {.watch = line.watch, .interval_ms = std::max<std::uint64_t>(Ms(line.interval), 10)});
    };
  });

  CLI::App* const list = app.add_subcommand("ls", "The datasets of a run, or of all runs of the daemon");
  AddRun(*list, line, /*required=*/false);
  list->callback([&line] { line.run = [&line] { return RunList(line.context, line.run_name); }; });

  CLI::App* const show = app.add_subcommand("show", "One dataset: its ranks, files and variables");
  AddRun(*show, line);
  AddDataset(*show, line);
  show->callback([&line] { line.run = [&line] { return RunShow(line.context, line.run_name, line.dataset); }; });
}

void AddActing(CLI::App& app, CommandLine& line) {
  CLI::App* const wait = app.add_subcommand("wait", "Wait until a dataset has reached a level");
  AddRun(*wait, line);
  AddDataset(*wait, line);
  wait->add_option("LEVEL", line.level_name, "captured, local, redundant or prefix")->required()->check(CheckLevel);
  AddTimeout(*wait, line);
  wait->callback([&line] {
    line.run = [&line] {
      const auto level = ParseLevel(line.level_name);  // checked when it was parsed
      return RunWait(line.context, line.run_name, line.dataset, *level, Ms(line.timeout));
    };
  });

  CLI::App* const flush =
      app.add_subcommand("flush", "Bring a dataset to the prefix now (default: the newest checkpoint)");
  AddRun(*flush, line);
  AddDataset(*flush, line, /*required=*/false);
  flush->add_flag("--wait", line.wait, "Wait until it is there");
  AddTimeout(*flush, line);
  flush->callback([&line] {
    line.run = [&line] {
      return RunFlush(line.context, line.run_name,
                      {.dataset = line.dataset, .wait = line.wait, .timeout_ms = Ms(line.timeout)});
    };
  });

  CLI::App* const pin = app.add_subcommand("pin", "Keep a dataset, whatever the policy says");
  AddRun(*pin, line);
  AddDataset(*pin, line);
  pin->add_flag("--off", line.off, "Keep it no longer");
  pin->callback(
      [&line] { line.run = [&line] { return RunPin(line.context, line.run_name, line.dataset, !line.off); }; });

  CLI::App* const remove = app.add_subcommand("rm", "Remove a dataset from cache and prefix");
  AddRun(*remove, line);
  AddDataset(*remove, line);
  remove->callback([&line] { line.run = [&line] { return RunRemove(line.context, line.run_name, line.dataset); }; });
}

void AddChecking(CLI::App& app, CommandLine& line) {
  CLI::App* const verify = app.add_subcommand(
      "verify", "Read every byte of runs or files and compare it with its checksums; needs no daemon");
  verify->add_option("RUN|FILE", line.targets, "Prefixes, runs, or FTI-FF, kvtree and catalogue files")->required();
  verify->add_option("--dataset", line.dataset, "Only this dataset of each run");
  verify->callback([&line] { line.run = [&line] { return RunVerify(line.context, line.targets, line.dataset); }; });

  CLI::App* const inspect =
      app.add_subcommand("inspect", "What a checkpoint file, a kvtree file or a catalogue says; needs no daemon");
  inspect->add_option("FILE", line.file, "The file")->required();
  inspect->callback([&line] { line.run = [&line] { return RunInspect(line.context, line.file); }; });

  CLI::App* const doctor =
      app.add_subcommand("doctor", "Which mechanisms work on this machine, and what happens if not");
  doctor->add_option("--cache", line.doctor.cache, "The cache directory to try (default: the daemon's)");
  doctor->add_option("--prefix", line.doctor.prefix, "The prefix to try (default: $CAIRN_PREFIX)");
  doctor->callback([&line] { line.run = [&line] { return RunDoctor(line.context, line.doctor); }; });
}

int Main(int argc, char** argv) {
  CommandLine line;
  line.context.terminal = isatty(STDOUT_FILENO) == 1;
  CLI::App app(kAbout);
  app.name("cairn");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("cairn ") + kVersion);
  app.require_subcommand(1);
  app.fallthrough();  // --json and --address may stand behind the command, too
  app.add_flag("--json", line.context.json, "JSON instead of text");
  app.add_option("--address", line.context.address, "The daemon's socket: grpc+unix:PATH (default: the usual places)");
  AddLooking(app, line);
  AddActing(app, line);
  AddChecking(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  return static_cast<int>(line.run());
}

}  // namespace
}  // namespace cairn::cli

int main(int argc, char** argv) {
  try {
    return cairn::cli::Main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cairn: %s\n", e.what());
    return static_cast<int>(cairn::cli::ExitCode::kFailed);
  }
}
