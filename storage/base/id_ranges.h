// A set of dataset ids, kept as ranges: those of a run are mostly consecutive. Not thread-safe for changes.
#ifndef CAIRN_STORAGE_BASE_ID_RANGES_H_
#define CAIRN_STORAGE_BASE_ID_RANGES_H_

#include <cstddef>
#include <map>

#include "storage/base/ids.h"

namespace cairn {

class IdRanges {
 public:
  bool Contains(DatasetId id) const;
  void Add(DatasetId id) { AddRange(id, id); }
  void AddRange(DatasetId first, DatasetId last);  // both in it. REQUIRES: first <= last < 2^64 - 1
  void Remove(DatasetId id);
  bool empty() const { return ranges_.empty(); }

  const std::map<DatasetId, DatasetId>& ranges() const { return ranges_; }  // first -> last, apart from each other
  friend bool operator==(const IdRanges&, const IdRanges&) = default;

 private:
  std::map<DatasetId, DatasetId> ranges_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_ID_RANGES_H_
