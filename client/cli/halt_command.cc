// `cairn halt`: tells a run when to stop, by the halt file in its prefix, which SCR's programs read, too. Needs no
// daemon, except to find the prefix of a run that is given by name or identity.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/halt_time.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/run_prefix.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/halt/halt.h"

namespace cairn::cli {
namespace {

constexpr const char* kHaltedByUser = "JOB_HALTED";  // what "now" writes, unless another reason is given
constexpr std::uint64_t kSecondsShownMax = 1ull << 40;

// When the allocation ends that this shell is in, if it is in one that tells.
std::optional<std::int64_t> AllocationEnd() {
  for (const char* const name : {"CAIRN_END_TIME", "SCR_END_TIME", "SLURM_JOB_END_TIME"}) {
    const char* const text = std::getenv(name);
    std::int64_t seconds = 0;
    if (text == nullptr) continue;
    const char* const text_end = text + std::strlen(text);
    const auto [end, error] = std::from_chars(text, text_end, seconds);
    if (error == std::errc() && end == text_end && seconds > 0) return seconds;
  }
  return std::nullopt;
}

std::string SecondsText(std::uint64_t seconds) {
  return Duration(std::min(seconds, kSecondsShownMax) * 1000);
}

// One row for each condition: what it means, and what stands in the file.
std::vector<std::vector<std::string>> Conditions(const scr::Halt& halt, std::optional<std::int64_t> end_s) {
  std::vector<std::vector<std::string>> rows;
  const bool others = halt.checkpoints_left || halt.exit_before_s || halt.exit_after_s || halt.halt_seconds;
  if (halt.reason == scr::kFinalizeCalled) {
    rows.push_back({others ? "this stops nothing: the last launch came to its own end"
                           : "none: the last launch came to its own end",
                    "ExitReason " + halt.reason});
  } else if (!halt.reason.empty()) {
    rows.push_back({"stop now, as soon as the application asks", "ExitReason " + Clean(halt.reason)});
  }
  if (halt.checkpoints_left) {
    rows.push_back({*halt.checkpoints_left == 0
                        ? "stop now: no more checkpoints"
                        : "stop after " + (*halt.checkpoints_left == 1 ? "the next checkpoint"
                                                                       : Count(*halt.checkpoints_left, "checkpoint")),
                    fmt::format("CheckpointsLeft {}", *halt.checkpoints_left)});
  }
  if (halt.exit_before_s) {
    const std::string earlier = halt.halt_seconds.value_or(0) > 0 ? SecondsText(*halt.halt_seconds) + " " : "";
    rows.push_back({fmt::format("stop {}before {}", earlier, FormatHaltTime(*halt.exit_before_s)),
                    fmt::format("ExitBefore {}", *halt.exit_before_s)});
  }
  if (halt.exit_after_s) {
    rows.push_back(
        {"stop at or after " + FormatHaltTime(*halt.exit_after_s), fmt::format("ExitAfter {}", *halt.exit_after_s)});
  }
  if (halt.halt_seconds) {
    rows.push_back({fmt::format("stop when {} of the allocation are left ({})", SecondsText(*halt.halt_seconds),
                                end_s ? "it ends " + FormatHaltTime(*end_s) : "this shell does not know its end"),
                    fmt::format("HaltSeconds {}", *halt.halt_seconds)});
  }
  return rows;
}

std::string Describe(const std::string& prefix, const scr::Halt& halt, const std::optional<std::string>& why,
                     std::optional<std::int64_t> end_s) {
  const auto rows = Conditions(halt, end_s);
  std::string text = fmt::format("{}: {}\n", Clean(prefix), why ? "stops now: " + Clean(*why) : "goes on");
  if (rows.empty()) return text + "  no conditions\n";
  std::vector<std::vector<std::string>> cells = {{"  CONDITION", "IN halt.scr"}};
  for (const auto& row : rows) cells.push_back({"  " + row[0], row[1]});
  text += Table(cells, {false, false});
  return why ? text + "The next launch stops, too, unless you take this back: see cairn halt --help.\n" : text;
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json HaltJson(const std::string& prefix, const scr::Halt& halt, const std::optional<std::string>& why) {
  return {{"prefix", prefix},
          {"stops_now", why.has_value()},
          {"why", OrNull(why)},
          {"reason", halt.reason.empty() ? Json(nullptr) : Json(halt.reason)},
          {"checkpoints_left", OrNull(halt.checkpoints_left)},
          {"exit_before_s", OrNull(halt.exit_before_s)},
          {"exit_after_s", OrNull(halt.exit_after_s)},
          {"halt_seconds", OrNull(halt.halt_seconds)}};
}

struct HaltOptions {
  std::string run;
  HaltChange change;
};

// Changes what is to be changed, and shows what holds then.
ExitCode RunHalt(const Context& context, const HaltOptions& options) {
  const auto prefix = FindPrefix(context, options.run);
  if (!prefix.ok()) return Complain(prefix.status());
  const auto disk = MakePosixDisk();
  if (const absl::Status is_prefix = CheckIsPrefix(*disk, *prefix); !is_prefix.ok()) return ComplainOfFile(is_prefix);
  const auto halt = ApplyHaltChange(*disk, *prefix, options.change);
  if (!halt.ok()) return ComplainOfFile(halt.status());
  const std::optional<std::int64_t> end_s = AllocationEnd();
  const std::optional<std::string> why = WhyHalt(*halt, std::time(nullptr), end_s);
  Print(context.json ? Dump(HaltJson(*prefix, *halt, why)) : Describe(*prefix, *halt, why, end_s));
  return ExitCode::kOk;
}

// --- options ---

constexpr const char* kHaltFooter =
    "Without options the run is to stop now: the command writes ExitReason JOB_HALTED to .scr/halt.scr. Cairn finds\n"
    "it there (cairn_should_exit), and so does SCR (SCR_Should_exit, and after each checkpoint). To stop after the\n"
    "next checkpoint, -c 1 writes CheckpointsLeft 1; each checkpoint that succeeds lowers the number, and at 0 the\n"
    "run is to stop. The application has to ask, or it does not stop. Conditions stay until you unset or remove\n"
    "them, for the next launch, too. If there are several, the first that holds stops the run.\n"
    "\n"
    "TIME is YYYY-MM-DDTHH:MM:SS in local time, or from now on: +2h, +90min. SECONDS may be like 15min.\n"
    "\n"
    "Examples:\n"
    "  cairn halt /scratch/me/heat                  stop now\n"
    "  cairn halt /scratch/me/heat -c 1             stop after the next checkpoint\n"
    "  cairn halt /scratch/me/heat -c 5 -b +2h      after five, or within two hours\n"
    "  cairn halt /scratch/me/heat --list           what is set, and whether the run is to stop\n"
    "  cairn halt /scratch/me/heat --unset-reason   not now, after all\n"
    "  cairn halt /scratch/me/heat --remove         no conditions any more\n"
    "\n"
    "Exit codes: 0 done; 1 failed, or the file stayed locked; 2 the command is wrong; 4 no such run; 5 the halt\n"
    "file is damaged (a change writes it anew).";

struct HaltTexts {
  bool now = false, list = false;
  std::string reason, before, after, seconds;
  std::uint32_t checkpoints = 0;
};

std::string CheckTime(const std::string& text) {
  return CheckBy([](const std::string& t) { return ParseHaltTime(t, std::time(nullptr)); })(text);
}

void AddConditions(Command halt, HaltTexts& texts) {
  halt.AddFlag("-i,--now", texts.now, "Stop now (the same as no options)");
  halt.AddOption("--reason", texts.reason, "Stop now, for this reason (default JOB_HALTED)")
      .Check([](const std::string& text) { return std::string(MessageOf(CheckHaltReason(text))); });
  halt.AddOption("-c,--checkpoints", texts.checkpoints, "Stop after N more checkpoints; 1: after the next one")
      .AtLeast(1)
      .ValueName("N");
  halt.AddOption("-b,--before", texts.before, "Stop before this time; with -s, so much earlier")
      .Check(CheckTime)
      .ValueName("TIME");
  halt.AddOption("-a,--after", texts.after, "Stop at the first chance from this time on")
      .Check(CheckTime)
      .ValueName("TIME");
  halt.AddOption("-s,--seconds", texts.seconds, "Stop when only so much of the allocation is left")
      .Check(CheckBy([](const std::string& text) { return ParseHaltSeconds(text); }))
      .ValueName("SECONDS");
}

void AddUnsetting(Command halt, HaltTexts& texts, HaltChange& change) {
  halt.AddFlag("--unset-reason", change.unset_reason, "Take --now, or --reason back");
  halt.AddFlag("--unset-checkpoints", change.unset_checkpoints, "Take --checkpoints back");
  halt.AddFlag("--unset-before", change.unset_before, "Take --before back");
  halt.AddFlag("--unset-after", change.unset_after, "Take --after back");
  halt.AddFlag("--unset-seconds", change.unset_seconds, "Take --seconds back");
  halt.AddFlag("-r,--remove", change.remove, "Remove the halt file, and so all conditions");
  halt.AddFlag("-l,--list", texts.list, "Only show what is set, and whether the run is to stop now");
}

// Takes the texts over, which were checked when they were parsed.
void Fill(const HaltTexts& texts, HaltChange& change) {
  const std::int64_t now_s = std::time(nullptr);
  if (texts.checkpoints > 0) change.checkpoints = texts.checkpoints;
  if (!texts.before.empty()) change.before_s = *ParseHaltTime(texts.before, now_s);
  if (!texts.after.empty()) change.after_s = *ParseHaltTime(texts.after, now_s);
  if (!texts.seconds.empty()) change.seconds = *ParseHaltSeconds(texts.seconds);
  const bool now = texts.now || (!texts.list && !change.changes());
  if (now || !texts.reason.empty()) change.reason = texts.reason.empty() ? kHaltedByUser : texts.reason;
}

// What says two things at once.
void CheckHalt(const HaltTexts& texts, const HaltChange& change) {
  const auto refuse = [](const char* what, const char* why) { RefuseValue(what, why); };
  const bool later = change.checkpoints || change.before_s || change.after_s || change.seconds;
  if (texts.list && change.changes()) refuse("--list", "changes nothing: give it alone");
  HaltChange rest = change;
  rest.remove = false;
  if (change.remove && rest.changes()) refuse("--remove", "leaves no conditions: give it alone");
  if (change.reason && later) refuse("--now", "stops the run now: give no condition for later with it");
  if (change.reason && change.unset_reason) refuse("--unset-reason", "and --now exclude each other");
  if ((change.checkpoints && change.unset_checkpoints) || (change.before_s && change.unset_before) ||
      (change.after_s && change.unset_after) || (change.seconds && change.unset_seconds)) {
    refuse("--unset-...", "excludes setting the same");
  }
}

}  // namespace

void AddHaltCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<HaltOptions>();
  const auto texts = std::make_shared<HaltTexts>();
  const Command halt = app.AddCommand("halt", "Tell a run to stop: now, after checkpoints, by a time; needs no daemon");
  halt.Footer(kHaltFooter);
  halt.AddOption("RUN", options->run, kRunText).Required();
  AddConditions(halt, *texts);
  AddUnsetting(halt, *texts, options->change);
  halt.OnParsed([&line, options, texts] {
    Fill(*texts, options->change);
    CheckHalt(*texts, options->change);
    line.run = [&line, options] { return RunHalt(line.context, *options); };
  });
}

}  // namespace cairn::cli
