// The `cairn` command: reads its arguments and runs one command.
#include <absl/synchronization/mutex.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "client/cli/command.h"
#include "client/cli/commands.h"
#include "client/cli/look.h"
#include "storage/base/version.h"

namespace cairn::cli {
namespace {

constexpr const char* kAbout =
    "cairn: look after checkpoints.\n"
    "\n"
    "An application hands its state to the daemon cairnd on its node, and computes on. The daemon makes the state\n"
    "safe, level by level: captured (in the daemon's hands), local (on this node's disk), redundant (on other\n"
    "nodes), prefix (on the parallel file system). This command shows which level is reached, and asks the daemon\n"
    "for more.";

constexpr std::string_view kWords =
    "RUN is the run's directory on the parallel file system (its prefix), its identity or the identity's beginning,\n"
    "or its name. DATASET is the number that `cairn ls` shows. Durations are like 30s, 5min, 2h.\n";

constexpr std::string_view kExamples =
    "  cairn status                        what is going on; --watch: again and again\n"
    "  cairn ls /scratch/me/heat           the run's checkpoints, also without a daemon\n"
    "  cairn show heat 17                  ranks, files and variables of dataset 17\n"
    "  cairn wait heat 17 prefix           wait until dataset 17 is on the parallel file system\n"
    "  cairn flush heat --wait             bring the newest checkpoint there now\n"
    "  cairn pin heat 17                   keep dataset 17, whatever the policy says\n"
    "  cairn run show /scratch/me/heat     which run that directory is, and who works there\n"
    "  cairn index /scratch/me/heat        which checkpoints a restart may use; choose, drop, add or remove them\n"
    "  cairn halt /scratch/me/heat -c 1    stop the run after its next checkpoint\n"
    "  cairn verify /scratch/me/heat       read every byte and compare\n"
    "  cairn inspect Ckpt17-Rank0.fti      what a checkpoint file, a record of SCR or a catalogue holds\n"
    "  cairn print .scr/index.scr          a record of SCR as SCR's own printer shows it\n"
    "  cairn extract Ckpt17-Rank0.fti --var 2 -o u.bin      the bytes of one variable\n"
    "  cairn convert Ckpt17-Rank0.fti --layout A -o a.fti   the same for FTI 1.1\n"
    "  cairn diff Ckpt17-Rank0.fti Ckpt18-Rank0.fti         which variables differ, and where\n"
    "  cairn vars /scratch/me/heat 17      the variables of dataset 17, or of any BP5 directory\n"
    "  cairn dump out/fields.bp T --npy t.npy               the values of one variable: as text, JSON or for numpy\n"
    "  cairn bp /scratch/me/heat -o all.bp                  all checkpoints as one BP5 directory, without a copy\n"
    "  cairn adopt /scratch/me/heat --fti /scratch/me/fti   FTI's newest checkpoint becomes a dataset of the run\n"
    "  cairn export /scratch/me/heat --fti /scratch/me/out  write the newest checkpoint so that FTI restarts from it\n"
    "  cairn scavenge                      bring what is left on this node to the prefix, also without the daemon\n"
    "  cairn drain /bb/job7 --to /scratch/me/job7           bring what any program has left on a burst buffer there\n"
    "  cairn doctor                        what works on this machine and what does not\n";

constexpr std::string_view kCodes =
    "Exit codes:\n"
    "  0  done                             4  no such run, dataset or file\n"
    "  1  failed; diff: they differ        5  damaged bytes were found\n"
    "  2  the command is wrong             6  not done in time\n"
    "  3  no daemon answers                7  ranks are missing; drain: files wait\n"
    "\n"
    "Environment:\n"
    "  CAIRN_ADMIN_ADDRESS  the daemon's socket, as for --address; if not set, the one beside $CAIRN_ADDRESS\n"
    "  CAIRN_PREFIX, CAIRN_CACHE  what `doctor` looks at\n"
    "  NO_COLOR             no colours, unless --color asks for them";

// As `cairn --help` lists them.
constexpr std::array kCommands = {
    AddStatusCommand,  AddLsCommand,      AddShowCommand,       AddWaitCommand,    AddFlushCommand,  AddPinCommand,
    AddRmCommand,      AddNodesCommand,   AddRedundancyCommand, AddRebuildCommand, AddLeaveCommand,  AddJobCommand,
    AddRunCommand,     AddIndexCommand,   AddHaltCommand,       AddPrintCommand,   AddVerifyCommand, AddInspectCommand,
    AddExtractCommand, AddConvertCommand, AddDiffCommand,       AddAdoptCommand,   AddExportCommand, AddScavengeCommand,
    AddDrainCommand,   AddVarsCommand,    AddDumpCommand,       AddBpCommand,      AddDoctorCommand,
};

// What is below the options of a command that says nothing of its own there: the words that it uses, and its examples.
std::string FooterOf(const CLI::App& command) {
  std::string text, examples;
  if (command.get_option_no_throw("RUN") != nullptr) text = std::string(kWords) + "\n";
  const std::string start = "  cairn " + command.get_name() + " ";
  for (std::size_t at = 0, end = 0; (end = kExamples.find('\n', at)) != std::string_view::npos; at = end + 1) {
    const std::string_view line = kExamples.substr(at, end + 1 - at);
    if (line.starts_with(start)) examples += line;
  }
  if (!examples.empty()) text += "Examples:\n" + examples + "\n";
  return text + "`cairn --help` has more examples, and the exit codes.";
}

void AddFooters(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    if (command->get_footer().empty()) command->footer(FooterOf(*command));
    AddFooters(*command);
  }
}

// What could not be printed is no success: the disk behind a redirection may be full.
ExitCode AfterOutput(ExitCode code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "cairn: standard output could not be written whole\n");
  return Worse(code, ExitCode::kFailed);
}

ColourWhen WhenOf(std::string_view name) {
  if (name == "always") return ColourWhen::kAlways;
  return name == "never" ? ColourWhen::kNever : ColourWhen::kAuto;
}

int Main(int argc, char** argv) {
  CommandLine line;
  line.context.terminal = isatty(STDOUT_FILENO) == 1;
  CLI::App app(kAbout);
  app.name("cairn");
  app.set_version_flag("--version", std::string("cairn ") + kVersion);
  app.require_subcommand(1);
  app.fallthrough();  // --json and --address may stand behind the command, too
  app.add_flag("--json", line.context.json, "JSON instead of text");
  app.add_option("--address", line.context.address, "The daemon's socket: grpc+unix:PATH (default: the usual places)");
  std::string colour = "auto";
  app.add_option("--color", colour, "Colours and pictures: auto (on a terminal) or always; never: no colours")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
  for (const auto add : kCommands) add(Command(&app), line);
  AddFooters(app);
  // Last: commands would inherit it.
  app.footer(std::string(kWords) + "\nExamples:\n" + std::string(kExamples) + "\n" + std::string(kCodes));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  line.context.look = LookOf(line.context.terminal, WhenOf(colour), [](const char* name) { return std::getenv(name); });
  return static_cast<int>(AfterOutput(line.run()));
}

}  // namespace
}  // namespace cairn::cli

int main(int argc, char** argv) {
  // Debian's absl ends a process that takes two mutexes now in one order and now in the other, even if that never
  // blocks, and each lock takes three times as long for this check. It is for tests.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  try {
    return cairn::cli::Main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cairn: %s\n", e.what());
    return static_cast<int>(cairn::cli::ExitCode::kFailed);
  }
}
