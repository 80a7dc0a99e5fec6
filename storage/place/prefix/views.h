// The BP5 views of datasets of protected memory: ckpt.<id>.bp/ (storage/place/view). Made after the commit, removed
// before the bytes; what goes wrong with one harms no dataset. Calls block on disk.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_VIEWS_H_
#define CAIRN_STORAGE_PLACE_PREFIX_VIEWS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {

// As Prefix::MakeView and Prefix::MakeMissingViews.
//   kAborted                     the dataset was removed meanwhile; so was the view
//   kDataLoss, kInvalidArgument  a catalogue or a checkpoint file cannot be shown
absl::Status MakeView(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id,
                      const std::vector<catalogue::Catalogue>& catalogues);
absl::StatusOr<DatasetId> MakeMissingViews(Disk& disk, const std::string& prefix, SharedRecords& records,
                                           DatasetId below, std::size_t at_most);

void WarnOfView(SharedRecords& records, DatasetId id, const absl::Status& why);

// Durably. Nothing there: OK.
absl::Status RemoveView(Disk& disk, const std::string& prefix, DatasetId id);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_VIEWS_H_
