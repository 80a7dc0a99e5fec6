// Removes datasets from the prefix. Calls block on disk.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_REMOVAL_H_
#define CAIRN_STORAGE_PLACE_PREFIX_REMOVAL_H_

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {

// Nobody restores it from now on, durably, and it cannot be committed again; its bytes stay. kFailedPrecondition: it is
// SCR's own.
absl::Status WithdrawDataset(Disk& disk, SharedRecords& records, DatasetId id);

// SCR's own dataset has COMPLETE 0 from now on, durably, in its summary and in the index: SCR and its tools do not
// restore it either. If CURRENT named it, none is current.
absl::Status WithdrawScrDataset(Disk& disk, SharedRecords& records, DatasetId id);

// As Prefix::Remove.
absl::Status RemoveDataset(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id,
                           const std::vector<catalogue::Catalogue>& catalogues);

// Takes away the bytes of removals that a crash cut short: the view, checkpoint files, catalogues and work files in
// ckpt.<id>, and SCR's lists. (The application's own files under names of their own are left: nobody says any more
// whose they are.)
absl::Status FinishRemovals(Disk& disk, const std::string& prefix, SharedRecords& records);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_REMOVAL_H_
