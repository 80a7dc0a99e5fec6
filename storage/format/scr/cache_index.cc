#include "storage/format/scr/cache_index.h"

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {
namespace {

absl::StatusOr<CacheEntry> GetCacheEntry(DatasetId id, const kvtree::Tree& tree) {
  CacheEntry entry;
  CAIRN_ASSIGN_OR_RETURN(entry.descriptor, GetDescriptorOf(id, tree, "DSETDESC"));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("PATH"), entry.path));
  if (!entry.path.empty() && !IsHarmlessAbsolute(entry.path)) {
    return DataLoss("PATH {} is not absolute or leads upwards", Quoted(entry.path));
  }
  CAIRN_RETURN_IF_ERROR(Take(tree.GetBool("BYPASS"), entry.bypass));
  return entry;
}

}  // namespace

void PutCacheEntry(const CacheEntry& entry, kvtree::Tree& cindex) {
  kvtree::Tree& tree = cindex.At("DSET").At(std::to_string(entry.descriptor.id));
  PutDescriptor(entry.descriptor, tree.At("DSETDESC"));
  tree.SetBool("BYPASS", entry.bypass);
  PutText("PATH", entry.path, tree);
}

absl::StatusOr<std::map<DatasetId, CacheEntry>> GetCacheEntries(const kvtree::Tree& cindex) {
  std::map<DatasetId, CacheEntry> entries;
  const kvtree::Tree* datasets = cindex.Find("DSET");
  if (datasets == nullptr) return entries;
  for (const auto& [key, tree] : datasets->elements()) {
    CAIRN_ASSIGN_OR_RETURN(const DatasetId id, NumberKey(key, "cache index: dataset", 1));
    absl::StatusOr<CacheEntry> entry = GetCacheEntry(id, tree);
    if (!entry.ok()) return Annotate(entry.status(), fmt::format("cache index: dataset {}", id));
    entries.emplace(id, *std::move(entry));
  }
  return entries;
}

void EraseCacheEntry(DatasetId id, kvtree::Tree& cindex) {
  if (kvtree::Tree* datasets = cindex.Find("DSET"); datasets != nullptr) datasets->Erase(std::to_string(id));
}

}  // namespace cairn::scr
