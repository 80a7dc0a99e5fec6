#include "daemon/drain/folder_state.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::int64_t kUs = 1'000;  // in ns

std::int64_t SinceNs(std::int64_t then_ns) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyNow().time_since_epoch()).count();
  return std::max<std::int64_t>(now - then_ns, 1);
}

// `began_ns`: of the pass, as it was a moment ago.
void DescribePass(const DrainProgress& progress, std::int64_t began_ns, admin::DrainPass& pass) {
  pass.set_began_us(NowMicros() - SinceNs(began_ns) / kUs);
  const std::int64_t bringing_ns = progress.bringing_ns;
  if (bringing_ns == 0) return;
  // Each is of a moment of its own; and what is copied a second time counts twice.
  const std::uint64_t files_all = progress.files_all, bytes_all = progress.bytes_all;
  const std::uint64_t bytes = std::min<std::uint64_t>(progress.bytes, bytes_all);
  pass.set_files(std::min<std::uint64_t>(progress.files, files_all));
  pass.set_files_all(files_all);
  pass.set_bytes(bytes);
  pass.set_bytes_all(bytes_all);
  const double per_s = static_cast<double>(bytes) * 1e9 / static_cast<double>(SinceNs(bringing_ns));
  pass.set_bytes_per_s(static_cast<std::uint64_t>(per_s));
  if (pass.bytes_per_s() == 0 || bytes == bytes_all) return;
  const double left_ms = static_cast<double>(bytes_all - bytes) * 1e3 / per_s;
  pass.set_left_ms(static_cast<std::uint64_t>(std::clamp(left_ms, 1.0, 1e18)));
}

}  // namespace

void FolderState::Passed(const DrainReport& report) {
  drain::Told waits, failed_last;
  if (report.waiting.count() > 0) waits = report.waiting.list().front();
  for (const drain::ToldList* const list : {&report.failed, &report.damaged}) {
    if (list->count() > 0) failed_last = list->list().back();
  }
  const std::int64_t now_us = NowMicros();
  const absl::MutexLock lock(&mutex_);
  passed_us_ = now_us;
  waiting_ = report.waiting.count();
  failed_ = report.failed.count() + report.damaged.count();
  left_out_ = report.left_out.count();
  waits_ = std::move(waits);
  failed_last_ = std::move(failed_last);
}

void FolderState::Trouble(const absl::Status& status) {
  const std::int64_t now_us = NowMicros();
  const absl::MutexLock lock(&mutex_);
  trouble_ = status;
  trouble_since_us_ = status.ok() ? 0 : now_us;
}

void FolderState::Ended(const absl::Status& status) {
  if (status.ok()) return;  // as it was told
  Trouble(status);
  const absl::MutexLock lock(&mutex_);
  broken_ = true;
}

std::string FolderState::StateNow() const {
  if (broken_) return "ended";
  if (ending_) return "ending";
  if (!progress_.open) return trouble_.ok() ? "starting" : "failed";
  if (progress_.began_ns != 0) return progress_.bringing_ns != 0 ? "bringing" : "looking";
  if (progress_.left_files == 0) return "idle";
  return progress_.settling ? "settling" : "waiting";
}

void FolderState::Describe(admin::DrainStatus& status) const {
  status.set_files(progress_.brought_files);
  status.set_bytes(progress_.brought_bytes);
  status.set_deleted(progress_.deleted);
  status.set_files_left(progress_.left_files);
  status.set_bytes_left(progress_.left_bytes);
  if (const std::int64_t began_ns = progress_.began_ns; began_ns != 0) {
    DescribePass(progress_, began_ns, *status.mutable_pass());
  }
  const absl::MutexLock lock(&mutex_);
  status.set_state(StateNow());
  status.set_passed_us(passed_us_);
  status.set_waiting(waiting_);
  status.set_waits_first(waits_.path);
  status.set_waits_why(waits_.why);
  status.set_failed(failed_);
  status.set_failed_last(failed_last_.path);
  status.set_failed_why(failed_last_.why);
  status.set_left_out(left_out_);
  status.set_trouble(std::string(MessageOf(trouble_)));
  status.set_trouble_since_us(trouble_since_us_);
}

}  // namespace cairn
