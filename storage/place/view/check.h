// Is the view of a dataset what its catalogues say? For `cairn verify`. Calls block on disk.
#ifndef CAIRN_STORAGE_PLACE_VIEW_CHECK_H_
#define CAIRN_STORAGE_PLACE_VIEW_CHECK_H_

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/format/view/view.h"
#include "storage/io/disk.h"

namespace cairn::view {

// Reads the metadata of ckpt.<id>.bp in the prefix and compares it, by what it means, with the dataset's catalogues
// (all ranks, by rank); looks where its links lead. Reads no data.
//   kNotFound  it has no view, or is of the application's own files, which have none
//   kDataLoss  naming the file, and what is wrong; or a file that a catalogue names is damaged
absl::Status CheckFolder(Disk& disk, const std::string& prefix, std::vector<catalogue::Catalogue> catalogues);
// The same of the view in `folder`, which should be `wanted`.
absl::Status CheckFolder(Disk& disk, const std::string& folder, const ViewFiles& wanted);

}  // namespace cairn::view

#endif  // CAIRN_STORAGE_PLACE_VIEW_CHECK_H_
