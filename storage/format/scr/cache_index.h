// Which datasets a node's cache holds: cindex.scrinfo. SCR specification, section 6.
#ifndef CAIRN_STORAGE_FORMAT_SCR_CACHE_INDEX_H_
#define CAIRN_STORAGE_FORMAT_SCR_CACHE_INDEX_H_

#include <absl/status/statusor.h>

#include <map>
#include <string>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/descriptor.h"

namespace cairn::scr {

struct CacheEntry {
  Descriptor descriptor;
  std::string path;  // the dataset's directory on this node; empty: absent
  bool bypass = false;
};

void PutCacheEntry(const CacheEntry& entry, kvtree::Tree& cindex);

// kDataLoss, naming the dataset: an id that is none, a bad field, a path that is not absolute or leads upwards.
absl::StatusOr<std::map<DatasetId, CacheEntry>> GetCacheEntries(const kvtree::Tree& cindex);

void EraseCacheEntry(DatasetId id, kvtree::Tree& cindex);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_CACHE_INDEX_H_
