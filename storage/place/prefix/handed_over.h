// Datasets of Cairn's that SCR has brought to the prefix: a job of SCR's on Cairn's cache flushes what it finds there,
// and SCR's drain copies it when a job has ended. The bytes are there, the catalogues and SCR's records; what is
// missing is commit.cairn. Calls block on disk.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_HANDED_OVER_H_
#define CAIRN_STORAGE_PLACE_PREFIX_HANDED_OVER_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {

// Was the dataset brought by SCR: complete by index and summary, with a descriptor of Cairn's, and neither committed
// nor removed?
absl::StatusOr<bool> IsHandedOver(Disk& disk, SharedRecords& records, const scr::IndexEntry& entry);

// Commits those of `view` whose ranks all have their catalogues, and whose files all have their sizes; the newest 16
// are looked at. Others are warned of. CURRENT stays as SCR has left it. Answers whether any was committed.
absl::StatusOr<bool> CommitHandedOver(Disk& disk, const std::string& prefix, SharedRecords& records,
                                      const PrefixView& view);

// Commits a dataset whose files others than Cairn have put in place, over files of older ones perhaps, by the protocol
// of storage/place/publish/protocol.h; makes no view. What goes wrong after the commit is a warning of `records`.
//   kAlreadyExists       it is committed
//   kAborted             a newer dataset has one of its names, with other bytes; as Prefix::Withdraw
//   kFailedPrecondition  a link leads from a place of its files to the records
//   others               as Prefix::Commit
absl::Status CommitInPlace(Disk& disk, const std::string& prefix, SharedRecords& records,
                           const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_HANDED_OVER_H_
