// <prefix>/.cairn: the folder of a run's identity, launches and ids, and the numbered records in it, each made once and
// complete (storage/io/create_once.h). Calls block on disk. Stateless, hence thread-safe.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_CAIRN_FOLDER_H_
#define CAIRN_STORAGE_PLACE_PREFIX_CAIRN_FOLDER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/format/kvtree/tree.h"
#include "storage/io/disk.h"

namespace cairn::cairn_folder {

std::string Of(const std::string& prefix);  // <prefix>/.cairn

// The folder is there, a directory, the caller's own and closed to others; made if need be.
absl::Status Make(Disk& disk, const std::string& prefix);
// Of a folder that is there, as Disk::Info tells it: kPermissionDenied, if it is not so.
absl::Status CheckClosed(const std::string& prefix, const FileInfo& info);

// Names in it. `fresh`: from the server (storage/io/fresh_list.h); else as this node has them. No folder: none.
absl::StatusOr<std::vector<std::string>> Names(Disk& disk, const std::string& prefix, bool fresh);

// The numbers of names stem + number, up to `number_max`, ascending.
std::vector<std::uint64_t> Numbers(const std::vector<std::string>& names, std::string_view stem,
                                   std::uint64_t number_max = UINT64_MAX);

// Makes a record: kAlreadyExists, others of CreateFileOnce. What relies on the folder's own name being durable is one
// of these: it becomes so with the record.
absl::Status MakeRecord(Disk& disk, const std::string& prefix, const std::string& name, const kvtree::Tree& tree);

// Of a record that was read: its VERSION is 1 (kFailedPrecondition: a newer program's), a key that lacks is kDataLoss.
absl::Status CheckVersion(const std::string& path, const kvtree::Tree& tree);
absl::Status NamingFile(const std::string& path, const absl::Status& status);  // of a field

}  // namespace cairn::cairn_folder

#endif  // CAIRN_STORAGE_PLACE_PREFIX_CAIRN_FOLDER_H_
