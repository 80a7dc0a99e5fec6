#include "client/cli/options.h"

#include "daemon/config/units.h"

namespace cairn::cli {

void AddRun(Command command, std::string& run, bool required) {
  command.AddOption("RUN", run, kRunText).Required(required);
}

void AddDataset(Command command, DatasetId& dataset, bool required) {
  command.AddOption("DATASET", dataset, "Number of the dataset, from `cairn ls`").Required(required);
}

void AddThisNode(Command command, bool& this_node) {
  command.AddFlag("--this-node", this_node, "Show only what this node knows: do not ask the run's other nodes");
}

void AddTimeout(Command command, std::string& timeout) {
  command.AddOption("--timeout", timeout, "Give up after this time, for example 10min (default: never)")
      .Check(CheckDuration);
}

void AddOutput(Command command, std::string& output, bool& force, const char* what) {
  command.AddOption("-o,--output", output, what).Required();
  command.AddFlag("--force", force, "Replace the output if it is there");
}

std::string CheckDuration(const std::string& text) {
  return CheckBy([](const std::string& duration) { return ParseDuration(duration); })(text);
}

std::uint64_t Milliseconds(const std::string& duration) {
  const auto ms = ParseDuration(duration.empty() ? "0" : duration);
  return ms.ok() ? *ms : 0;
}

}  // namespace cairn::cli
