// `cairn pin`: a dataset is kept, whatever the policy says.
#include <fmt/format.h>

#include <string>

#include "client/cli/actions.h"
#include "client/cli/commands.h"
#include "client/cli/options.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct PinOptions {
  std::string run;
  DatasetId dataset = 0;
  bool off = false;
};

ExitCode RunPin(const Context& context, const PinOptions& options) {
  const bool pinned = !options.off;
  const auto reply = Ask<admin::PinReply>(context, [&](AdminClient& daemon) {
    admin::PinRequest request;
    request.set_run(ParseRun(options.run).text);
    request.set_dataset(options.dataset);
    request.set_pinned(pinned);
    return daemon.Pin(request);
  });
  if (!reply.ok()) return Complain(reply.status());
  return Report(context, options.dataset, {{"pinned", pinned}},
                fmt::format("dataset {} is {}", options.dataset, pinned ? "pinned: it is kept" : "no longer pinned"));
}

}  // namespace

void AddPinCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<PinOptions>();
  const Command pin = app.AddCommand("pin", "Keep a dataset, whatever the policy says");
  AddRun(pin, options->run);
  AddDataset(pin, options->dataset);
  pin.AddFlag("--off", options->off, "Keep it no longer");
  SetRun(pin, line, options, RunPin);
}

}  // namespace cairn::cli
