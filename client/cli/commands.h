// What one command line says, and the commands that it may name. Each command has a file of its own, with its options,
// the one call that does the work, and what it prints.
#ifndef CAIRN_CLIENT_CLI_COMMANDS_H_
#define CAIRN_CLIENT_CLI_COMMANDS_H_

#include <functional>

#include "client/cli/command.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"

namespace cairn::cli {

struct CommandLine {
  Context context;
  std::function<ExitCode()> run;  // set by the command that was named
};

// Both are borrowed, and outlive the parsing and the run. Listed as `cairn --help` has them.
// Of runs and their datasets: most ask the daemon.
void AddStatusCommand(Command app, CommandLine& line);
void AddLsCommand(Command app, CommandLine& line);
void AddShowCommand(Command app, CommandLine& line);
void AddRedundancyCommand(Command app, CommandLine& line);
void AddRebuildCommand(Command app, CommandLine& line);
void AddLeaveCommand(Command app, CommandLine& line);
void AddJobCommand(Command app, CommandLine& line);
void AddWaitCommand(Command app, CommandLine& line);
void AddFlushCommand(Command app, CommandLine& line);
void AddPinCommand(Command app, CommandLine& line);
void AddRmCommand(Command app, CommandLine& line);
void AddNodesCommand(Command app, CommandLine& line);
// Of the run itself: no daemon is needed.
void AddRunCommand(Command app, CommandLine& line);
// Of SCR's records: no daemon is needed.
void AddIndexCommand(Command app, CommandLine& line);
void AddHaltCommand(Command app, CommandLine& line);
void AddPrintCommand(Command app, CommandLine& line);
// Of files: likewise.
void AddVerifyCommand(Command app, CommandLine& line);
void AddInspectCommand(Command app, CommandLine& line);
void AddExtractCommand(Command app, CommandLine& line);
void AddConvertCommand(Command app, CommandLine& line);
void AddDiffCommand(Command app, CommandLine& line);
// Between other systems and Cairn, and from a cache that nobody looks after.
void AddAdoptCommand(Command app, CommandLine& line);
void AddExportCommand(Command app, CommandLine& line);
void AddScavengeCommand(Command app, CommandLine& line);
void AddDrainCommand(Command app, CommandLine& line);
// Of variables, as BP5 shows them (bp/): no daemon is needed where the data is on the prefix.
void AddVarsCommand(Command app, CommandLine& line);
void AddDumpCommand(Command app, CommandLine& line);
void AddBpCommand(Command app, CommandLine& line);
// Of the machine.
void AddDoctorCommand(Command app, CommandLine& line);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_COMMANDS_H_
