// `cairn status`: the daemon, its runs, and how their flushes come along.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/context.h"
#include "client/cli/describe.h"
#include "client/cli/json.h"
#include "client/cli/nodes_asked.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kBarWidth = 30;

struct Options {
  bool watch = false;  // again and again, until the daemon goes or the user has enough
  std::string interval = "1s";
  bool this_node = false;
};

// Far out is shown as the number: what is in the file may be anything.
std::string LocalTimeOfSeconds(std::int64_t seconds) {
  constexpr std::int64_t kMax = std::int64_t{253402300799};  // year 9999
  return seconds > 0 && seconds < kMax ? LocalTime(seconds * 1'000'000) : fmt::format("second {}", seconds);
}

std::string DescribeFlush(const admin::FlushStatus& flush, bool terminal) {
  std::string line = fmt::format("  flush of dataset {} (step {}): ", flush.dataset(), flush.step());
  if (terminal && flush.state() == "running") {
    line += fmt::format("{} {}, {} of {}", Bar(flush.bytes_done(), flush.bytes(), kBarWidth),
                        Percent(flush.bytes_done(), flush.bytes()), Bytes(flush.bytes_done()), Bytes(flush.bytes()));
  } else {
    line += fmt::format("{}, {} of {} ({})", Clean(flush.state()), Bytes(flush.bytes_done()), Bytes(flush.bytes()),
                        Percent(flush.bytes_done(), flush.bytes()));
  }
  if (flush.bytes_per_s() > 0) {
    const std::uint64_t left = flush.bytes() - std::min(flush.bytes(), flush.bytes_done());
    line += fmt::format(", {}/s, {} left", Bytes(flush.bytes_per_s()), Duration(left / flush.bytes_per_s() * 1000));
  }
  if (flush.retry_in_ms() > 0) line += fmt::format(", again in {}", Duration(flush.retry_in_ms()));
  if (!flush.error().empty()) line += fmt::format(": {}", Clean(flush.error()));
  return line + "\n";
}

// What is set in halt.scr; nothing if that is nothing.
std::string DescribeHalt(const admin::HaltStatus& halt) {
  std::vector<std::string> parts;
  const bool ended = halt.reason() == "SCR_FINALIZE_CALLED";  // a launch has: no condition for the next
  if (!halt.why().empty()) parts.push_back("now: " + Clean(halt.why()));
  if (halt.why().empty() && !halt.reason().empty() && !ended) parts.push_back(Clean(halt.reason()));
  if (halt.counts_checkpoints() && halt.checkpoints_left() > 0) {
    parts.push_back(fmt::format("after {}", Count(halt.checkpoints_left(), "more checkpoint")));
  }
  if (halt.exit_before_s() != 0) parts.push_back("before " + LocalTimeOfSeconds(halt.exit_before_s()));
  if (halt.exit_after_s() != 0) parts.push_back("after " + LocalTimeOfSeconds(halt.exit_after_s()));
  if (halt.halt_seconds() != 0) {
    parts.push_back(fmt::format("{} s before the end{}", halt.halt_seconds(),
                                halt.end_time_s() != 0 ? ", " + LocalTimeOfSeconds(halt.end_time_s()) : ""));
  }
  std::string text = parts.empty() ? "" : fmt::format("  is to stop {}\n", fmt::join(parts, "; "));
  if (!halt.error().empty()) text += fmt::format("  halt conditions as last read: {}\n", Clean(halt.error()));
  return text;
}

std::string DescribeRhythm(const admin::RhythmStatus& rhythm) {
  if (rhythm.checkpoints() == 0) return "";
  std::string text = fmt::format("  {} held it up for {} each, {} of {}", Count(rhythm.checkpoints(), "checkpoint"),
                                 Duration(rhythm.cost_us() / 1000), Duration(rhythm.cost_total_us() / 1000),
                                 Duration(rhythm.elapsed_ms()));
  if (rhythm.interval_ms() > 0) text += fmt::format("; due every {}", Duration(rhythm.interval_ms()));
  return text + "\n";
}

std::string DescribeAside(const admin::RunStatus& run) {
  const admin::AsideStatus& aside = run.aside();
  std::string text;
  if (aside.damaged() > 0) {
    text += fmt::format("  set aside as damaged in {}: {}, {}, the oldest since {}; goes {}when room is needed\n",
                        Clean(run.cache_folder()), Count(aside.damaged(), "item"), Bytes(aside.damaged_bytes()),
                        LocalTime(aside.damaged_since_us()),
                        aside.goes_us() == 0 ? "" : fmt::format("on {}, or before ", LocalTime(aside.goes_us())));
  }
  if (aside.taken() > 0) {
    text += fmt::format(
        "  kept as {}/taken.*: {}, {}, whose number another dataset has; stays until it is removed "
        "(`cairn rm {} --set-aside all`)\n",
        Clean(run.cache_folder()), Count(aside.taken(), "whole dataset"), Bytes(aside.taken_bytes()),
        run.run().substr(0, 8));
  }
  return text;
}

std::string Indented(const std::string& lines) {
  std::string text;
  for (std::size_t at = 0, end = 0; (end = lines.find('\n', at)) != std::string::npos; at = end + 1) {
    text += "  " + lines.substr(at, end + 1 - at);
  }
  return text;
}

std::string DescribeRun(const admin::RunStatus& run, bool terminal) {
  std::string text = fmt::format("run {}  {}\n", run.run().substr(0, 8), Clean(run.prefix()));
  if (!run.branch_of().empty()) {
    text += fmt::format(
        "  is a branch: its directory is a copy of run {}'s. If it was moved and not copied: `cairn run "
        "moved {}`\n",
        run.branch_of().substr(0, 8), Clean(run.prefix()));
  }
  if (!run.served_by().empty()) {
    text += fmt::format("  launch {} is served by the daemon on {}\n", run.launch(), Clean(run.served_by()));
  } else if (run.launch() == 0) {
    text += "  no launch of it has come to this daemon\n";
  } else {
    text += fmt::format("  launch {}: {} of {} ranks connected; newest whole step: {}\n", run.launch(), run.sessions(),
                        run.nranks(), run.newest_step());
  }
  if (run.provisional()) text += "  the prefix does not answer: this launch began without it\n";
  if (run.hung_since_us() != 0) {
    text += fmt::format(
        "  the prefix has hung since {}: its file system does not answer; checkpoints stay in the cache until it "
        "does\n",
        LocalTime(run.hung_since_us()));
  }
  if (run.lost_since_us() != 0) {
    text += fmt::format("  is not at the prefix any more, as seen since {}; the cache keeps what it has of it {}\n",
                        LocalTime(run.lost_since_us()),
                        run.kept_until_us() == 0
                            ? "for good"
                            : "until " + LocalTime(run.kept_until_us()) + ", then as long as nobody needs the room");
  }
  if (!run.nodes().empty()) text += DescribeTotals(run.nodes()) + Indented(DescribeSilent(run.nodes()));
  if (run.has_aside()) text += DescribeAside(run);
  if (run.has_halt()) text += DescribeHalt(run.halt());
  if (run.has_rhythm()) text += DescribeRhythm(run.rhythm());
  for (const admin::FlushStatus& flush : run.flushes()) text += DescribeFlush(flush, terminal);
  for (const admin::GrowingDirectory& growing : run.growing()) {
    text += fmt::format("  dataset {} grows: {}\n", growing.dataset(), DescribeGrowing(growing));
  }
  return text;
}

// With bars for a terminal, else in plain lines.
std::string DescribeStatus(const admin::StatusReply& status, bool terminal) {
  std::string text =
      fmt::format("{} on {}, process {}, up {}{}\n", Clean(status.version()), Clean(status.host()), status.pid(),
                  Duration(status.uptime_ms()), status.quiescing() ? ", going away: takes nothing new" : "");
  text += fmt::format("cache   {} of {} in {}\n", Bytes(status.cache_bytes_used()), Bytes(status.cache_bytes_max()),
                      Clean(status.cache()));
  text +=
      fmt::format("images  {} of {} of memory\n", Bytes(status.image_bytes_used()), Bytes(status.image_bytes_max()));
  if (status.runs().empty()) text += "no runs\n";
  for (const admin::RunStatus& run : status.runs()) text += DescribeRun(run, terminal);
  for (const admin::HungPrefix& hung : status.hung()) {
    text += fmt::format("prefix {} has hung since {}: its file system does not answer; who opens it waits\n",
                        Clean(hung.prefix()), LocalTime(hung.since_us()));
  }
  for (const std::string& warning : status.warnings()) text += fmt::format("warning: {}\n", Clean(warning));
  return text;
}

ExitCode RunStatus(const Context& context, const Options& options) {
  const auto daemon = context.Daemon();
  if (!daemon.ok()) return Complain(daemon.status());
  // Not 0: that would ask without a pause.
  const auto pause = std::chrono::milliseconds(std::max<std::uint64_t>(Milliseconds(options.interval), 10));
  admin::StatusRequest request;
  request.set_this_node_only(options.this_node || options.watch);  // not all nodes every second
  const bool redraw = options.watch && context.terminal && !context.json;
  for (;;) {
    const absl::StatusOr<admin::StatusReply> status = (*daemon)->Status(request);
    if (!status.ok()) return Complain(status.status());
    // From the top of the screen; each line, and what is below, is cleared as it is written over.
    std::string text = context.json ? Dump(ToJson(*status)) : DescribeStatus(*status, context.terminal);
    if (redraw) {
      for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 4) text.insert(at, "\x1b[K");
      text = "\x1b[H" + text + "\x1b[J";
    }
    Print(text);
    if (!options.watch) return ExitCode::kOk;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

void AddStatusCommand(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<Options>();
  CLI::App* const status =
      app.add_subcommand("status", "The daemon, its runs on all nodes, and how their flushes come along");
  status->add_flag("--watch", options->watch, "Look on until interrupted; only at this node");
  status->add_option("--interval", options->interval, "How often, with --watch (default 1s)")->check(CheckDuration);
  AddThisNode(*status, options->this_node);
  SetRun(*status, line, options, RunStatus);
}

}  // namespace cairn::cli
