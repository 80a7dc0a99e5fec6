#include "client/cli/options.h"

#include "daemon/config/units.h"

namespace cairn::cli {

void AddRun(CLI::App& command, std::string& run, bool required) {
  command.add_option("RUN", run, kRunText)->required(required);
}

void AddDataset(CLI::App& command, DatasetId& dataset, bool required) {
  command.add_option("DATASET", dataset, "Number of the dataset, from `cairn ls`")->required(required);
}

void AddThisNode(CLI::App& command, bool& this_node) {
  command.add_flag("--this-node", this_node, "Only what this node knows: do not ask the run's other nodes");
}

void AddTimeout(CLI::App& command, std::string& timeout) {
  command.add_option("--timeout", timeout, "Give up after this time, for example 10min (default: never)")
      ->check(CheckDuration);
}

void AddOutput(CLI::App& command, std::string& output, bool& force, const char* what) {
  command.add_option("-o,--output", output, what)->required();
  command.add_flag("--force", force, "Replace the output if it is there");
}

std::string CheckDuration(const std::string& text) {
  return CheckBy([](const std::string& duration) { return ParseDuration(duration); })(text);
}

std::uint64_t Milliseconds(const std::string& duration) {
  const auto ms = ParseDuration(duration.empty() ? "0" : duration);
  return ms.ok() ? *ms : 0;
}

}  // namespace cairn::cli
