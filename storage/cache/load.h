// What a start finds in a run's folder: keeps what is whole, removes what never was, moves damage aside.
#ifndef CAIRN_STORAGE_CACHE_LOAD_H_
#define CAIRN_STORAGE_CACHE_LOAD_H_

#include <absl/status/statusor.h>

#include <string>

#include "storage/base/disk.h"
#include "storage/base/ids.h"
#include "storage/cache/cache_folder.h"
#include "storage/cache/cache_index.h"

namespace cairn {

std::string DatasetFolderName(DatasetId id);
// Folders of datasets that were set aside: damaged.<id>.<n>.
inline constexpr std::string_view kDamagedStem = "damaged.";  // scr.dataset.<id>

// As CacheFolder::Load, of the folder `path`, whose index `index` is.
absl::StatusOr<CacheLoad> LoadCache(Disk& disk, const std::string& path, const RunId& run, CacheIndex& index);

}  // namespace cairn

#endif  // CAIRN_STORAGE_CACHE_LOAD_H_
