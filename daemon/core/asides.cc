#include "daemon/core/asides.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::chrono::milliseconds kAfterFailure{600'000};
constexpr std::chrono::milliseconds kLookMin{1000}, kLookMax{3'600'000};  // someone may remove it by hand

}  // namespace

Asides::Asides(const Context& context, std::string run_name, std::shared_ptr<CacheFolder> cache, const Ledger& ledger,
               DatasetFolders& folders)
    : context_(context), run_name_(std::move(run_name)), cache_(std::move(cache)), ledger_(ledger), folders_(folders) {}

void Asides::Are(std::vector<Aside> asides) {
  all_ = std::move(asides);
  ApplyPolicy();
}

void Asides::Look() {
  stale_ = true;
  if (looking_ || !going_.empty()) return;  // what is going has a name of its own by now
  looking_ = true;
  stale_ = false;
  context_.OnCache([cache = cache_] { return cache->FindAsides(); },
                   [this, removals = removals_](const absl::StatusOr<std::vector<Aside>>& found) {
                     looking_ = false;
                     Found(found, removals);
                     if (stale_) Look();
                   });
}

void Asides::Found(const absl::StatusOr<std::vector<Aside>>& found, std::uint64_t removals) {
  if (removals != removals_) {
    stale_ = true;
  } else if (found.ok()) {
    Are(*found);
  } else if (!std::exchange(warned_, true)) {
    context_.Warn(
        fmt::format("run {}: what lies aside in the cache is not known: {}", run_name_, MessageOf(found.status())));
  }
}

std::uint64_t Asides::bytes() const {
  std::uint64_t sum = 0;
  for (const Aside& one : all_) {
    if (!IsStillRead(one)) sum += one.bytes;
  }
  return sum;
}

// A restore has found it damaged, and goes on with the ranks that are sound.
bool Asides::IsStillRead(const Aside& aside) const {
  const DatasetPtr dataset = aside.kind == Aside::Kind::kInPlace ? ledger_.Get(aside.dataset) : nullptr;
  return dataset && dataset->in_cache();
}

// Nobody reads it there or makes it anew.
bool Asides::MayGo(const Aside& aside) const {
  if (aside.kind == Aside::Kind::kTaken) return false;
  if (aside.kind != Aside::Kind::kInPlace) return true;
  const DatasetPtr dataset = ledger_.Get(aside.dataset);
  if (!dataset) return true;
  return dataset->readers == 0 && (dataset->cache == Place::kDamaged || dataset->cache == Place::kAbsent);
}

std::int64_t Asides::goes_us() const {
  const auto keep_us = static_cast<std::int64_t>(context_.config.cache.keep_damaged_ms) * 1000;
  const auto oldest = std::ranges::find_if(all_, [](const Aside& one) { return one.kind != Aside::Kind::kTaken; });
  return keep_us == 0 || oldest == all_.end() ? 0 : oldest->since_us + keep_us;
}

std::vector<Aside> Asides::Removable() const {
  std::vector<Aside> removable;
  if (in_vain_ && context_.now() - tried_in_vain_ < kAfterFailure) return removable;
  std::ranges::copy_if(all_, std::back_inserter(removable), [this](const Aside& one) { return MayGo(one); });
  return removable;
}

void Asides::RemoveByHand(bool whole_ones_too, std::function<void(const absl::StatusOr<RemovedByHand>&)> then) {
  struct Asked {
    RemovedByHand removed;
    std::size_t left = 1;  // one for this call itself
    absl::Status status;
  };
  const auto asked = std::make_shared<Asked>();
  const auto ended = [asked, then = std::move(then)](const absl::Status& status) {
    asked->status.Update(status);
    if (--asked->left != 0) return;
    then(asked->status.ok() ? absl::StatusOr<RemovedByHand>(asked->removed) : asked->status);
  };
  for (const Aside& one : std::vector<Aside>(all_)) {
    const bool whole = one.kind == Aside::Kind::kTaken;
    if (whole && !whole_ones_too) continue;
    if (!whole && !MayGo(one)) {
      ++asked->removed.in_use;
      continue;
    }
    ++asked->removed.count;
    asked->removed.bytes += one.bytes;
    ++asked->left;
    Remove(one, "as somebody asked for", ended);
  }
  ended(absl::OkStatus());
}

void Asides::Remove(const Aside& aside, const std::string& why, std::function<void(const absl::Status&)> then) {
  const Aside removed = aside;  // it may be one of all_
  if (std::erase_if(all_, [&removed](const Aside& one) { return one.name == removed.name; }) == 0) {
    if (then) then(absl::OkStatus());
    return;
  }
  going_.push_back(removed.name);
  ++removals_;
  spdlog::info("run {}: {}/{}, which was set aside, is removed from the cache ({} bytes): {}", run_name_,
               cache_->path(), removed.name, removed.bytes, why);
  auto work = [cache = cache_, removed] { return cache->RemoveAside(removed); };
  auto ended = [this, removed, then = std::move(then)](const absl::Status& status) {
    Removed(removed, status);
    if (then) then(status);
  };
  if (removed.kind != Aside::Kind::kInPlace) return context_.OnCache(std::move(work), std::move(ended));
  // Who makes the dataset anew waits for it.
  auto status = std::make_shared<absl::Status>();
  folders_.Change(
      removed.dataset, [work, status] { return *status = work(); }, [ended, status] { ended(*status); });
}

void Asides::Removed(const Aside& aside, const absl::Status& status) {
  std::erase(going_, aside.name);
  in_vain_ = !status.ok();
  if (in_vain_) {
    tried_in_vain_ = context_.now();
    if (aside.kind != Aside::Kind::kInPlace && !std::exchange(warned_of_removal_, true)) {
      context_.Warn(
          fmt::format("run {}: {} could not be removed from the cache: {}", run_name_, aside.name, MessageOf(status)));
    }
  }
  if (in_vain_ || stale_) Look();
}

void Asides::ApplyPolicy() {
  const std::uint64_t keep_ms = context_.config.cache.keep_damaged_ms;
  Stop();
  if (context_.quiescing()) return;
  for (const Aside& one : Removable()) {
    const std::int64_t age_us = context_.now_us() - one.since_us;
    const bool is_old = keep_ms != 0 && age_us >= static_cast<std::int64_t>(keep_ms) * 1000;
    if (is_old || one.kind == Aside::Kind::kGoing) Remove(one, "cache.keep_damaged");
  }
  if (all_.empty()) return;
  const std::chrono::milliseconds left((goes_us() - context_.now_us()) / 1000 + 1);
  const auto due = goes_us() == 0 ? kLookMax : std::clamp<std::chrono::milliseconds>(left, kLookMin, kLookMax);
  timer_ = context_.loop().After(in_vain_ ? kAfterFailure : due, [this] {
    timer_ = 0;
    Look();
  });
}

void Asides::Stop() {
  if (timer_ != 0) context_.loop().Cancel(std::exchange(timer_, 0));
}

}  // namespace cairn
