#include "client/cli/actions_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "client/cli/json.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

using Clock = std::chrono::steady_clock;

// A long wait is asked for in parts, so that no call hangs on a daemon that has stopped.
constexpr std::uint64_t kWaitPartMs = 60'000;

// The highest level that the dataset has when the wait ends well; else why not.
absl::StatusOr<Level> WaitFor(AdminClient& daemon, const std::string& run, DatasetId dataset, Level level,
                              std::uint64_t timeout_ms) {
  admin::WaitRequest request;
  request.set_run(run);
  request.set_dataset(dataset);
  request.set_level(static_cast<local::Level>(level));
  const Clock::time_point begin = Clock::now();
  for (;;) {
    const auto passed_ms =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count());
    const bool last = timeout_ms != 0 && passed_ms + kWaitPartMs >= timeout_ms;
    // At least 1: 0 would mean the daemon's own default.
    const std::uint64_t part_ms =
        last ? std::max<std::uint64_t>(timeout_ms - std::min(timeout_ms, passed_ms), 1) : kWaitPartMs;
    request.set_timeout_ms(static_cast<std::uint32_t>(part_ms));
    CAIRN_ASSIGN_OR_RETURN(const admin::WaitReply reply, daemon.Wait(request));
    if (reply.status().code() == local::OK) return static_cast<Level>(reply.level());
    if (reply.status().code() == local::DEADLINE_EXCEEDED) {
      if (!last) continue;
      return DeadlineExceeded("dataset {} did not reach level {} within {} ms; it has level {}", dataset, NameOf(level),
                              timeout_ms, NameOf(static_cast<Level>(reply.level())));
    }
    return ToStatus(reply.status());
  }
}

ExitCode Report(const Context& context, DatasetId dataset, const Json& fields, const std::string& sentence) {
  Json json = {{"dataset", dataset}};
  json.update(fields);
  Print(context.json ? Dump(json) : sentence + "\n");
  return ExitCode::kOk;
}

// Asks the daemon for something that it may refuse.
template <typename Reply>
absl::StatusOr<Reply> Ask(const Context& context, const std::function<absl::StatusOr<Reply>(AdminClient&)>& question) {
  CAIRN_ASSIGN_OR_RETURN(const auto daemon, context.Daemon());
  CAIRN_ASSIGN_OR_RETURN(Reply reply, question(*daemon));
  if (reply.status().code() != local::OK) return ToStatus(reply.status());
  return reply;
}

}  // namespace

ExitCode RunWait(const Context& context, const std::string& run, DatasetId dataset, Level level,
                 std::uint64_t timeout_ms) {
  const auto daemon = context.Daemon();
  if (!daemon.ok()) return Complain(daemon.status());
  const absl::StatusOr<Level> reached = WaitFor(**daemon, ParseRun(run).text, dataset, level, timeout_ms);
  if (!reached.ok()) return Complain(reached.status());
  return Report(context, dataset, {{"level", NameOf(*reached)}},
                fmt::format("dataset {} is at level {}", dataset, NameOf(*reached)));
}

ExitCode RunFlush(const Context& context, const std::string& run, const FlushOptions& options) {
  const std::string name = ParseRun(run).text;
  const auto reply = Ask<admin::FlushReply>(context, [&](AdminClient& daemon) {
    admin::FlushRequest request;
    request.set_run(name);
    request.set_dataset(options.dataset);
    return daemon.Flush(request);
  });
  if (!reply.ok()) return Complain(reply.status());
  const DatasetId dataset = reply->dataset();
  if (options.wait) return RunWait(context, name, dataset, Level::kPrefix, options.timeout_ms);
  return Report(context, dataset, Json::object(), fmt::format("dataset {} will be flushed", dataset));
}

ExitCode RunPin(const Context& context, const std::string& run, DatasetId dataset, bool pinned) {
  const auto reply = Ask<admin::PinReply>(context, [&](AdminClient& daemon) {
    admin::PinRequest request;
    request.set_run(ParseRun(run).text);
    request.set_dataset(dataset);
    request.set_pinned(pinned);
    return daemon.Pin(request);
  });
  if (!reply.ok()) return Complain(reply.status());
  return Report(context, dataset, {{"pinned", pinned}},
                fmt::format("dataset {} is {}", dataset, pinned ? "pinned: it is kept" : "no longer pinned"));
}

ExitCode RunRemove(const Context& context, const std::string& run, DatasetId dataset) {
  const auto reply = Ask<admin::RemoveReply>(context, [&](AdminClient& daemon) {
    admin::RemoveRequest request;
    request.set_run(ParseRun(run).text);
    request.set_dataset(dataset);
    return daemon.Remove(request);
  });
  if (!reply.ok()) return Complain(reply.status());
  return Report(context, dataset, {{"removed", true}}, fmt::format("dataset {} is removed", dataset));
}

}  // namespace cairn::cli
