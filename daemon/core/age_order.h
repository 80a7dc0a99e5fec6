// The datasets of a run by age, kept in order while they come and go. Strand only.
#ifndef CAIRN_DAEMON_CORE_AGE_ORDER_H_
#define CAIRN_DAEMON_CORE_AGE_ORDER_H_

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "daemon/core/dataset.h"
#include "storage/base/ids.h"

namespace cairn {

using Datasets = std::map<DatasetId, DatasetPtr>;

// Oldest first: by the launch that made it, then by id. What was adopted stands where its id does; SCR's own behind the
// last one than which it is newer (storage/place/age.h). Pure.
std::vector<DatasetPtr> SortedByAge(const Datasets& datasets);

// SortedByAge of the datasets that it was told of. A new one of a launch is nearly always the newest of all and costs
// nothing; what may stand anywhere makes the next question sort anew.
class AgeOrder {
 public:
  void Added(const DatasetPtr& dataset);
  void Removed(const DatasetPtr& dataset);
  // Whether a dataset is SCR's own is another matter now.
  void MakerChanged() { sorted_ = false; }
  // `datasets`: all that were added and not removed.
  const std::vector<DatasetPtr>& Of(const Datasets& datasets);

 private:
  void Note(const Dataset& dataset);
  bool IsNewestOfAll(const Dataset& dataset) const;

  std::vector<DatasetPtr> order_;
  bool sorted_ = true;
  bool all_of_launches_ = true;  // then each stands by its own launch and id
  // The highest of all that were there when it was sorted, or have come since.
  LaunchId launch_ = 0;
  DatasetId id_ = 0;
  std::int64_t scrs_created_us_ = std::numeric_limits<std::int64_t>::min();  // of SCR's own
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_AGE_ORDER_H_
