#include "daemon/core/context.h"

#include <spdlog/spdlog.h>

#include <chrono>

namespace cairn {

void Warnings::Add(std::string text) {
  spdlog::warn("{}", text);
  all_.push_back(std::move(text));
  if (all_.size() > kMax) all_.pop_front();
}

void Transfers::Begun() {
  ++under_way_;
  ++begun_;
  if (give_way_) give_way_();
  background_->UrgentBegan();
}

void Transfers::Ended() {
  background_->UrgentEnded();
  if (--under_way_ == 0 && when_none_) std::exchange(when_none_, nullptr)();
}

void Transfers::WhenNone(std::function<void()> done) {
  if (under_way_ == 0) return done();
  when_none_ = std::move(done);
}

std::int64_t Context::now_us() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(env.clocks.wall().time_since_epoch()).count();
}

}  // namespace cairn
