// How a run's folder is found below `<cache>/<user>/`, and made. Calls block on disk. Stateless.
#ifndef CAIRN_STORAGE_PLACE_CACHE_RUN_FOLDER_H_
#define CAIRN_STORAGE_PLACE_CACHE_RUN_FOLDER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/run_identity.h"

namespace cairn {

// A launch that began while the prefix could not be asked: what is needed to make it there later.
struct ProvisionalLaunch {
  LaunchId id = 0;           // that its datasets carry meanwhile
  LaunchId predecessor = 0;  // the launch before it, by the number that this one had here
  std::string key;
  std::uint32_t nranks = 0;
  std::string secret;
  DatasetId first = 0, last = 0;  // the ids that it may give out
  std::int64_t created_us = 0;
};

// run.cairn: whose folder it is, and what this node notes of the run's launches.
struct RunRecord {
  RunIdentity run;                             // with what it was before
  std::string prefix;                          // as last opened on this node
  LaunchId served = 0;                         // the newest launch that this cache's daemons have served; 0: none
  std::string job;                             // Slurm's number of the newest launch's job that was seen here; or ""
  std::vector<ProvisionalLaunch> provisional;  // not made on the prefix yet, in their order
  std::int64_t lost_since_us = 0;              // since then the run was not at its prefix any more; 0: it was
};
absl::Status StoreRunRecord(Disk& disk, const std::string& folder, const RunRecord& record);

struct RunFolder {
  std::string path;
  RunRecord record;
  std::vector<std::string> warnings;
};

// As CacheFolder::Open.
absl::StatusOr<RunFolder> OpenRunFolder(Disk& disk, const std::string& cache, std::string_view user,
                                        std::string_view run_name, const RunIdentity& run, const std::string& prefix);

// Is there a dataset's folder in it?
absl::StatusOr<bool> HasDatasets(Disk& disk, const std::string& folder);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_RUN_FOLDER_H_
