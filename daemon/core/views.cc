#include "daemon/core/views.h"

#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kViewsAtOnce = 4;     // one job of the prefix' pool, which others wait for
constexpr std::uint32_t kViewJobsMax = 16;  // the newest are wanted most; the next start goes on

}  // namespace

void Views::MakeMissing() {
  if (!context_.config.prefix.views || !gate_.writable() || std::exchange(looked_, true)) return;
  MakeBelow(~DatasetId{0}, kViewJobsMax);
}

void Views::MakeBelow(DatasetId below, std::uint32_t jobs) {
  if (context_.quiescing() || gate_.replaced() || jobs == 0) return;
  context_.OnPrefix(
      gate_.path(), [prefix = gate_.prefix(), below] { return prefix->MakeMissingViews(below, kViewsAtOnce); },
      [this, jobs](const absl::StatusOr<DatasetId>& next) {
        TellWarnings();
        if (!next.ok()) {
          return context_.Warn(fmt::format("run {}: {}", run_name_, MessageOf(next.status())));
        }
        if (*next != 0) MakeBelow(*next, jobs - 1);
      });
}

void Views::TellWarnings() {
  if (!gate_.prefix()) return;
  for (const std::string& warning : gate_.prefix()->TakeWarnings()) {
    context_.Warn(fmt::format("run {}: {}", run_name_, warning));
  }
}

}  // namespace cairn
