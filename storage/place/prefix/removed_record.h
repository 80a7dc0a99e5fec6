// removed.cairn, in the folder of a dataset's records: it was removed from the prefix, for good, and is not committed
// any more. What a cache still has of it may be restored there, unless the record says BY_USER: then it is removed
// wherever it is, and whoever finds that it has something of it lets go of that. Calls block on disk.
//
// A removal of what was committed renames commit.cairn to it, which takes no room; the record then says what that said.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_REMOVED_RECORD_H_
#define CAIRN_STORAGE_PLACE_PREFIX_REMOVED_RECORD_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {

// Durably. There already: OK. A late commit finds it and gives up.
absl::Status WriteRemoved(Disk& disk, SharedRecords& records, DatasetId id);

// BY_USER, of what is not committed (kFailedPrecondition: it is). Durably; over a record that does not say so.
absl::Status WriteRemovedByUser(Disk& disk, SharedRecords& records, DatasetId id);

// False: no record, or one that does not say so. kDataLoss: damaged.
absl::StatusOr<bool> IsRemovedByUser(Disk& disk, const SharedRecords& records, DatasetId id);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_REMOVED_RECORD_H_
