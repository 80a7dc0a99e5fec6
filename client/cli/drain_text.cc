#include "client/cli/drain_text.h"

#include <fmt/format.h>

#include <string_view>

#include "client/cli/text.h"

namespace cairn::cli {
namespace {

Paint PaintOf(std::string_view state) {
  if (state == "failed" || state == "ended") return Paint::kBad;
  return state == "idle" ? Paint::kGood : Paint::kBusy;
}

// Names of files and reasons, both of any bytes.
std::string WhichAndWhy(const std::string& which, const std::string& why) {
  return which.empty() ? Clean(why) : fmt::format("{}: {}", Clean(which), Clean(why));
}

std::string DescribePass(const Look& look, const admin::DrainPass& pass) {
  if (pass.files_all() == 0) return ", since " + LocalTime(pass.began_us());
  const DrainPace pace{.files = pass.files(),
                       .files_all = pass.files_all(),
                       .bytes = pass.bytes(),
                       .bytes_all = pass.bytes_all(),
                       .bytes_per_s = pass.bytes_per_s(),
                       .left_ms = pass.left_ms()};
  if (!look.people) return ", " + DescribePace(pace);
  const std::string bar = BarPicture(look, pass.bytes(), pass.bytes_all(), kProgressBarWidth);
  return fmt::format(" {} {}", Painted(look, Paint::kBusy, bar), DescribePace(pace));
}

std::string DescribeTrouble(const Look& look, const admin::DrainStatus& drain) {
  if (drain.trouble().empty()) return "";
  const std::string since = LocalTime(drain.trouble_since_us());
  const bool failed = drain.state() == "failed";
  if (!failed && drain.state() != "ended") return fmt::format("  since {}: {}\n", since, Clean(drain.trouble()));
  return Painted(look, Paint::kBad,
                 fmt::format("  since {}: {}{}", since, Clean(drain.trouble()), failed ? "; it is tried again" : "")) +
         "\n";
}

}  // namespace

std::string DescribePace(const DrainPace& pace) {
  std::string text = fmt::format("{} of {} files, {} of {}, {}/s", pace.files, pace.files_all, Bytes(pace.bytes),
                                 Bytes(pace.bytes_all), Bytes(pace.bytes_per_s));
  if (pace.left_ms > 0) text += fmt::format(", {} left", Duration(pace.left_ms));
  return text;
}

std::string DescribeDrain(const Look& look, const admin::DrainStatus& drain) {
  std::string text = fmt::format("{} {} to {}: {}", Painted(look, Paint::kHead, "drain"), Clean(drain.from()),
                                 Clean(drain.to()), Painted(look, PaintOf(drain.state()), Clean(drain.state())));
  if (drain.has_pass()) text += DescribePass(look, drain.pass());
  text += fmt::format("\n  brought {}, {}", Count(drain.files(), "file"), Bytes(drain.bytes()));
  if (drain.deleted() > 0) text += fmt::format(", {} deleted from the source", drain.deleted());
  text +=
      fmt::format("; still to come: {}, {}; the last pass ended: {}\n", Count(drain.files_left(), "file"),
                  Bytes(drain.bytes_left()), drain.passed_us() == 0 ? "none has yet" : LocalTime(drain.passed_us()));
  if (drain.waiting() > 0) {
    text +=
        fmt::format("  {} waiting, first {}\n", drain.waiting(), WhichAndWhy(drain.waits_first(), drain.waits_why()));
  }
  if (drain.failed() > 0) {
    const std::string line =
        fmt::format("  {} FAILED, last {}", drain.failed(), WhichAndWhy(drain.failed_last(), drain.failed_why()));
    text += Painted(look, Paint::kBad, line) + "\n";
  }
  if (drain.left_out() > 0) text += fmt::format("  {} left out: no files, folders or links\n", drain.left_out());
  return text + DescribeTrouble(look, drain);
}

}  // namespace cairn::cli
