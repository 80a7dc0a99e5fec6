// What a start finds in a run's folder: keeps what is whole, makes its records anew where they are damaged, removes
// what never was whole, moves other damage aside.
#ifndef CAIRN_STORAGE_PLACE_CACHE_LOAD_H_
#define CAIRN_STORAGE_PLACE_CACHE_LOAD_H_

#include <absl/status/statusor.h>

#include <set>
#include <string>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/cache/cache_index.h"
#include "storage/place/run_identity.h"

namespace cairn {

std::string DatasetFolderName(DatasetId id);  // scr.dataset.<id>

// As CacheFolder::Load, of the folder `path`, whose index `index` is. `unread`: without an entry, and left alone.
absl::StatusOr<CacheLoad> LoadCache(Disk& disk, const std::string& path, const std::string& prefix,
                                    const RunIdentity& run, const std::set<DatasetId>& unread, CacheIndex& index);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_LOAD_H_
