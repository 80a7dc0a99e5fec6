#include "daemon/core/base_files.h"

#include <algorithm>
#include <utility>

#include "daemon/core/descriptor.h"
#include "daemon/core/restore_plan.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// A rank's file of the base. If it is to be compared, and its digests are not known, it is looked at: how long its data
// is.
absl::StatusOr<CaptureBase> BaseFile(Disk& disk, const std::string& folder, const catalogue::Catalogue& catalogue,
                                     std::shared_ptr<const BlockDigests> digests, bool compared) {
  const catalogue::FileEntry& file = catalogue.file(0);
  CaptureBase base;
  base.path = folder + "/" + file.name();
  base.file_bytes = file.bytes();
  base.compared = compared;
  if (!compared) return base;
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

BaseFiles::BaseFiles(const Context& context, std::shared_ptr<CacheFolder> cache, Ledger& ledger,
                     RemoveFolder remove_folder)
    : context_(context), cache_(std::move(cache)), ledger_(ledger), remove_folder_(std::move(remove_folder)) {}

ftiff::Letter BaseFiles::LetterOfFiles() const {
  return context_.config.ftiff.layout_a ? ftiff::Letter::kA : ftiff::Letter::kF;
}

bool BaseFiles::Differential() const {
  return context_.config.ftiff.differential && LetterOfFiles() == ftiff::Letter::kF;
}

// --- A new dataset gets its bases ---

void BaseFiles::Give(const Dataset& spare, DatasetId to) {
  Plan& plan = reuse_[to].plan;
  plan.base = spare.id;
  plan.kept_bytes = spare.kept_bytes;
  plan.compared = Differential();
  plan.catalogues = CataloguesHere(spare);
  auto digests = digests_.extract(spare.id);
  if (digests && plan.compared) plan.digests = std::move(digests.mapped());
}

void BaseFiles::Share(const Dataset& to) {
  if (!Differential() || !cache_->shares_extents() || to.kind.files) return;
  const Datasets& datasets = ledger_.InPlay();
  const auto newest = std::find_if(datasets.rbegin(), datasets.rend(), [](const auto& item) {
    return item.second->in_cache() && !item.second->kind.files;
  });
  if (newest == datasets.rend()) return;
  Plan& plan = reuse_[to.id].plan;
  plan.base = newest->first;
  plan.clone = true;
  plan.catalogues = CataloguesHere(*newest->second);
  if (auto digests = digests_.find(newest->first); digests != digests_.end()) plan.digests = digests->second;
}

std::optional<BaseFiles::Plan> BaseFiles::PlanOf(DatasetId to) const {
  const auto reuse = reuse_.find(to);
  return reuse == reuse_.end() ? std::nullopt : std::optional(reuse->second.plan);
}

BaseFiles::Ready BaseFiles::Prepare(Disk& disk, CacheFolder& cache, const Plan& plan) {
  Ready ready;
  if (!plan.clone) {
    if (absl::Status retired = cache.Retire(plan.base); !retired.ok()) {
      ready.warnings.push_back(fmt::format("dataset {} could not be retired: {}", plan.base, MessageOf(retired)));
      return ready;
    }
  }
  for (Rank rank = 0; rank < plan.catalogues.size(); ++rank) {
    const catalogue::Catalogue& catalogue = plan.catalogues[rank];
    if (catalogue.file_size() != 1) continue;
    const auto digests = plan.digests.find(rank);
    auto base = BaseFile(disk, cache.DatasetPath(plan.base), catalogue,
                         digests == plan.digests.end() ? nullptr : digests->second, plan.compared);
    if (base.ok()) {
      base->clone = plan.clone;
      ready.files[rank] = *std::move(base);
    } else {
      ready.warnings.push_back(fmt::format("dataset {}: {}", plan.base, MessageOf(base.status())));
    }
  }
  return ready;
}

void BaseFiles::Prepared(DatasetId to, Ready ready) {
  const auto reuse = reuse_.find(to);
  if (reuse == reuse_.end()) return;
  reuse->second.files = std::move(ready.files);
  if (to <= distrusted_) Distrust(reuse->second);  // damage was found meanwhile
}

std::optional<CaptureBase> BaseFiles::Take(DatasetId to, Rank rank) {
  const auto reuse = reuse_.find(to);
  if (reuse == reuse_.end()) return std::nullopt;
  auto taken = reuse->second.files.extract(rank);
  if (!taken) return std::nullopt;
  CaptureBase base = std::move(taken.mapped());
  base.compared = base.compared && Differential();
  return base;
}

void BaseFiles::End(DatasetId to) {
  const auto ended = reuse_.extract(to);
  if (!ended || ended.mapped().plan.clone) return;
  const Plan& plan = ended.mapped().plan;
  const DatasetId base = plan.base;
  const DatasetPtr given = ledger_.Get(base);
  if (given && given->cache != Place::kLeaving) return;  // it is fetched anew into the same folder
  remove_folder_(base, plan.kept_bytes, [this, base] { ledger_.FolderGone(base); });
}

// --- What is known of files in the cache ---

// Kept while their files may be reused: two MiB for each GiB.
void BaseFiles::Keep(DatasetId id, Rank rank, std::shared_ptr<const BlockDigests> digests) {
  if (id > distrusted_) digests_[id][rank] = std::move(digests);
}

void BaseFiles::Forget() {
  std::optional<DatasetId> newest;  // in the cache
  for (const auto& [id, ranks] : digests_) {
    const DatasetPtr dataset = ledger_.Get(id);
    if (dataset && dataset->in_cache()) newest = id;
  }
  std::erase_if(digests_, [&](const auto& item) {
    const DatasetPtr dataset = ledger_.Get(item.first);
    if (!Differential() || !dataset) return true;
    if (!dataset->in_cache()) return dataset->cache != Place::kArriving;
    return cache_->shares_extents() && item.first < *newest;
  });
}

void BaseFiles::Distrust() {
  digests_.clear();
  for (auto& [id, reuse] : reuse_) Distrust(reuse);
  if (!ledger_.datasets().empty()) distrusted_ = ledger_.datasets().rbegin()->first;
}

void BaseFiles::Distrust(Reuse& reuse) {
  reuse.plan.digests.clear();
  for (auto& [rank, base] : reuse.files) base.digests.reset();
}

DatasetId BaseFiles::ClonedFrom(DatasetId to) const {
  const auto reuse = reuse_.find(to);
  return reuse == reuse_.end() || !reuse->second.plan.clone ? 0 : reuse->second.plan.base;
}

}  // namespace cairn
