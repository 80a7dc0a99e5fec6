#include "client/cli/actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "client/cli/file_argument.h"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kWaitPartMs = 60'000;

// The highest level that the dataset has when the wait ends well; else why not.
absl::StatusOr<Level> WaitFor(AdminClient& daemon, const std::string& run, DatasetId dataset, Level level,
                              std::uint64_t timeout_ms) {
  admin::WaitRequest request;
  request.set_run(run);
  request.set_dataset(dataset);
  request.set_level(static_cast<local::Level>(level));
  WaitInParts parts(level == Level::kPrefix ? kPrefixPartMs : kWaitPartMs, timeout_ms);
  std::string told;
  for (;;) {
    request.set_timeout_ms(parts.NextMs());
    CAIRN_ASSIGN_OR_RETURN(const admin::WaitReply reply, daemon.Wait(request));
    if (reply.status().code() == local::OK) return static_cast<Level>(reply.level());
    if (reply.status().code() == local::DEADLINE_EXCEEDED) {
      const std::string& why = reply.held_up_by();
      if (parts.last()) {
        return DeadlineExceeded("dataset {} has not reached level {} within {} ms; its level is {}{}", dataset,
                                NameOf(level), timeout_ms, NameOf(static_cast<Level>(reply.level())),
                                why.empty() ? "" : ": " + why);
      }
      if (!why.empty() && why != told) Note(fmt::format("dataset {} is not on the prefix yet: {}", dataset, why));
      told = why;
      continue;
    }
    return ToStatus(reply.status());
  }
}

}  // namespace

std::uint32_t WaitInParts::NextMs() {
  using std::chrono::milliseconds;
  const auto passed = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin_);
  const auto passed_ms = static_cast<std::uint64_t>(passed.count());
  last_ = timeout_ms_ != 0 && passed_ms + part_ms_ >= timeout_ms_;
  if (!last_) return static_cast<std::uint32_t>(part_ms_);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(timeout_ms_ - std::min(timeout_ms_, passed_ms), 1));
}

ExitCode WaitAndTell(const Context& context, const std::string& run, DatasetId dataset, Level level,
                     std::uint64_t timeout_ms) {
  const auto daemon = context.Daemon();
  if (!daemon.ok()) return Complain(daemon.status());
  const absl::StatusOr<Level> reached = WaitFor(**daemon, ParseRun(run).text, dataset, level, timeout_ms);
  if (!reached.ok()) return Complain(reached.status());
  return Report(context, dataset, {{"level", NameOf(*reached)}},
                fmt::format("dataset {} is at level {}", dataset, NameOf(*reached)));
}

ExitCode Report(const Context& context, DatasetId dataset, const Json& fields, const std::string& sentence) {
  Json json = {{"dataset", dataset}};
  json.update(fields);
  Print(context.json ? Dump(json) : sentence + "\n");
  return ExitCode::kOk;
}

}  // namespace cairn::cli
