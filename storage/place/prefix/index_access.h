// What the index tools share.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_INDEX_ACCESS_H_
#define CAIRN_STORAGE_PLACE_PREFIX_INDEX_ACCESS_H_

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/identity.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn::index_access {

// All zeros: the prefix is no run of Cairn's, or its identity may not be read.
RunIdentity RunOf(Disk& disk, const std::string& prefix);

// The dataset of that name in the index, or of that number.
std::optional<DatasetId> FindEntry(std::string_view name, const kvtree::Tree& index);

// The one that has records of its own under .scr, in the index or not: by number, or the newest of that name.
// kNotFound.
absl::StatusOr<DatasetId> FindRecords(SharedRecords& records, std::string_view name);

// The files of a dataset of Cairn's as rank2file has them: below the prefix, by rank, the catalogues with them.
using FileLists = std::vector<std::vector<std::string>>;
FileLists ListsOf(const std::vector<catalogue::Catalogue>& catalogues);
// As CheckRecords, of what was read already.
absl::StatusOr<std::vector<std::string>> WrongRecords(Disk& disk, SharedRecords& records, const CommitRecord& commit,
                                                      const FileLists& lists);

absl::Status NoSuchDataset(const std::string& prefix, std::string_view name);

}  // namespace cairn::index_access

#endif  // CAIRN_STORAGE_PLACE_PREFIX_INDEX_ACCESS_H_
