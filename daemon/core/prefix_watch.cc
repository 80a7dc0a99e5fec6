#include "daemon/core/prefix_watch.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/config/units.h"
#include "storage/base/size_text.h"
#include "storage/base/status.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {
namespace {

constexpr std::int64_t kMinuteUs = 60'000'000;

}  // namespace

PrefixWatch::PrefixWatch(const Context& context, const Given& given, Reports reports)
    : context_(context), given_(given), reports_(std::move(reports)) {
  since_us_ = noted_us_ = given_.cache->record().lost_since_us;
}

void PrefixWatch::Start() {
  const Datasets& datasets = given_.ledger.InPlay();
  const bool any =
      std::any_of(datasets.begin(), datasets.end(), [](const auto& item) { return item.second->in_cache(); });
  if (any) Look();
}

void PrefixWatch::Look() {
  if (std::exchange(looking_, true)) return;
  context_.OnPrefix(
      given_.gate.path(),
      [&disk = context_.env.prefix_disk, path = given_.gate.path()] { return Prefix::RunAt(disk, path); },
      [this](const absl::StatusOr<RunId>& there) {
        looking_ = false;
        Looked(there);
      });
}

void PrefixWatch::Looked(const absl::StatusOr<RunId>& there) {
  if (there.ok() && *there == given_.run) return Found();
  if (there.ok()) given_.gate.Replaced(*there);
  if (there.ok() || absl::IsNotFound(there.status())) return Lost();
  if (std::exchange(lost_, false)) reports_.on_found();  // nobody knows: what is to go there tries
}

void PrefixWatch::Found() {
  since_us_ = 0;
  looks_ = 0;
  warned_ = warned_of_end_ = false;
  Note();
  if (std::exchange(lost_, false)) reports_.on_found();
}

void PrefixWatch::Lost() {
  ClockWasSet();
  looked_us_ = context_.now_us();
  looked_ = context_.now();
  if (since_us_ == 0) since_us_ = looked_us_;
  const bool news = !std::exchange(lost_, true);
  ++looks_;
  Note();
  Warn();
  LookLater();
  if (news) reports_.on_lost();
}

// A clock that was set forward ends nobody's time.
void PrefixWatch::ClockWasSet() {
  const std::int64_t now_us = context_.now_us();
  if (since_us_ > now_us) since_us_ = now_us;
  if (!lost_) return;
  const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(context_.now() - looked_);
  const std::int64_t ahead = now_us - looked_us_ - passed.count();
  if (ahead > kMinuteUs) since_us_ = std::min(since_us_ + ahead, now_us);
}

std::int64_t PrefixWatch::kept_until_us() const {
  const auto grace_us = static_cast<std::int64_t>(context_.config.cache.grace_ms * 1000);
  return lost_ && grace_us != 0 ? since_us_ + grace_us : 0;
}

bool PrefixWatch::MayForget() const {
  if (kept_until_us() == 0 || !given_.ledger.over() || given_.gate.HungSince()) return false;
  // By the time of the last look: until the next one the clock may have been set.
  const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(context_.now() - looked_);
  return looked_us_ + passed.count() >= kept_until_us();
}

std::uint64_t PrefixWatch::OnlyCached(std::uint64_t* bytes) const {
  std::uint64_t count = 0;
  for (const auto& [id, dataset] : given_.ledger.InPlay()) {
    if (!dataset->in_cache() || dataset->in_prefix()) continue;
    ++count;
    *bytes += dataset->bytes();
  }
  return count;
}

// Once when it is found out, once when the time is over; after each start of the daemon again.
void PrefixWatch::Warn() {
  const bool end = MayForget();
  if (std::exchange(warned_, true) && (!end || warned_of_end_)) return;
  warned_of_end_ = end;
  std::uint64_t bytes = 0;
  const std::uint64_t count = OnlyCached(&bytes);
  if (count == 0) return;
  std::string what = "they stay (cache.grace is 0)";
  if (end) {
    what = "from now on they leave it, oldest first, when others need the room";
  } else if (kept_until_us() != 0) {
    const std::int64_t left_us = std::max<std::int64_t>(kept_until_us() - context_.now_us(), 0);
    what = fmt::format("in {} they begin to leave it, oldest first, when others need the room (cache.grace)",
                       FormatDuration(static_cast<std::uint64_t>(left_us / kMinuteUs * 60'000)));
  }
  context_.Warn(fmt::format("run {}: it is not at {} any more; {} datasets, {}, are in the cache only: {}",
                            given_.run_name, given_.gate.path(), count, SizeText(bytes), what));
}

void PrefixWatch::LookLater() {
  if (context_.quiescing() || std::exchange(waiting_, true)) return;
  const Config::Flush& flush = context_.config.flush;
  const std::uint64_t pause_ms = std::min(flush.retry_ms_min << std::min(looks_ - 1, 20u), flush.retry_ms_max);
  context_.loop().After(std::chrono::milliseconds(pause_ms), [this] {
    waiting_ = false;
    if (lost_ && !context_.quiescing()) Look();
  });
}

// One change at a time, so that the last one is the last on the disk.
void PrefixWatch::Note() {
  if (noted_us_ == since_us_ || std::exchange(noting_, true)) return;
  context_.OnCache(
      [cache = given_.cache, since_us = since_us_] {
        return cache->ChangeRecord([since_us](RunRecord& record) { record.lost_since_us = since_us; });
      },
      [this, since_us = since_us_](const absl::Status& stored) {
        noting_ = false;
        if (!stored.ok()) return spdlog::warn("run {}: {}", given_.run_name, MessageOf(stored));  // the next look
        noted_us_ = since_us;
        Note();
      });
}

}  // namespace cairn
