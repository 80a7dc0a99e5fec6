// `cairn status`: the daemon, its runs, and how their flushes come along.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "client/cli/admin_client.h"
#include "client/cli/all_users.h"
#include "client/cli/commands.h"
#include "client/cli/context.h"
#include "client/cli/json.h"
#include "client/cli/look.h"
#include "client/cli/options.h"
#include "client/cli/screen.h"
#include "client/cli/status_text.h"
#include "client/cli/text.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct StatusOptions {
  bool watch = false;  // again and again, until the daemon goes or the user has enough
  std::string interval = "1s";
  bool this_node = false;
  bool all = false;  // of root: all users
};

// One look at the daemon, ended lines. People see datasets as well.
absl::StatusOr<std::string> Describe(const Context& context, AdminClient& daemon, bool this_node) {
  admin::StatusRequest request;
  request.set_this_node_only(this_node);
  CAIRN_ASSIGN_OR_RETURN(const admin::StatusReply status, daemon.Status(request));
  if (context.json) return Dump(ToJson(status));
  StatusView view{.look = context.look};
  admin::ListReply datasets;
  if (context.look.people) {
    admin::ListRequest all;
    all.set_this_node_only(this_node);
    CAIRN_ASSIGN_OR_RETURN(datasets, daemon.List(all));
    view.datasets = &datasets;
    view.now_us = NowMicros();
  }
  return DescribeStatus(status, view);
}

ExitCode Watch(const Context& context, std::chrono::milliseconds pause) {
  // Before the connection, which has threads.
  std::optional<Screen> screen;
  if (context.look.redraws && !context.json) screen.emplace();
  const auto daemon = context.Daemon();
  absl::Status status = daemon.status();
  while (status.ok()) {
    // Not all nodes every second.
    absl::StatusOr<std::string> text = Describe(context, **daemon, /*this_node=*/true);
    status = text.status();
    if (!status.ok()) break;
    if (!screen) {
      Print(*text);
      std::this_thread::sleep_for(pause);
      continue;
    }
    const std::string note = fmt::format("as of {}, every {}; Ctrl-C ends", LocalTime(NowMicros()),
                                         Duration(static_cast<std::uint64_t>(pause.count())));
    screen->Draw(*text + "\n" + Painted(context.look, Paint::kDim, note) + "\n");
    screen->Pause(pause);
  }
  screen.reset();  // what is said now belongs into the window as it was
  return Complain(status);
}

ExitCode ShowAllUsers(const Context& context) {
  const auto sockets = AdminSockets(context.address, [](const char* name) { return std::getenv(name); });
  if (!sockets.ok()) return Complain(sockets.status());
  const absl::StatusOr<AllUsers> all = AskSupervisor(StatusSocketBeside(sockets->back()));
  if (!all.ok()) return Complain(all.status());
  Print(context.json ? Dump(ToJson(*all)) : DescribeAllUsers(*all));
  return ExitCode::kOk;
}

ExitCode RunStatus(const Context& context, const StatusOptions& options) {
  if (options.all) return ShowAllUsers(context);
  if (options.watch) {
    // Not 0: that would ask without a pause.
    return Watch(context, std::chrono::milliseconds(std::max<std::uint64_t>(Milliseconds(options.interval), 10)));
  }
  const auto daemon = context.Daemon();
  if (!daemon.ok()) return Complain(daemon.status());
  const absl::StatusOr<std::string> text = Describe(context, **daemon, options.this_node);
  if (absl::IsUnavailable(text.status()) && geteuid() == 0 &&
      AskSupervisor(StatusSocketBeside((*daemon)->socket())).ok()) {
    return Complain(Unavailable("{} is the daemon of all users, and has no worker for root: use `cairn status --all`",
                                (*daemon)->socket()));
  }
  if (!text.ok()) return Complain(text.status());
  Print(*text);
  return ExitCode::kOk;
}

}  // namespace

void AddStatusCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<StatusOptions>();
  const Command status =
      app.AddCommand("status", "Show the daemon, its runs on all nodes, and the progress of their flushes");
  status.AddFlag("--watch", options->watch, "Show it again and again until Ctrl-C; of this node only");
  status.AddOption("--interval", options->interval, "Time between two looks, with --watch (default 1s)")
      .Check(CheckDuration);
  status.AddFlag("--all", options->all, "As root: show the workers of all users of this node, in numbers");
  AddThisNode(status, options->this_node);
  SetRun(status, line, options, RunStatus);
}

}  // namespace cairn::cli
