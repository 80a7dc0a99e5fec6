// A view on disk: ckpt.<id>.bp/ in the prefix, beside the ckpt.<id>/ that its links lead to. Calls block on disk.
#ifndef CAIRN_STORAGE_PLACE_VIEW_FOLDER_H_
#define CAIRN_STORAGE_PLACE_VIEW_FOLDER_H_

#include <absl/status/status.h>

#include <span>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/view/view.h"
#include "storage/io/disk.h"

namespace cairn::view {

// Do they have all that a view needs? Those of Cairn's own checkpoints do.
bool IsComplete(std::span<const catalogue::Catalogue> catalogues);
// Gives catalogues what a view needs and they do not have: where variables are, by the checkpoint file's own metadata,
// if it is of another system or an older release; the bytes of lone values. Reads no more of the files.
//   kDataLoss  naming a file that is damaged, or does not have what its catalogue says
absl::Status Complete(Disk& disk, const std::string& prefix, std::vector<catalogue::Catalogue>& catalogues);

// Makes the directory `path` with these files and links: under a work name, synced, then renamed, durably. A directory
// of this kind that is there gives way first. kAlreadyExists: it has something in it that no view has.
absl::Status WriteFolder(Disk& disk, const std::string& path, const ViewFiles& files);

// Takes it away, durably, md.idx first: whatever a crash leaves is no directory of BP5. Nothing there: OK. What no view
// has stays in it, and is no error. Directories that links lead to are not looked at.
absl::Status RemoveFolder(Disk& disk, const std::string& path);

}  // namespace cairn::view

#endif  // CAIRN_STORAGE_PLACE_VIEW_FOLDER_H_
