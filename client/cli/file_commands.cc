// The commands on files: they need no daemon.
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "client/cli/command_line.h"
#include "client/cli/inspect_command.h"
#include "client/cli/verify_command.h"
#include "storage/base/ids.h"

namespace cairn::cli {
namespace {

struct Options {
  std::string file;
  std::vector<std::string> targets;
  DatasetId dataset = 0;
};
using SharedOptions = std::shared_ptr<Options>;

void AddVerify(CLI::App& app, CommandLine& line, const SharedOptions& options) {
  CLI::App* const verify = app.add_subcommand(
      "verify", "Read every byte of runs or files and compare it with its checksums; needs no daemon");
  verify->add_option("RUN|FILE", options->targets, "Prefixes, runs, or FTI-FF, kvtree and catalogue files")->required();
  verify->add_option("--dataset", options->dataset, "Only this dataset of each run");
  verify->callback([&line, options] {
    line.run = [&line, options] { return RunVerify(line.context, options->targets, options->dataset); };
  });
}

void AddInspect(CLI::App& app, CommandLine& line, const SharedOptions& options) {
  CLI::App* const inspect =
      app.add_subcommand("inspect", "What a checkpoint file, a kvtree file or a catalogue says; needs no daemon");
  inspect->add_option("FILE", options->file, "The file")->required();
  inspect->callback(
      [&line, options] { line.run = [&line, options] { return RunInspect(line.context, options->file); }; });
}

}  // namespace

void AddFileCommands(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<Options>();
  AddVerify(app, line, options);
  AddInspect(app, line, options);
}

}  // namespace cairn::cli
