#include "storage/job/dataset_bp5/in_cache.h"

#include "storage/base/status.h"
#include "storage/place/cache/survey.h"

namespace cairn {

absl::StatusOr<StoredDataset> DatasetInCache(Disk& disk, const std::string& folder, const RunId& run, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const Survey survey, SurveyCache(disk, folder, run));
  const auto dataset = survey.datasets.find(id);
  if (dataset == survey.datasets.end() || dataset->second.ranks.empty()) {
    return NotFound("{}: nothing of dataset {}", folder, id);
  }
  StoredDataset stored{.id = id, .root = dataset->second.folder, .in_cache = true, .catalogues = {}};
  for (const auto& [rank, catalogue] : dataset->second.ranks) stored.catalogues.push_back(catalogue);
  return stored;
}

}  // namespace cairn
