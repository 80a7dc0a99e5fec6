#include "client/cli/halt_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "client/cli/file_argument.h"
#include "client/cli/halt_time.h"
#include "client/cli/json.h"
#include "client/cli/run_prefix.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/halt_file.h"

namespace cairn::cli {
namespace {

// A run holds the lock for as long as it takes to write a small file.
constexpr std::chrono::seconds kLockPatience{5};
constexpr std::size_t kReasonBytesMax = 1023;  // SCR specification, section 1.4
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

void Change(const HaltOptions& options, scr::Halt& halt) {
  if (options.unset_reason) halt.reason.clear();
  if (options.unset_checkpoints) halt.checkpoints_left.reset();
  if (options.unset_seconds) halt.halt_seconds.reset();
  if (options.unset_before) halt.exit_before_s.reset();
  if (options.unset_after) halt.exit_after_s.reset();
  if (options.reason) halt.reason = *options.reason;
  if (options.checkpoints) halt.checkpoints_left = options.checkpoints;
  if (options.seconds) halt.halt_seconds = options.seconds;
  if (options.before_s) halt.exit_before_s = options.before_s;
  if (options.after_s) halt.exit_after_s = options.after_s;
}

absl::StatusOr<scr::Halt> ChangeAndRead(Disk& disk, const std::string& prefix, const HaltOptions& options) {
  CAIRN_RETURN_IF_ERROR(CheckIsPrefix(disk, prefix));
  if (options.remove) {
    CAIRN_RETURN_IF_ERROR(RemoveHalt(disk, prefix, kLockPatience));
  } else if (options.changes()) {
    CAIRN_RETURN_IF_ERROR(ChangeHalt(
        disk, prefix, [&options](scr::Halt& halt) { Change(options, halt); }, kLockPatience));
  }
  return ReadHalt(disk, prefix);
}

std::string SecondsText(std::uint64_t seconds) {
  return Duration(std::min(seconds, kSecondsShownMax) * 1000);
}

// One row for each condition: what it means, and what stands in the file.
std::vector<std::vector<std::string>> Conditions(const scr::Halt& halt, std::optional<std::int64_t> end_s) {
  std::vector<std::vector<std::string>> rows;
  const bool others = halt.checkpoints_left || halt.exit_before_s || halt.exit_after_s || halt.halt_seconds;
  if (halt.reason == scr::kFinalizeCalled) {
    rows.push_back({others ? "of itself nothing: the last launch came to its own end"
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
  return why ? text + "The next launch stops, too, until that is taken back: see cairn halt --help.\n" : text;
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json ToJson(const std::string& prefix, const scr::Halt& halt, const std::optional<std::string>& why) {
  return {{"prefix", prefix},
          {"stops_now", why.has_value()},
          {"why", OrNull(why)},
          {"reason", halt.reason.empty() ? Json(nullptr) : Json(halt.reason)},
          {"checkpoints_left", OrNull(halt.checkpoints_left)},
          {"exit_before_s", OrNull(halt.exit_before_s)},
          {"exit_after_s", OrNull(halt.exit_after_s)},
          {"halt_seconds", OrNull(halt.halt_seconds)}};
}

}  // namespace

absl::Status CheckHaltReason(const std::string& reason) {
  if (reason.empty()) return InvalidArgument("an empty reason stops nothing: see --unset-reason");
  if (reason == scr::kFinalizeCalled) {
    return InvalidArgument("{} is what every clean end writes: it stops nothing", reason);
  }
  if (reason.size() > kReasonBytesMax) {
    return InvalidArgument("{} bytes are too many: SCR reads {}", reason.size(), kReasonBytesMax);
  }
  if (Clean(reason) != reason) return InvalidArgument("control characters in the reason");
  return absl::OkStatus();
}

ExitCode RunHalt(const Context& context, const HaltOptions& options) {
  const auto prefix = FindPrefix(context, options.run);
  if (!prefix.ok()) return Complain(prefix.status());
  const auto disk = MakePosixDisk();
  const auto halt = ChangeAndRead(*disk, *prefix, options);
  if (!halt.ok()) return ComplainOfFile(halt.status());
  const std::optional<std::int64_t> end_s = AllocationEnd();
  const std::optional<std::string> why = WhyHalt(*halt, std::time(nullptr), end_s);
  Print(context.json ? Dump(ToJson(*prefix, *halt, why)) : Describe(*prefix, *halt, why, end_s));
  return ExitCode::kOk;
}

}  // namespace cairn::cli
