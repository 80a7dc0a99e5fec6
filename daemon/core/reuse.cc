// Differential checkpoints: what a new dataset's files start from. README.md, "Differential checkpoints".
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/core/core_impl.h"
#include "daemon/core/restore_plan.h"
#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/cache/catalogue.h"

namespace cairn {
namespace {

// A rank's file of the base. Whose digests are not known is looked at: how long its data is.
absl::StatusOr<CaptureBase> BaseFile(Disk& disk, const std::string& folder, const catalogue::Catalogue& catalogue,
                                     std::shared_ptr<const BlockDigests> digests) {
  const catalogue::FileEntry& file = catalogue.file(0);
  CaptureBase base;
  base.path = folder + "/" + file.name();
  base.file_bytes = file.bytes();
  base.crc32c.assign(file.crc32c().begin(), file.crc32c().end());
  base.digests = std::move(digests);
  if (base.digests) {
    base.data_bytes = base.digests->data_bytes;
    return base;
  }
  RestoreSource source;
  source.path = base.path;
  source.file_bytes = base.file_bytes;
  CAIRN_ASSIGN_OR_RETURN(const ftiff::FileMetadata metadata, ReadMetadata(disk, source));
  if (metadata.letter != ftiff::Letter::kF) {
    return FailedPrecondition("{}: layout {}", base.path, static_cast<char>(metadata.letter));
  }
  base.data_bytes = metadata.layout.data_bytes;
  return base;
}

}  // namespace

ftiff::Letter CoreImpl::LetterOfFiles() const {
  return config_.ftiff.layout_a ? ftiff::Letter::kA : ftiff::Letter::kF;
}

bool CoreImpl::Differential() const {
  return config_.ftiff.differential && LetterOfFiles() == ftiff::Letter::kF;
}

// Retired files alternate where extents cannot be shared.
bool CoreImpl::KeepsSpare(const Run& run) const {
  return Differential() && !run.cache->shares_extents();
}

// Whose files the run's next checkpoint may have; null: nobody's.
CoreImpl::DatasetPtr CoreImpl::SpareFor(const RunPtr& run, std::uint64_t rank_bytes, std::uint32_t nranks) const {
  if (!KeepsSpare(*run)) return nullptr;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(rank_bytes, std::uint64_t{nranks}, &bytes)) return nullptr;
  // Ranks may differ in size: the last dataset of as many ranks tells more than one of them.
  const auto& datasets = run->ledger.datasets();
  const auto last = std::find_if(datasets.rbegin(), datasets.rend(), [nranks](const auto& item) {
    return item.second->in_cache && !item.second->files && item.second->nranks == nranks;
  });
  if (last != datasets.rend()) bytes = std::max(rank_bytes, last->second->bytes());
  const std::uint64_t used = CacheBytesUsed();
  const std::uint64_t room = cache_bytes_max_ - std::min(used, cache_bytes_max_);
  const std::optional<DatasetId> spare =
      ChooseSpare(FactsOf(*run), config_.cache.keep, config_.flush, bytes - std::min(bytes, room));
  return spare ? run->ledger.Get(*spare) : nullptr;
}

// As if it was evicted, but its files stay where they are until dataset `to` is through with them.
void CoreImpl::GiveFiles(const RunPtr& run, const DatasetPtr& spare, DatasetId to) {
  Reuse& reuse = run->reuse[to];
  reuse.base = spare->id;
  for (const Part& part : spare->parts) reuse.catalogues.push_back(part.catalogue);
  if (auto digests = run->digests.extract(spare->id)) reuse.digests = std::move(digests.mapped());
  LeaveCache(run, spare, fmt::format("dataset {} is written into its files", to));
}

// Where extents can be shared, from the newest one, which stays as it is.
void CoreImpl::ShareFiles(const RunPtr& run, const Dataset& to) {
  if (!Differential() || !run->cache->shares_extents() || to.files) return;
  const auto& datasets = run->ledger.datasets();
  const auto newest = std::find_if(datasets.rbegin(), datasets.rend(), [](const auto& item) {
    return item.second->in_cache && !item.second->files && !item.second->damaged;
  });
  if (newest == datasets.rend()) return;
  Reuse& reuse = run->reuse[to.id];
  reuse.base = newest->first;
  reuse.clone = true;
  for (const Part& part : newest->second->parts) reuse.catalogues.push_back(part.catalogue);
  if (auto digests = run->digests.find(newest->first); digests != run->digests.end()) reuse.digests = digests->second;
}

// Blocks. First nobody believes in the base any more, durably; then its files may be changed.
CoreImpl::ReadyBases CoreImpl::PrepareBases(CacheFolder& cache, const Reuse& reuse) {
  ReadyBases ready;
  if (!reuse.clone) {
    if (absl::Status retired = cache.Retire(reuse.base); !retired.ok()) {
      ready.warnings.push_back(fmt::format("dataset {} could not be retired: {}", reuse.base, MessageOf(retired)));
      return ready;
    }
  }
  for (Rank rank = 0; rank < reuse.catalogues.size(); ++rank) {
    const catalogue::Catalogue& catalogue = reuse.catalogues[rank];
    if (catalogue.file_size() != 1) continue;
    const auto digests = reuse.digests.find(rank);
    auto base = BaseFile(cache_disk_, cache.DatasetPath(reuse.base), catalogue,
                         digests == reuse.digests.end() ? nullptr : digests->second);
    if (base.ok()) {
      base->clone = reuse.clone;
      ready.files[rank] = *std::move(base);
    } else {
      ready.warnings.push_back(fmt::format("dataset {}: {}", reuse.base, MessageOf(base.status())));
    }
  }
  return ready;
}

std::optional<CaptureBase> CoreImpl::TakeBase(Run& run, DatasetId id, Rank rank) {
  const auto reuse = run.reuse.find(id);
  if (reuse == run.reuse.end()) return std::nullopt;
  auto base = reuse->second.files.extract(rank);
  return base ? std::optional(std::move(base.mapped())) : std::nullopt;
}

// No capture of the dataset needs them any more: what was not taken goes.
void CoreImpl::EndReuse(const RunPtr& run, DatasetId id) {
  const auto ended = run->reuse.extract(id);
  if (!ended || ended.mapped().clone) return;
  const DatasetId base = ended.mapped().base;
  ChangeFolder(run, base, [cache = run->cache, base] { return cache->Remove(base); });
}

// What a capture has found out about a file that shares its extents and stays: its dataset is not whole any more.
void CoreImpl::BaseIsDamaged(const RunPtr& run, const PartWriter& writer, const absl::Status& why) {
  if (!absl::IsDataLoss(why) && !absl::IsNotFound(why)) return;
  const auto reuse = run->reuse.find(writer.dataset->id);
  if (reuse == run->reuse.end() || !reuse->second.clone) return;
  const DatasetPtr base = run->ledger.Get(reuse->second.base);
  if (!base || !base->in_cache || base->readers > 0) return;  // a restore finds out for itself
  CachedCopyIsDamaged(run, base, CheckpointFileName(base->id, writer.rank), why);
}

void CoreImpl::DistrustBases(Reuse& reuse) {
  reuse.digests.clear();
  for (auto& [rank, base] : reuse.files) base.digests.reset();
}

// A file was not what its digests said, and others may have taken over what is wrong in it: from now on bases are read
// and compared with their catalogues.
void CoreImpl::DistrustDigests(Run& run) const {
  run.digests.clear();
  for (auto& [id, reuse] : run.reuse) DistrustBases(reuse);
  if (!run.ledger.datasets().empty()) run.distrusted = run.ledger.datasets().rbegin()->first;
}

// Digests are kept while their files may be reused: two MiB for each GiB.
void CoreImpl::ForgetDigests(Run& run) const {
  std::optional<DatasetId> newest;  // in the cache
  for (const auto& [id, ranks] : run.digests) {
    const DatasetPtr dataset = run.ledger.Get(id);
    if (dataset && dataset->in_cache) newest = id;
  }
  std::erase_if(run.digests, [&](const auto& item) {
    const DatasetPtr dataset = run.ledger.Get(item.first);
    if (!Differential() || !dataset) return true;
    if (!dataset->in_cache) return dataset->in_prefix || dataset->damaged;  // else it is on its way
    return run.cache->shares_extents() && item.first < *newest;
  });
}

}  // namespace cairn
