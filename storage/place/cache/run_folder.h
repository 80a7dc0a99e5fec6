// How a run's folder is found below `<cache>/<user>/`, and made. Calls block on disk. Stateless.
#ifndef CAIRN_STORAGE_PLACE_CACHE_RUN_FOLDER_H_
#define CAIRN_STORAGE_PLACE_CACHE_RUN_FOLDER_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "storage/base/ids.h"
#include "storage/io/disk.h"

namespace cairn {

struct RunFolder {
  std::string path;
  std::vector<std::string> warnings;
};

// As CacheFolder::Open.
absl::StatusOr<RunFolder> OpenRunFolder(Disk& disk, const std::string& cache, std::string_view user,
                                        std::string_view run_name, const RunId& run, const std::string& prefix);

// Is there a dataset's folder in it?
absl::StatusOr<bool> HasDatasets(Disk& disk, const std::string& folder);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_RUN_FOLDER_H_
