// A dataset made anew in the cache from its copy on the prefix: restores of the application's own files, which are read
// in the cache, and datasets of protected memory whose cached copy was found damaged.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/core_impl.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// Brings one rank's part from the prefix into the cache, verified on the way. The dataset is begun there.
absl::Status FetchRank(Disk& prefix_disk, Disk& cache_disk, Prefix& prefix, CacheFolder& cache,
                       const catalogue::Catalogue& catalogue, TransferProgress& progress, bool* source_damaged) {
  const DatasetId id = catalogue.dataset();
  std::string work;
  std::vector<CopyJob> jobs;
  for (const catalogue::FileEntry& file : catalogue.file()) {
    std::string to;
    if (catalogue.files()) {
      CAIRN_ASSIGN_OR_RETURN(to, cache.RouteFile(id, file.name()));
    } else {
      to = work = cache.WorkPath(id, catalogue.rank());
    }
    jobs.push_back({.from = prefix.FilePath(file.prefix_name()), .to = to, .entry = &file});
  }
  Throttle throttle(0);
  std::size_t damaged = jobs.size();
  if (absl::Status copied = CopyFiles(prefix_disk, cache_disk, jobs, throttle, progress, &damaged); !copied.ok()) {
    *source_damaged = damaged < jobs.size() || absl::IsNotFound(copied);
    return copied;
  }
  return catalogue.files() ? cache.CommitRankFiles(catalogue) : cache.CommitRank(catalogue, work);
}

}  // namespace

// First every rank's files are verified where they are; if some are not whole in the cache, all come from the prefix.
void CoreImpl::RestoreFiles(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                            const std::shared_ptr<RestorePart>& part) {
  const DatasetPtr& dataset = group->dataset;
  if (!dataset->in_cache)
    return FilesChecked(run, group, part, NotFound("dataset {} is not in the cache", dataset->id));
  BlockingCache(
      [this, cache = run->cache, catalogue = dataset->parts[part->session->rank].catalogue]() -> absl::Status {
        for (const catalogue::FileEntry& file : catalogue.file()) {
          CAIRN_RETURN_IF_ERROR(
              VerifyFile(cache_disk_, cache->DatasetPath(catalogue.dataset()) + "/" + file.name(), file));
        }
        return absl::OkStatus();
      },
      [this, run, group, part](const absl::Status& status) { FilesChecked(run, group, part, status); });
}

void CoreImpl::FilesChecked(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                            const std::shared_ptr<RestorePart>& part, const absl::Status& status) {
  if (group->ended) return;
  const DatasetPtr& dataset = group->dataset;
  const Rank rank = part->session->rank;
  if (!status.ok() && dataset->in_cache) CopyIsBad(run, group, rank, Tier::kCache, status);
  part->done = true;
  part->tier = status.ok() ? Tier::kCache : Tier::kPrefix;
  const auto& parts = group->parts;
  if (!std::all_of(parts.begin(), parts.end(), [](const auto& item) { return item.second->done; })) return;
  const auto lacking =
      std::find_if(parts.begin(), parts.end(), [](const auto& item) { return item.second->tier == Tier::kPrefix; });
  if (lacking == parts.end()) return GroupDone(run, group);
  if (dataset->in_prefix && run->prefix) return FetchFiles(run, group);
  RetryGroup(run, group, fmt::format("no copy of rank {}'s files is whole", lacking->first));
}

void CoreImpl::FetchFiles(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group) {
  for (auto& [rank, part] : group->parts) part->tier = Tier::kPrefix;
  FetchNoted(run, group);
  if (config_.cache.bypass && group->dataset->bytes() > cache_bytes_max_) return VerifyOnPrefix(run, group);
  Remake(run, group->dataset, [this, run, group](const Remade& remade) {
    if (group->ended) return Changed(run);
    if (remade.status.ok()) return GroupDone(run, group);
    const std::string why = fmt::format("rank {}: {}", remade.rank, MessageOf(remade.status));
    const bool full = absl::IsResourceExhausted(remade.status);
    if (full && config_.cache.bypass) return VerifyOnPrefix(run, group);
    if (full) return EndGroup(run, group, local::RESOURCE_EXHAUSTED, why);
    if (remade.source_damaged) CopyIsBad(run, group, remade.rank, Tier::kPrefix, remade.status);
    RetryGroup(run, group, why);
  });
}

// What the cache has of the dataset goes aside; then it is fetched, all ranks. `then` runs on the strand, not within
// this call.
void CoreImpl::Remake(const RunPtr& run, const DatasetPtr& dataset, std::function<void(const Remade&)> then) {
  auto [under_way, first] = run->remaking.try_emplace(dataset->id);
  under_way->second.push_back(std::move(then));
  if (!first) return;  // two at once would take the folder from each other
  auto ended = [run, id = dataset->id](const Remade& remade) {
    auto waiting = std::move(run->remaking.extract(id).mapped());
    for (auto& next : waiting) next(remade);
  };
  dataset->in_cache = false;
  run->directories.erase(dataset->id);
  if (absl::Status room = EnsureRoom(run, dataset->bytes()); !room.ok()) {
    return loop_.Post([ended, room] { ended({.status = room}); });
  }
  ++dataset->readers;
  std::vector<catalogue::Catalogue> catalogues;
  for (const Part& part : dataset->parts) catalogues.push_back(part.catalogue);
  auto fetch = [this, prefix = run->prefix, cache = run->cache, catalogues = std::move(catalogues),
                begun = DescriptorOf(*dataset, false), complete = DescriptorOf(*dataset, true)] {
    Remade remade;
    remade.status = [&]() -> absl::Status {
      CAIRN_RETURN_IF_ERROR(cache->SetDatasetAside(begun.id));
      CAIRN_RETURN_IF_ERROR(cache->Begin(begun));
      for (const catalogue::Catalogue& catalogue : catalogues) {
        remade.rank = catalogue.rank();
        CAIRN_RETURN_IF_ERROR(
            FetchRank(prefix_disk_, cache_disk_, *prefix, *cache, catalogue, fetching_, &remade.source_damaged));
      }
      return cache->Complete(complete);
    }();
    if (!remade.status.ok()) cache->Remove(begun.id).IgnoreError();  // without COMPLETE the next start removes it
    return remade;
  };
  auto fetched = [run, dataset, ended](const Remade& remade) {
    --dataset->readers;
    if (remade.status.ok()) {
      dataset->in_cache = true;
      run->directories[dataset->id].ready = true;
      run->remake.erase(dataset->id);
    }
    ended(remade);
  };
  auto start = [this, run, foreign = dataset->foreign, fetch, fetched] {
    if (!foreign) return BlockingPrefix(fetch, fetched);
    // Whose copy it is must be known to the next daemon: it goes when SCR's entry in the index has gone.
    StoreFlushRecord(run, [this, fetch, fetched](const absl::Status&) { BlockingPrefix(fetch, fetched); });
  };
  if (auto change = run->changing.find(dataset->id); change != run->changing.end()) {
    change->second.waiting.push_back(start);
  } else {
    start();
  }
}

}  // namespace cairn
