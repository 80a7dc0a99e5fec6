#include "daemon/core/fetch.h"

#include "storage/base/status.h"

namespace cairn {

absl::Status FetchRank(const FetchFrom& from, CacheFolder& cache, const catalogue::Catalogue& catalogue,
                       Throttle& throttle, TransferProgress& progress, bool* source_damaged) {
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
    jobs.push_back({.from = from.path_of(file), .to = to, .entry = &file});
  }
  std::size_t damaged = jobs.size();
  const absl::Status copied = CopyFiles(from.disk, cache.disk(), jobs, throttle, progress, &damaged);
  if (!copied.ok()) {
    *source_damaged = damaged < jobs.size() || absl::IsNotFound(copied);
    return copied;
  }
  return catalogue.files() ? cache.CommitRankFiles(catalogue) : cache.CommitRank(catalogue, work);
}

FetchResult FetchDataset(const FetchFrom& from, CacheFolder& cache, const std::vector<catalogue::Catalogue>& catalogues,
                         const scr::Descriptor& begun, const scr::Descriptor& complete, Throttle& throttle,
                         TransferProgress& progress) {
  FetchResult fetched;
  fetched.status = cache.Begin(begun);
  if (absl::IsAlreadyExists(fetched.status)) return fetched;
  fetched.status = [&]() -> absl::Status {
    CAIRN_RETURN_IF_ERROR(fetched.status);
    for (const catalogue::Catalogue& catalogue : catalogues) {
      fetched.rank = catalogue.rank();
      CAIRN_RETURN_IF_ERROR(FetchRank(from, cache, catalogue, throttle, progress, &fetched.source_damaged));
    }
    return cache.Complete(complete);
  }();
  // Without COMPLETE the next start removes it.
  if (!fetched.status.ok()) cache.Remove(begun.id).IgnoreError();
  return fetched;
}

}  // namespace cairn
