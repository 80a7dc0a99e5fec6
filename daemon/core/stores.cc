#include "daemon/core/stores.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/core/descriptor.h"
#include "storage/base/status.h"

namespace cairn {

Stores::Stores(const Context& context, std::string run_name, std::shared_ptr<CacheFolder> cache, const CacheRoom& room,
               const Ledger& ledger, PrefixGate& gate, NodeRecord& record, Removals& removals,
               std::function<bool()> prefix_hangs)
    : context_(context),
      run_name_(std::move(run_name)),
      cache_(std::move(cache)),
      room_(room),
      ledger_(ledger),
      gate_(gate),
      record_(record),
      removals_(removals),
      prefix_hangs_(std::move(prefix_hangs)) {}

// --- Which of the two ---

// A begin tells its rank's bytes only. What the other ranks have is known from the launch's last checkpoint, else taken
// to be the same; those on other nodes take nothing of this cache. How much files will be is not known at all: as much
// as the last time.
bool Stores::TooLarge(const Launch& launch, Rank rank, const Ledger::BeginSpec& spec) const {
  const auto& datasets = ledger_.datasets();
  if (spec.kind.files) {
    if (last_files_bytes_) return *last_files_bytes_ > room_.limit();
    const auto last =
        std::find_if(datasets.rbegin(), datasets.rend(), [](const auto& item) { return item.second->kind.files; });
    return last != datasets.rend() && last->second->bytes() > room_.limit();
  }
  if (spec.bytes == 0) return false;
  return outgrown_ == launch.nranks || Planned(launch, rank, spec) > room_.limit();
}

std::uint64_t Stores::Planned(const Launch& launch, Rank rank, const Ledger::BeginSpec& spec) const {
  const auto& datasets = ledger_.datasets();
  const auto last = std::find_if(datasets.rbegin(), datasets.rend(), [&](const auto& item) {
    return item.second->launch == launch.id && !item.second->kind.files && item.second->all_captured();
  });
  std::uint64_t planned = 0;
  const bool only_there = last != datasets.rend() && last->second->parts.empty();
  if (only_there && launch.elsewhere == 0) {
    planned = std::max(last->second->bytes(), spec.bytes);  // it went past the cache
  } else if (last != datasets.rend() && !only_there) {
    planned = last->second->bytes_here() - last->second->parts[rank].bytes + spec.bytes;
  } else if (__builtin_mul_overflow(spec.bytes, std::uint64_t{launch.nranks - launch.elsewhere}, &planned)) {
    return UINT64_MAX;
  }
  return planned;
}

// --- A dataset's own ---

std::shared_ptr<DatasetStore> Stores::Of(const Dataset& dataset) const {
  if (dataset.kind.past_cache) return bypass_;
  return cache_;
}

Disk& Stores::DiskOf(const Dataset& dataset) const {
  return dataset.kind.past_cache ? context_.env.prefix_disk : context_.env.cache_disk;
}

// --- Past the cache ---

void Stores::Entered(const Dataset& dataset) {
  if (!dataset.kind.past_cache) return;
  if (!bypass_ || (unfinished_.empty() && bypass_of_ != gate_.prefix())) {  // the prefix may have been renamed
    bypass_of_ = gate_.prefix();
    bypass_ = Bypass::Make(context_.env.prefix_disk, bypass_of_, context_.config.prefix.views);
  }
  unfinished_.insert(dataset.id);
}

void Stores::Begin(const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  if (dataset->kind.files && !gate_.TryTake(PrefixGate::Change::kNames)) {
    return gate_.WhenFree([this, dataset, then] { Begin(dataset, then); });
  }
  if (!ledger_.Has(dataset)) return then(Aborted("dataset {} failed meanwhile", dataset->id));
  spdlog::info("run {}: dataset {} (step {}) has no place in the cache and goes straight to the prefix", run_name_,
               dataset->id, dataset->step);
  record_.Begun(dataset->id);
  record_.Store([this, store = bypass_, descriptor = DescriptorOf(*dataset, false),
                 then = std::move(then)](const absl::Status& noted) {
    if (!noted.ok()) return then(noted);
    context_.OnPrefix(
        gate_.path(), [store, descriptor] { return store->Begin(descriptor); }, then);
  });
}

void Stores::Complete(const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  scr::Descriptor record = DescriptorOf(*dataset, true);
  record.held = HeldHere(*dataset);
  if (record.held && record.held->empty()) return context_.loop().Post([then] { then(absl::OkStatus()); });
  auto complete = [store = Of(*dataset), descriptor = std::move(record)] { return store->Complete(descriptor); };
  if (!dataset->kind.past_cache) return context_.OnCache(std::move(complete), std::move(then));
  using Change = PrefixGate::Change;
  const auto lease = gate_.TryTake(dataset->kind.files ? Change::kCompleteFiles : Change::kComplete);
  if (!lease) {
    return gate_.WhenFree([this, dataset, then = std::move(then)] {
      ledger_.Has(dataset) ? Complete(dataset, then) : then(Aborted("dataset {} failed meanwhile", dataset->id));
    });
  }
  context_.OnPrefix(gate_.path(), std::move(complete), [lease, then = std::move(then)](const absl::Status& status) {
    then(status);
    lease->End();
  });
}

void Stores::Completed(const Dataset& dataset) {
  unfinished_.erase(dataset.id);
  record_.Settled(dataset.id);
  if (!dataset.kind.files && dataset.bytes() <= room_.limit()) outgrown_ = 0;
  record_.Store();
  TellWithdrawn();
}

void Stores::Remove(DatasetId id) {
  const auto lease = gate_.TryTake(PrefixGate::Change::kRemoveFailed);
  if (!lease) return gate_.WhenFree([this, id] { Remove(id); });
  context_.OnPrefix(
      gate_.path(), [store = bypass_, id] { return store->Remove(id); },
      [this, lease, id](const absl::Status& status) {
        unfinished_.erase(id);
        if (status.ok()) {
          record_.Settled(id);
          record_.Store();
        } else {  // the record stays: the next start tries again
          context_.Warn(fmt::format("dataset {}: {}", id, MessageOf(status)));
        }
        TellWithdrawn();
        lease->End();
      });
}

void Stores::TellWithdrawn() {
  if (!bypass_) return;
  for (const auto& [id, to] : bypass_->TakeWithdrawn()) removals_.GaveWay(id, to);
  for (const std::string& warning : bypass_->TakeWarnings()) {
    context_.Warn(fmt::format("run {}: {}", run_name_, warning));
  }
}

}  // namespace cairn
