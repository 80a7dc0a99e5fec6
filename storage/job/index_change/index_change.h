// One change of a prefix's index, and what it did: in the manner of scr_index, without a daemon. Calls block on disk.
// Stateless, hence thread-safe.
#ifndef CAIRN_STORAGE_JOB_INDEX_CHANGE_INDEX_CHANGE_H_
#define CAIRN_STORAGE_JOB_INDEX_CHANGE_INDEX_CHANGE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/index_tools.h"

namespace cairn {

enum class IndexChange : std::uint8_t { kCurrent, kDrop, kDropAfter, kRemove, kAdd };

struct IndexChanged {
  // What the change is about: the dataset that is current or was added, or those that are gone.
  std::vector<IndexRow> rows;
  DatasetId current_before = 0, current_after = 0;  // 0: none
  std::string current_name{};                       // afterwards
};

// The row that is current; null: none. Points into `rows`.
const IndexRow* CurrentOf(const std::vector<IndexRow>& rows);

// `name`: a dataset's name in the index, or its number. Errors of index_tools.h.
absl::StatusOr<IndexChanged> ChangeIndex(Disk& disk, const std::string& prefix, IndexChange change,
                                         const std::string& name);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_INDEX_CHANGE_INDEX_CHANGE_H_
