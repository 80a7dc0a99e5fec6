// What a run's folder holds when nobody works in it any more: for saving what is left. Only looks: nothing is moved,
// removed or made anew. Calls block on disk. Stateless.
#ifndef CAIRN_STORAGE_PLACE_CACHE_SURVEY_H_
#define CAIRN_STORAGE_PLACE_CACHE_SURVEY_H_

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/run_identity.h"

namespace cairn {

struct SurveyedDataset {
  scr::Descriptor descriptor;  // with id, name, launch and ranks
  std::string folder;
  std::map<Rank, catalogue::Catalogue> ranks;  // committed here: catalogue and files are there, in their sizes
  std::map<Rank, std::string> damaged;         // left something that is not whole: what
};

struct Survey {
  std::map<DatasetId, SurveyedDataset> datasets;  // of which a rank left something, completed or not
  std::vector<std::string> notes;                 // what was passed over, and why
};

// Of folder `path` as CacheFolder::Find tells it. What was removed or given up does not count, nor what was set aside,
// nor what is SCR's own. A damaged index, or none, is done without. Errors are the disk's, for the folder as a whole.
absl::StatusOr<Survey> SurveyCache(Disk& disk, const std::string& path, const RunIdentity& run);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_SURVEY_H_
