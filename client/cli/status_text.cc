#include "client/cli/status_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "client/cli/dataset_table.h"
#include "client/cli/describe.h"
#include "client/cli/drain_text.h"
#include "client/cli/mechanisms.h"
#include "client/cli/nodes_asked.h"
#include "client/cli/text.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kUseWidth = 20;

// Far out is shown as the number: what is in the file may be anything.
std::string LocalTimeOfSeconds(std::int64_t seconds) {
  constexpr std::int64_t kMax = std::int64_t{253402300799};  // year 9999
  return seconds > 0 && seconds < kMax ? LocalTime(seconds * 1'000'000) : fmt::format("second {}", seconds);
}

std::string DescribeFlush(const Look& look, const admin::FlushStatus& flush) {
  const bool picture = look.people && flush.state() == "running";  // the table above has the steps of the newest
  std::string line =
      fmt::format("  flush of dataset {}{}: ", flush.dataset(), picture ? "" : fmt::format(" (step {})", flush.step()));
  if (picture) {
    line +=
        fmt::format("{} {}, {} of {}",
                    Painted(look, Paint::kBusy, BarPicture(look, flush.bytes_done(), flush.bytes(), kProgressBarWidth)),
                    Percent(flush.bytes_done(), flush.bytes()), Bytes(flush.bytes_done()), Bytes(flush.bytes()));
  } else {
    line += fmt::format("{}, {} of {} ({})", Clean(flush.state()), Bytes(flush.bytes_done()), Bytes(flush.bytes()),
                        Percent(flush.bytes_done(), flush.bytes()));
  }
  if (flush.bytes_per_s() > 0) {
    const std::uint64_t left = flush.bytes() - std::min(flush.bytes(), flush.bytes_done());
    line += fmt::format(", {}/s", Bytes(flush.bytes_per_s()));
    // Whole seconds, the last one, too.
    if (left > 0) line += fmt::format(", {} left", Duration(((left - 1) / flush.bytes_per_s() + 1) * 1000));
  }
  if (flush.retry_in_ms() > 0) line += fmt::format(", again in {}", Duration(flush.retry_in_ms()));
  if (!flush.error().empty()) line += ": " + Painted(look, Paint::kBad, Clean(flush.error()));
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
  std::string text = fmt::format("  {} held the application up for {} each, in all {} of {}",
                                 Count(rhythm.checkpoints(), "checkpoint"), Duration(rhythm.cost_us() / 1000),
                                 Duration(rhythm.cost_total_us() / 1000), Duration(rhythm.elapsed_ms()));
  if (rhythm.interval_ms() > 0) text += fmt::format("; due every {}", Duration(rhythm.interval_ms()));
  if (rhythm.put_off() > 0) text += fmt::format("; {} put off", rhythm.put_off());
  return text + "\n";
}

std::string DescribeAside(const admin::RunStatus& run) {
  const admin::AsideStatus& aside = run.aside();
  std::string text;
  if (aside.damaged() > 0) {
    text += fmt::format(
        "  set aside as damaged in {}: {}, {}, the oldest since {}; the daemon removes this {}when "
        "space is needed\n",
        Clean(run.cache_folder()), Count(aside.damaged(), "item"), Bytes(aside.damaged_bytes()),
        LocalTime(aside.damaged_since_us()),
        aside.goes_us() == 0 ? "" : fmt::format("on {}, or before ", LocalTime(aside.goes_us())));
  }
  if (aside.taken() > 0) {
    text += fmt::format(
        "  kept as {}/taken.*: {}, {}; other datasets now have the same numbers; `cairn rm {} --set-aside all` "
        "removes this\n",
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

std::string KeptUntil(const admin::RunStatus& run) {
  if (run.kept_until_us() == 0) return "for good";
  return "until " + LocalTime(run.kept_until_us()) + ", and longer if nobody needs the space";
}

// A line, if it is not plain, in the colour of what is wrong.
std::string Bad(const Look& look, const std::string& line) {
  return Painted(look, Paint::kBad, line) + "\n";
}

// The run's datasets are shown to people only.
std::string DescribeDatasets(const StatusView& view, const admin::RunStatus& run) {
  if (view.datasets == nullptr) return "";
  std::vector<const admin::DatasetRow*> rows;
  for (const admin::DatasetRow& row : view.datasets->datasets()) {
    if (row.run() == run.run() && row.prefix() == run.prefix()) rows.push_back(&row);
  }
  return NewestDatasets(view.look, std::move(rows), {.now_us = view.now_us, .indent = "  "});
}

std::string DescribeRun(const StatusView& view, const admin::RunStatus& run) {
  const Look& look = view.look;
  std::string text = RunHead(look, run.run(), run.prefix());
  if (!run.branch_of().empty()) {
    text += fmt::format(
        "  the run is a branch: its directory is a copy of run {}'s. If it was moved, not copied: `cairn run moved "
        "{}`\n",
        run.branch_of().substr(0, 8), Clean(run.prefix()));
  }
  if (!run.served_by().empty()) {
    text += fmt::format("  launch {} is served by the daemon on {}\n", run.launch(), Clean(run.served_by()));
  } else if (run.launch() == 0) {
    text += "  no launch of this run has connected to this daemon\n";
  } else {
    text += fmt::format("  launch {}: {} of {} ranks connected; newest whole step: {}\n", run.launch(), run.sessions(),
                        run.nranks(), run.newest_step());
  }
  if (run.provisional()) text += Bad(look, "  the prefix does not answer: this launch began without it");
  if (run.hung_since_us() != 0) {
    text += Bad(look, fmt::format("  the prefix has hung since {}: its file system does not answer; checkpoints stay "
                                  "in the cache until it does",
                                  LocalTime(run.hung_since_us())));
  }
  if (run.lost_since_us() != 0) {
    text += Bad(look, fmt::format("  the run is no longer at its prefix, as seen since {}; the cache keeps what it "
                                  "has of the run {}",
                                  LocalTime(run.lost_since_us()), KeptUntil(run)));
  }
  if (!run.nodes().empty()) text += DescribeTotals(run.nodes()) + Indented(DescribeSilent(run.nodes()));
  if (run.has_aside()) text += DescribeAside(run);
  if (run.has_halt()) text += DescribeHalt(run.halt());
  if (run.has_rhythm()) text += DescribeRhythm(run.rhythm());
  text += DescribeDatasets(view, run);
  for (const admin::FlushStatus& flush : run.flushes()) text += DescribeFlush(look, flush);
  for (const admin::GrowingDirectory& growing : run.growing()) {
    text += fmt::format("  dataset {} grows: {}\n", growing.dataset(), DescribeGrowing(growing));
  }
  return text;
}

// How much of `whole` is used, as a picture for people.
std::string DescribeUse(const Look& look, std::uint64_t part, std::uint64_t whole) {
  const std::string numbers = fmt::format("{} of {}", Bytes(part), Bytes(whole));
  if (!look.people) return numbers;
  const bool full = part > whole / 10 * 9;
  return fmt::format(
      "{} {}", Painted(look, full ? Paint::kBusy : Paint::kKept, BarPicture(look, part, whole, kUseWidth)), numbers);
}

}  // namespace

std::string DescribeStatus(const admin::StatusReply& status, const StatusView& view) {
  const Look& look = view.look;
  std::string text =
      Painted(look, Paint::kHead, fmt::format("{} on {}", Clean(status.version()), Clean(status.host())));
  text += fmt::format(", process {}, up {}{}\n", status.pid(), Duration(status.uptime_ms()),
                      status.quiescing() ? Painted(look, Paint::kBusy, ", going away: takes nothing new") : "");
  text += fmt::format("cache   {} in {}\n", DescribeUse(look, status.cache_bytes_used(), status.cache_bytes_max()),
                      Clean(status.cache()));
  text += fmt::format("images  {} of memory\n", DescribeUse(look, status.image_bytes_used(), status.image_bytes_max()));
  const std::string refused = TellRefused(status.mechanisms());
  if (!refused.empty()) text += fmt::format("without {} (see cairn doctor)\n", refused);
  if (status.runs().empty()) text += "no runs\n";
  for (const admin::RunStatus& run : status.runs()) text += (look.people ? "\n" : "") + DescribeRun(view, run);
  for (const admin::DrainStatus& drain : status.drains()) {
    text += (look.people ? "\n" : "") + DescribeDrain(look, drain);
  }
  for (const admin::HungPrefix& hung : status.hung()) {
    text += Bad(look, fmt::format("prefix {} has hung since {}: its file system does not answer; an application that "
                                  "opens it waits",
                                  Clean(hung.prefix()), LocalTime(hung.since_us())));
  }
  for (const std::string& warning : status.warnings()) text += Bad(look, "warning: " + Clean(warning));
  return text;
}

}  // namespace cairn::cli
