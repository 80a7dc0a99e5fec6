// `cairn wait`: until a dataset is as safe as it is to be.
#include <string>

#include "client/cli/actions.h"
#include "client/cli/commands.h"
#include "client/cli/options.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct WaitOptions {
  std::string run;
  DatasetId dataset = 0;
  std::string level, timeout;
};

std::string CheckLevel(const std::string& text) {
  const auto level = ParseLevel(text);
  return level.ok() && *level != Level::kNone ? "" : "'" + text + "' is none of captured, local, redundant, prefix";
}

ExitCode RunWait(const Context& context, const WaitOptions& options) {
  const auto level = ParseLevel(options.level);  // checked when it was parsed
  return WaitAndTell(context, options.run, options.dataset, *level, Milliseconds(options.timeout));
}

}  // namespace

void AddWaitCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<WaitOptions>();
  const Command wait = app.AddCommand("wait", "Wait until a dataset has reached a level");
  AddRun(wait, options->run);
  AddDataset(wait, options->dataset);
  wait.AddOption("LEVEL", options->level, "captured, local, redundant or prefix").Required().Check(CheckLevel);
  AddTimeout(wait, options->timeout);
  SetRun(wait, line, options, RunWait);
}

}  // namespace cairn::cli
