// The BP5 views of what is on the prefix. They are made with the commit; here those that a crash, a full disk or an
// older release has left out.
#include "daemon/core/core_impl.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kViewsAtOnce = 4;     // one job of the prefix' pool, which others wait for
constexpr std::uint32_t kViewJobsMax = 16;  // the newest are wanted most; the next start goes on

}  // namespace

// Once for each run, in the background.
void CoreImpl::MakeMissingViews(const RunPtr& run) {
  if (!config_.prefix.views || !run->prefix || run->prefix_read_only || std::exchange(run->views_looked_at, true)) {
    return;
  }
  MakeViewsBelow(run, ~DatasetId{0}, kViewJobsMax);
}

void CoreImpl::MakeViewsBelow(const RunPtr& run, DatasetId below, std::uint32_t jobs) {
  if (quiescing_ || run->replaced || jobs == 0) return;
  BlockingPrefix([prefix = run->prefix, below] { return prefix->MakeMissingViews(below, kViewsAtOnce); },
                 [this, run, jobs](const absl::StatusOr<DatasetId>& next) {
                   TellOfPrefix(run);
                   if (!next.ok()) return Warn(fmt::format("run {}: {}", run->name, MessageOf(next.status())));
                   if (*next != 0) MakeViewsBelow(run, *next, jobs - 1);
                 });
}

// What was found out there by the way.
void CoreImpl::TellOfPrefix(const RunPtr& run) {
  if (!run->prefix) return;
  for (const std::string& warning : run->prefix->TakeWarnings()) Warn(fmt::format("run {}: {}", run->name, warning));
}

}  // namespace cairn
