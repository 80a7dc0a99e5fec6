// `cairn job`: what a job's prolog and epilog ask of the daemon on their node, as the job's user.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/actions.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/base/clock.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kBeginMs = 10'000;
constexpr std::uint32_t kOrderMs = 1;  // what is ordered is done all the same

// --- begin ---

struct BeginOptions {
  std::string timeout;
};

// A daemon of all users starts this user's worker when the connection comes, and hands it over when that is ready.
ExitCode RunBegin(const Context& context, const BeginOptions& options) {
  const std::uint64_t given_ms = Milliseconds(options.timeout);
  const auto until = SteadyNow() + std::chrono::milliseconds(given_ms == 0 ? kBeginMs : given_ms);
  for (;;) {
    const auto daemon = context.Daemon();
    const auto status =
        daemon.ok() ? (*daemon)->StatusOfThisNode() : absl::StatusOr<admin::StatusReply>(daemon.status());
    if (status.ok() && !status->quiescing()) {
      Print(context.json
                ? Dump({{"pid", status->pid()}, {"cache", Clean(status->cache())}})
                : fmt::format("cairnd {} serves you here; its cache is {}\n", status->pid(), Clean(status->cache())));
      return ExitCode::kOk;
    }
    // Who listens nowhere will not appear by waiting; who listens may be on its way in or out.
    const bool gone = !daemon.ok();
    if (gone || SteadyNow() >= until) {
      return Complain(status.ok() ? Unavailable("the daemon is going away") : status.status());
    }
    SleepFor(std::chrono::milliseconds(50));
  }
}

// --- end ---

struct EndOptions {
  std::string job;
  bool wait = false;
  std::string timeout;
};

std::string CheckJob(const std::string& text) {
  const bool number = !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  return number ? "" : "'" + text + "' is no number of a job";
}

// What this node has of one run that would be missed, and is not on the prefix.
struct Left {
  std::string run, prefix;
  absl::Status status;                  // of the question
  std::vector<admin::OnlyHere> before;  // when it was ordered there
  std::vector<admin::OnlyHere> now;
};

// Orders it to the prefix; what is not there by then.
absl::StatusOr<std::vector<admin::OnlyHere>> BringToPrefix(AdminClient& daemon, const std::string& run,
                                                           std::uint32_t timeout_ms) {
  admin::LeaveRequest request;
  request.set_run(run);
  request.set_to_prefix(true);
  request.set_timeout_ms(timeout_ms);
  CAIRN_ASSIGN_OR_RETURN(const admin::LeaveReply reply, daemon.Leave(request));
  CAIRN_RETURN_IF_ERROR(ToStatus(reply.status()));
  return std::vector<admin::OnlyHere>(reply.only_here().begin(), reply.only_here().end());
}

absl::StatusOr<std::vector<Left>> OrderOfJob(AdminClient& daemon, const std::string& job) {
  CAIRN_ASSIGN_OR_RETURN(const admin::StatusReply status, daemon.StatusOfThisNode());
  std::vector<Left> left;
  for (const admin::RunStatus& run : status.runs()) {
    if (run.job() != job) continue;
    auto before = BringToPrefix(daemon, run.run(), kOrderMs);
    Left& of_run = left.emplace_back();
    of_run.run = run.run();
    of_run.prefix = run.prefix();
    of_run.status = before.status();
    if (before.ok()) of_run.before = of_run.now = *std::move(before);
  }
  return left;
}

// All runs' within one time: what comes after one that did not get there is looked at, too.
void Await(AdminClient& daemon, std::uint64_t timeout_ms, std::vector<Left>& left) {
  WaitInParts parts(kPrefixPartMs, timeout_ms);
  for (Left& of_run : left) {
    while (of_run.status.ok() && !of_run.now.empty()) {
      auto now = BringToPrefix(daemon, of_run.run, parts.NextMs());
      of_run.status = now.status();
      if (now.ok()) of_run.now = *std::move(now);
      if (parts.last()) break;
    }
  }
}

std::string DescribeLeft(const Left& left) {
  if (!left.status.ok()) return fmt::format("{}: {}\n", Clean(left.prefix), Clean(MessageOf(left.status)));
  std::string text;
  for (const admin::OnlyHere& one : left.now) {
    text += fmt::format("{}: dataset {} (step {}) is not on the prefix yet: {}\n", Clean(left.prefix), one.dataset(),
                        one.step(), Clean(one.why()));
  }
  if (text.empty() && !left.before.empty()) text = fmt::format("{}: all is on the prefix\n", Clean(left.prefix));
  return text;
}

ExitCode Tell(const Context& context, const EndOptions& options, const std::vector<Left>& left) {
  ExitCode code = ExitCode::kOk;
  Json all = Json::array();
  std::string text;
  for (const Left& of_run : left) {
    Json datasets = Json::array();
    for (const admin::OnlyHere& one : of_run.now) datasets.push_back(ToJson(one));
    all.push_back({{"run", of_run.run},
                   {"prefix", Clean(of_run.prefix)},
                   {"not_on_prefix", std::move(datasets)},
                   {"error", of_run.status.ok() ? "" : Clean(MessageOf(of_run.status))}});
    text += DescribeLeft(of_run);
    if (!of_run.status.ok()) code = Worse(code, CodeOf(of_run.status));
    if (options.wait && !of_run.now.empty()) code = Worse(code, ExitCode::kTimeout);
  }
  if (text.empty()) text = fmt::format("job {} has left nothing here that is not on the prefix\n", options.job);
  Print(context.json ? Dump({{"job", options.job}, {"waited", options.wait}, {"runs", std::move(all)}}) : text);
  return code;
}

ExitCode RunEnd(const Context& context, const EndOptions& options) {
  const auto daemon = context.Daemon();
  if (!daemon.ok()) return Complain(daemon.status());
  auto left = OrderOfJob(**daemon, options.job);
  if (!left.ok()) return Complain(left.status());
  if (options.wait) Await(**daemon, Milliseconds(options.timeout), *left);
  return Tell(context, options, *left);
}

void AddBegin(Command job, CommandLine& line) {
  const auto options = std::make_shared<BeginOptions>();
  const Command begin = job.AddCommand("begin",
                                       "Make sure that this node's daemon serves you, and say which process "
                                       "it is");
  begin.Footer(
      "A daemon for all users (root's cairnd) has a worker for each user. It starts a worker when the user needs\n"
      "one: this command needs one, and waits for it for 10 s, or --timeout.\n"
      "\n"
      "Exit codes: 0 the daemon serves you; 3 there is no daemon, or it did not serve you in time.");
  AddTimeout(begin, options->timeout);
  SetRun(begin, line, options, RunBegin);
}

void AddEnd(Command job, CommandLine& line) {
  const auto options = std::make_shared<EndOptions>();
  const Command end =
      job.AddCommand("end", "A job has ended here: bring its newest checkpoint and outputs to the prefix");
  end.Footer(
      "JOB is Slurm's number of the job ($SLURM_JOB_ID). The command looks for runs whose newest launch was JOB's.\n"
      "What would be missed of them goes to the prefix before anything else: the newest checkpoint, outputs and\n"
      "what is pinned, if this node has it and it is whole here by now. Without --wait the command orders this, and\n"
      "ends. It does not order what is still on its way to the cache: flush.every decides about that, or use\n"
      "--wait. libcairn takes a launch's key from PMIx or Slurm, and the key tells the job. If CAIRN_LAUNCH has set\n"
      "another key, the job is not known: use `cairn flush RUN`. If a newer job has continued a run, the command\n"
      "leaves the run to that job.\n"
      "\n"
      "Exit codes: 0 all that was whole is ordered, or nothing was left; 3 no daemon answers; 6 not all arrived in\n"
      "time, and the daemon goes on.");
  end.AddOption("JOB", options->job, "Number of the job").Required().Check(CheckJob);
  end.AddFlag("--wait", options->wait, "Wait until all of it is there, and say what prevents it");
  AddTimeout(end, options->timeout);
  SetRun(end, line, options, RunEnd);
}

}  // namespace

void AddJobCommand(Command app, CommandLine& line) {
  const Command job =
      app.AddCommand("job", "For prologs and epilogs of jobs: a worker before the job, data for the prefix after it");
  job.RequireCommand(1, 1);
  AddBegin(job, line);
  AddEnd(job, line);
}

}  // namespace cairn::cli
