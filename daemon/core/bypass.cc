// Past the cache: a dataset that is larger than all of it is written straight to the prefix (storage/prefix/bypass.h),
// and so are files for which no room can be made now.
// It is `captured` as always and then, when it is committed, at level prefix at once.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/core_impl.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {

bool CoreImpl::MayBypass(const Run& run) const {
  return config_.cache.bypass && run.prefix;
}

// A begin tells its rank's bytes only. What the other ranks have is known from the launch's last checkpoint, else taken
// to be the same. How much files will be is not known at all: as much as the last time.
bool CoreImpl::Bypasses(const Run& run, const Launch& launch, Rank rank, const Ledger::BeginSpec& spec) const {
  if (!MayBypass(run)) return false;
  const auto& datasets = run.ledger.datasets();
  if (spec.files) {
    if (run.last_files_bytes) return *run.last_files_bytes > cache_bytes_max_;
    const auto last =
        std::find_if(datasets.rbegin(), datasets.rend(), [](const auto& item) { return item.second->files; });
    return last != datasets.rend() && last->second->bytes() > cache_bytes_max_;
  }
  if (spec.bytes == 0) return false;
  if (run.outgrown == launch.nranks) return true;
  const auto last = std::find_if(datasets.rbegin(), datasets.rend(), [&](const auto& item) {
    return item.second->launch == launch.id && !item.second->files && item.second->all_captured();
  });
  std::uint64_t planned = 0;
  if (last != datasets.rend()) {
    planned = last->second->bytes() - last->second->parts[rank].bytes + spec.bytes;
  } else if (__builtin_mul_overflow(spec.bytes, std::uint64_t{launch.nranks}, &planned)) {
    return true;
  }
  return planned > cache_bytes_max_;
}

std::shared_ptr<DatasetStore> CoreImpl::StoreOf(const Run& run, const Dataset& dataset) {
  if (dataset.bypass) return run.bypass;
  return run.cache;
}

// Is the application writing files under names of its own on the prefix? Meanwhile nobody else puts files there or
// takes them away, for the names may be the same.
bool CoreImpl::FilesBypass(const Run& run) {
  return std::any_of(run.ledger.datasets().begin(), run.ledger.datasets().end(), [](const auto& item) {
    return item.second->bypass && item.second->files && !item.second->in_prefix;
  });
}

// First this node's record says whom to take away after a crash. `then` runs later.
void CoreImpl::BeginBypass(const RunPtr& run, const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  const bool committing = std::any_of(run->flushes.begin(), run->flushes.end(), [](const auto& item) {
    return item.second->state == FlushJob::State::kCommitting && item.second->dataset->files;
  });
  if (dataset->files && (committing || run->removals > 0)) {
    run->after_flush.push_back([this, run, dataset, then] { BeginBypass(run, dataset, then); });
    return;
  }
  if (run->ledger.Get(dataset->id) != dataset) return then(Aborted("dataset {} failed meanwhile", dataset->id));
  spdlog::info("run {}: dataset {} (step {}) has no place in the cache and goes straight to the prefix", run->name,
               dataset->id, dataset->step);
  run->begun.insert(dataset->id);
  StoreFlushRecord(run, [this, store = run->bypass, descriptor = DescriptorOf(*dataset, false),
                         then = std::move(then)](const absl::Status& noted) {
    if (!noted.ok()) return then(noted);
    BlockingPrefix([store, descriptor] { return store->Begin(descriptor); }, then);
  });
}

void CoreImpl::BypassComplete(const RunPtr& run, const DatasetPtr& dataset) {
  dataset->in_prefix = true;
  run->bypassing.erase(dataset->id);
  run->begun.erase(dataset->id);
  run->asked.erase(dataset->id);
  run->directories.erase(dataset->id);
  run->flushed.insert(dataset->id);
  if (!dataset->files && dataset->bytes() <= cache_bytes_max_) run->outgrown = 0;
  // A long run has many such datasets: what describes them is read again if they are ever asked for.
  for (Part& part : dataset->parts) part.catalogue.Clear();
  dataset->described = false;
  StoreFlushRecord(run);
  TellWithdrawn(run);
  TellOfPrefix(run);
  for (DatasetId id : PrefixRemovals(FactsOf(*run), config_.prefix)) {
    if (DatasetPtr old = run->ledger.Get(id)) Unprefix(run, old);
  }
  AfterFlush(run);
}

// It failed, and nothing writes to it any more.
void CoreImpl::RemoveBypassed(const RunPtr& run, DatasetId id) {
  ++run->removals;
  BlockingPrefix([store = run->bypass, id] { return store->Remove(id); },
                 [this, run, id](const absl::Status& status) {
                   --run->removals;
                   run->bypassing.erase(id);
                   if (status.ok()) {
                     run->begun.erase(id);
                     StoreFlushRecord(run);
                   } else {  // the record stays: the next start tries again
                     Warn(fmt::format("dataset {}: {}", id, MessageOf(status)));
                   }
                   TellWithdrawn(run);
                   AfterFlush(run);
                 });
}

void CoreImpl::TellWithdrawn(const RunPtr& run) {
  for (const auto& [id, to] : run->bypass->TakeWithdrawn()) GaveWay(run, id, to);
}

// Files that the cache cannot hold are read where they are, once they are verified there.
void CoreImpl::VerifyOnPrefix(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group) {
  std::vector<catalogue::Catalogue> catalogues;
  for (const Part& part : group->dataset->parts) catalogues.push_back(part.catalogue);
  auto verify = [this, prefix = run->prefix, catalogues = std::move(catalogues)] {
    Remade verified;
    for (const catalogue::Catalogue& catalogue : catalogues) {
      verified.rank = catalogue.rank();
      for (const catalogue::FileEntry& file : catalogue.file()) {
        verified.status = VerifyFile(prefix_disk_, prefix->FilePath(file.prefix_name()), file);
        if (!verified.status.ok()) return verified;
      }
    }
    return verified;
  };
  BlockingPrefix(std::move(verify), [this, run, group](const Remade& verified) {
    if (group->ended) return Changed(run);
    if (verified.status.ok()) return GroupDone(run, group);
    CopyIsBad(run, group, verified.rank, Tier::kPrefix, verified.status);
    RetryGroup(run, group, fmt::format("rank {}: {}", verified.rank, MessageOf(verified.status)));
  });
}

}  // namespace cairn
