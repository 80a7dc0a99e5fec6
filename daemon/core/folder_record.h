// What a record in the folder that is redundant itself says of a dataset that is whole there.
#ifndef CAIRN_DAEMON_CORE_FOLDER_RECORD_H_
#define CAIRN_DAEMON_CORE_FOLDER_RECORD_H_

#include <vector>

#include "daemon/core/dataset.h"
#include "proto/catalogue.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"

namespace cairn {

// Has the record been made of this very dataset?
bool IsOf(const kept::Whole& record, const Dataset& dataset);

kept::Whole FolderRecordOf(const RunId& run, const Dataset& dataset);

// The dataset, in that folder and nowhere else. `ranks`: the catalogues of all, rising.
Dataset DatasetOf(const kept::Whole& record, std::vector<catalogue::Catalogue> ranks);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_FOLDER_RECORD_H_
