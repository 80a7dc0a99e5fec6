// The datasets of a prefix: index.scr. SCR specification, section 8.
#ifndef CAIRN_STORAGE_FORMAT_SCR_PREFIX_INDEX_H_
#define CAIRN_STORAGE_FORMAT_SCR_PREFIX_INDEX_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/descriptor.h"

namespace cairn::scr {

struct IndexEntry {
  Descriptor descriptor;
  bool complete = false;
  std::string flushed;               // local time YYYY-MM-DDTHH:MM:SS; empty: absent
  std::vector<std::string> fetched;  // oldest first
  std::string failed;                // empty: absent
};

struct Index {
  std::string current;  // empty: absent
  std::map<DatasetId, IndexEntry> datasets;
};

//   kFailedPrecondition  VERSION is not 2, or not there
//   kDataLoss            an id that is none, or a bad field; names the dataset
absl::StatusOr<Index> GetIndex(const kvtree::Tree& tree);

// Enters the dataset or changes its entry, maps its name to it, and sets VERSION; CURRENT and unknown keys stay. Of
// several datasets of one name it leads to the newest that is complete; but a name that is CURRENT stays where it is.
void PutIndexEntry(const IndexEntry& entry, kvtree::Tree& index);
// The name leads to the dataset from now on, whichever others have it.
void PutName(DatasetId id, std::string_view name, kvtree::Tree& index);

// Removes the entry; the names that lead to it lead to the newest other dataset of that name, or go. If it was current,
// CURRENT moves to the newest older complete checkpoint that has not failed, or goes.
void EraseIndexEntry(DatasetId id, kvtree::Tree& index);

// The dataset of that name; none if the name is unknown or stale (SCR reuses ids and leaves old names behind).
std::optional<DatasetId> FindByName(std::string_view name, const kvtree::Tree& index);

// Empty: no current one. Otherwise `name` has to be a checkpoint of the index, which is for the caller to look up.
void SetCurrent(std::string_view name, kvtree::Tree& index);

// As the index has it: YYYY-MM-DDTHH:MM:SS in this process's time zone.
std::string LocalTime(std::int64_t us_since_epoch);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_PREFIX_INDEX_H_
