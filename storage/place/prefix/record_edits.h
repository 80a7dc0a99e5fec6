// What one change makes of a record of SCR's (index, flush file, nodes file): keys that are set, keys that go. As a
// tree, so that it can be a file of its own until the record has it (changed_file.h). Pure.
//
//   VERSION 1
//   SET / <key> / …                the key's whole tree
//   SET_IN / <key> / <child> / …   of a key that holds a table (datasets, names): one line of it
//   ERASE / <key>,  ERASE_IN / <key> / <child>
//
// Applied twice, the second time makes no difference; so it is if all changes of the end of a history are applied
// again, in their order.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_RECORD_EDITS_H_
#define CAIRN_STORAGE_PLACE_PREFIX_RECORD_EDITS_H_

#include <absl/status/status.h>

#include <string>

#include "storage/format/kvtree/tree.h"

namespace cairn::record_edits {

// The keys whose values are tables: two changes of different lines do not touch each other.
bool IsTable(std::string_view key);

// What makes `after` of `before`. An empty tree: nothing.
kvtree::Tree Between(const kvtree::Tree& before, const kvtree::Tree& after);

//   kFailedPrecondition  another VERSION: nothing was changed
//   kDataLoss            no edits; both name `path`
absl::Status Apply(const std::string& path, const kvtree::Tree& edits, kvtree::Tree& record);

}  // namespace cairn::record_edits

#endif  // CAIRN_STORAGE_PLACE_PREFIX_RECORD_EDITS_H_
