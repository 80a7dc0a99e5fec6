#include "daemon/core/announced.h"

#include <absl/status/status.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "storage/base/status.h"
#include "storage/place/prefix/ingest_record.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {
namespace {

constexpr std::uint32_t kDoublingsMax = 20;
constexpr std::uint32_t kTriesWithoutPlace = 14;  // with the usual pauses, half an hour

}  // namespace

void Announced::Update() {
  if (!context_.announcement || context_.announcement == told_) return;
  const std::string& text = *context_.announcement;
  if ((text.empty() && !reached_) || telling_ || timer_ != 0 || context_.quiescing()) return;
  if (gate_.replaced() || gate_.read_only()) return;  // nobody serves launches there
  telling_ = true;
  auto tell = [visit = gate_.MakeVisitor(), disk = &context_.env.prefix_disk, node = context_.cache_id, text] {
    return visit([&](Prefix& prefix) -> absl::Status { return ingest_record::Tell(*disk, prefix.path(), node, text); });
  };
  context_.OnPrefix(gate_.path(), std::move(tell), [this, text](const PrefixGate::Visited& visited) {
    gate_.VisitEnded(visited);  // reports that the prefix is reached: what is being told is not told once more
    telling_ = false;
    Told(text, visited.status);
  });
}

void Announced::Reached() {
  reached_ = true;
  if (timer_ != 0) context_.loop().Cancel(std::exchange(timer_, 0));
  Update();
}

void Announced::Told(const std::string& text, const absl::Status& status) {
  if (status.ok()) {
    told_ = text;
    failed_ = 0;
    why_not_.clear();
    return Update();
  }
  if (text.empty()) {  // it leads clients nowhere, as they find; the next life tries again
    told_ = text;
    return context_.Warn(fmt::format("run {}: clients on other hosts are still told of this node's last daemon: {}",
                                     run_name_, MessageOf(status)));
  }
  std::string why_not(MessageOf(status));
  if (why_not != why_not_) {
    context_.Warn(
        fmt::format("run {}: clients on other hosts are not told where this daemon is: {}", run_name_, why_not));
  }
  why_not_ = std::move(why_not);
  const Config::Flush& flush = context_.config.flush;
  const std::uint64_t pause_ms = std::min(flush.retry_ms_min << std::min(failed_, kDoublingsMax), flush.retry_ms_max);
  ++failed_;
  // A prefix that is gone, or that we may not write: in the end the run's next change is the time to try again.
  const bool no_place = absl::IsNotFound(status) || absl::IsPermissionDenied(status);
  if (no_place && failed_ >= kTriesWithoutPlace) return;
  timer_ = context_.loop().After(std::chrono::milliseconds(pause_ms), [this] {
    timer_ = 0;
    Update();
  });
}

}  // namespace cairn
