// A dataset of which a node's cache has something: for DatasetBp5 where the prefix has nothing of it.
#ifndef CAIRN_STORAGE_JOB_DATASET_BP5_IN_CACHE_H_
#define CAIRN_STORAGE_JOB_DATASET_BP5_IN_CACHE_H_

#include <absl/status/statusor.h>

#include <string>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/job/dataset_bp5/dataset_bp5.h"

namespace cairn {

// `folder`: of the run in the cache. Only ranks that are committed there count. kNotFound: none of them is.
absl::StatusOr<StoredDataset> DatasetInCache(Disk& disk, const std::string& folder, const RunId& run, DatasetId id);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_DATASET_BP5_IN_CACHE_H_
