// Options that several commands take, and how a command is given its call.
#ifndef CAIRN_CLIENT_CLI_OPTIONS_H_
#define CAIRN_CLIENT_CLI_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "client/cli/command.h"
#include "client/cli/commands.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {

inline constexpr const char* kRunText = "Prefix, identity or name of the run";

// RUN and DATASET.
void AddRun(Command command, std::string& run, bool required = true);
void AddDataset(Command command, DatasetId& dataset, bool required = true);
// --this-node.
void AddThisNode(Command command, bool& this_node);
// --timeout; `timeout` is for Milliseconds.
void AddTimeout(Command command, std::string& timeout);

// --output and --force.
void AddOutput(Command command, std::string& output, bool& force, const char* what);

// Checks for options: what Parse refuses is wrong with the command, in its words.
template <typename Parse>
std::function<std::string(const std::string&)> CheckBy(Parse parse) {
  return [parse](const std::string& text) {
    const auto value = parse(text);
    return value.ok() ? std::string() : std::string(MessageOf(value.status()));
  };
}
// A duration, which was checked when it was parsed; empty: 0.
std::string CheckDuration(const std::string& text);
std::uint64_t Milliseconds(const std::string& duration);

// Once `command` was parsed, `run` is the call. The options live as long as that.
template <typename Options>
void SetRun(Command command, CommandLine& line, const std::shared_ptr<Options>& options,
            ExitCode (*run)(const Context& context, const Options& options)) {
  command.OnParsed([&line, options, run] { line.run = [&line, options, run] { return run(line.context, *options); }; });
}

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_OPTIONS_H_
