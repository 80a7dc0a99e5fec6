// Files of the application's that are whole on the prefix, but not under their names yet: where they wait. Each way to
// the prefix has a place of its own for them, which the catalogue tells; so no record has to say it. Calls block on
// disk.
//
//   <name>.cairn-work<crc>     beside the place: flush, scavenge (storage/file/transfer/work_file.h)
//   ckpt.<id>/files/<name>     past the cache
//   ckpt.<id>/adopting/<r>.<i> adopted
#ifndef CAIRN_STORAGE_PLACE_PREFIX_WAITING_H_
#define CAIRN_STORAGE_PLACE_PREFIX_WAITING_H_

#include <absl/status/statusor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/io/disk.h"

namespace cairn {

// The path of file number `file` of a catalogue of the application's files; none: it does not wait.
absl::StatusOr<std::optional<std::string>> FindWaiting(Disk& disk, const std::string& prefix,
                                                       const catalogue::Catalogue& catalogue, int file);

// Of all: names below the prefix, and where each waits.
using WaitingFiles = std::map<std::string, std::string>;
absl::StatusOr<WaitingFiles> StillWaiting(Disk& disk, const std::string& prefix,
                                          const std::vector<catalogue::Catalogue>& catalogues);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_WAITING_H_
