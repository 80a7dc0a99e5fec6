// What one command line says, and the commands that it may name. Each has a file of its own: the options that it takes,
// the one call that does it, and what is printed of that.
#ifndef CAIRN_CLIENT_CLI_COMMANDS_H_
#define CAIRN_CLIENT_CLI_COMMANDS_H_

#include <functional>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"

namespace CLI {
class App;
}

namespace cairn::cli {

struct CommandLine {
  Context context;
  std::function<ExitCode()> run;  // set by the command that was named
};

// Both are borrowed, and outlive the parsing and the run. Listed as `cairn --help` has them.
// Of runs and their datasets: most ask the daemon.
void AddStatusCommand(CLI::App& app, CommandLine& line);
void AddLsCommand(CLI::App& app, CommandLine& line);
void AddShowCommand(CLI::App& app, CommandLine& line);
void AddRedundancyCommand(CLI::App& app, CommandLine& line);
void AddRebuildCommand(CLI::App& app, CommandLine& line);
void AddWaitCommand(CLI::App& app, CommandLine& line);
void AddFlushCommand(CLI::App& app, CommandLine& line);
void AddPinCommand(CLI::App& app, CommandLine& line);
void AddRmCommand(CLI::App& app, CommandLine& line);
void AddNodesCommand(CLI::App& app, CommandLine& line);
// Of the run itself: no daemon is needed.
void AddRunCommand(CLI::App& app, CommandLine& line);
// Of SCR's records: no daemon is needed.
void AddIndexCommand(CLI::App& app, CommandLine& line);
void AddHaltCommand(CLI::App& app, CommandLine& line);
void AddPrintCommand(CLI::App& app, CommandLine& line);
// Of files: likewise.
void AddVerifyCommand(CLI::App& app, CommandLine& line);
void AddInspectCommand(CLI::App& app, CommandLine& line);
void AddExtractCommand(CLI::App& app, CommandLine& line);
void AddConvertCommand(CLI::App& app, CommandLine& line);
void AddDiffCommand(CLI::App& app, CommandLine& line);
// Between other systems and Cairn, and from a cache that nobody looks after.
void AddAdoptCommand(CLI::App& app, CommandLine& line);
void AddExportCommand(CLI::App& app, CommandLine& line);
void AddScavengeCommand(CLI::App& app, CommandLine& line);
// Of variables, as BP5 shows them (bp/): no daemon is needed where the data is on the prefix.
void AddVarsCommand(CLI::App& app, CommandLine& line);
void AddDumpCommand(CLI::App& app, CommandLine& line);
void AddBpCommand(CLI::App& app, CommandLine& line);
// Of the machine.
void AddDoctorCommand(CLI::App& app, CommandLine& line);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_COMMANDS_H_
