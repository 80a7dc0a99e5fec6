// `cairn leave`: this node is about to go; what only it has goes to the prefix before.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>

#include "client/cli/actions.h"
#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct LeaveOptions {
  std::string run;
  std::string timeout;
};

std::string DescribeOne(const admin::OnlyHere& one) {
  return fmt::format("{}: dataset {} (step {}, {} here): {}", Clean(one.prefix()), one.dataset(), one.step(),
                     Bytes(one.bytes()), Clean(one.why()));
}

ExitCode Tell(const Context& context, const admin::LeaveReply& reply) {
  if (context.json) {
    Json all = Json::array();
    for (const admin::OnlyHere& one : reply.only_here()) all.push_back(ToJson(one));
    Print(Dump({{"may_go", all.empty()}, {"only_here", std::move(all)}}));
  } else if (reply.only_here().empty()) {
    Print("this node has nothing that would be missed: it may go\n");
  } else {
    Print(fmt::format("{} would be missed if this node went now:\n",
                      Count(static_cast<std::uint64_t>(reply.only_here_size()), "dataset")));
    for (const admin::OnlyHere& one : reply.only_here()) Print("  " + DescribeOne(one) + "\n");
  }
  return reply.only_here().empty() ? ExitCode::kOk : ExitCode::kTimeout;
}

ExitCode RunLeave(const Context& context, const LeaveOptions& options) {
  WaitInParts parts(kPrefixPartMs, Milliseconds(options.timeout));
  std::string told;
  for (;;) {
    const auto reply = Ask<admin::LeaveReply>(context, [&](AdminClient& daemon) {
      admin::LeaveRequest request;
      request.set_run(ParseRun(options.run).text);
      request.set_timeout_ms(parts.NextMs());
      return daemon.Leave(request);
    });
    if (!reply.ok()) return Complain(reply.status());
    if (reply->only_here().empty() || parts.last()) return Tell(context, *reply);
    const std::string first = DescribeOne(reply->only_here(0));
    const int others = reply->only_here_size() - 1;
    const std::string now =
        others == 0 ? first
                    : fmt::format("{} (and {} more)", first, Count(static_cast<std::uint64_t>(others), "dataset"));
    if (now != told) Note(now);
    told = now;
  }
}

}  // namespace

void AddLeaveCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<LeaveOptions>();
  const Command leave =
      app.AddCommand("leave",
                     "Before this node goes: bring what only it has to the prefix, and wait until it is "
                     "there");
  AddRun(leave, options->run, /*required=*/false);
  AddTimeout(leave, options->timeout);
  SetRun(leave, line, options, RunLeave);
}

}  // namespace cairn::cli
