// What `ls` and `show` tell, read from a run's prefix itself: no daemon needed.
#ifndef CAIRN_CLIENT_CLI_PREFIX_VIEW_H_
#define CAIRN_CLIENT_CLI_PREFIX_VIEW_H_

#include <absl/status/statusor.h>

#include <string>

#include "proto/admin.pb.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"

namespace cairn::cli {

// Datasets that are committed on the prefix, by id. kNotFound: `path` is no run's prefix.
absl::StatusOr<admin::ListReply> ListPrefix(Disk& disk, const std::string& path);

// One of them, with its ranks as its catalogues have them; no ranks if SCR itself wrote it. kNotFound, kDataLoss.
absl::StatusOr<admin::ShowReply> ShowPrefix(Disk& disk, const std::string& path, DatasetId id);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_PREFIX_VIEW_H_
