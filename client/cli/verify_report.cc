#include "client/cli/verify_report.h"

#include <fmt/format.h>

#include <utility>

#include "client/cli/context.h"
#include "client/cli/file_argument.h"
#include "client/cli/known_file.h"
#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {

void VerifyReport::Add(const std::string& target, std::string_view what, const absl::Status& status) {
  Add(target, what, status, {});
}

void VerifyReport::Add(const std::string& target, std::string_view what, const absl::Status& status,
                       const Details& details) {
  code_ = Worse(code_, FileCodeOf(status));
  const std::string_view error = WithoutName(MessageOf(status), target);
  if (json_) {
    Json row = {{"target", target}, {"what", what}, {"ok", status.ok()}, {"error", error}};
    if (!details.verdict.empty()) row["verdict"] = details.verdict;
    row.update(details.json);
    rows_.push_back(std::move(row));
    return;
  }
  const std::string_view verdict = !details.verdict.empty()   ? details.verdict
                                   : status.ok()              ? "ok"
                                   : absl::IsDataLoss(status) ? "DAMAGED"
                                                              : "FAILED";
  std::string text = fmt::format("{:<8} {}: {}\n", verdict, Clean(target), Clean(status.ok() ? what : error));
  for (const std::string& line : details.lines) text += fmt::format("           {}\n", Clean(line));
  Print(text);
}

ExitCode VerifyReport::Finish() {
  if (json_) Print(Dump({{"ok", code_ == ExitCode::kOk}, {"targets", std::move(rows_)}}));
  return code_;
}

}  // namespace cairn::cli
