// What one command line says, and the groups of commands that it may name. Each group is added by a function in a file
// of its own; its options live as long as the `run` that its commands set.
#ifndef CAIRN_CLIENT_CLI_COMMAND_LINE_H_
#define CAIRN_CLIENT_CLI_COMMAND_LINE_H_

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

// Both are borrowed, and outlive the parsing and the run.
void AddRunCommands(CLI::App& app, CommandLine& line);       // status, ls, show, wait, flush, pin, rm
void AddScrCommands(CLI::App& app, CommandLine& line);       // index, halt, print
void AddFileCommands(CLI::App& app, CommandLine& line);      // verify, inspect, extract, convert, diff
void AddMovingCommands(CLI::App& app, CommandLine& line);    // adopt, export, scavenge
void AddVariableCommands(CLI::App& app, CommandLine& line);  // vars, dump, bp

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_COMMAND_LINE_H_
