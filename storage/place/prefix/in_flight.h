// What is on its way to the prefix: its entry in SCR's index from the start, what gives way to it, and flush.scr.
// Calls block on disk.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_IN_FLIGHT_H_
#define CAIRN_STORAGE_PLACE_PREFIX_IN_FLIGHT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/scr_names.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {

// As Prefix::BeginFlush, Withdraw and UpdateFlushFile. `in_place`: the files are there already, and are these; who has
// the same bytes under a name keeps it. `committer`: as RemoveDataset's, of those that give way.
absl::Status BeginInIndex(SharedRecords& records, const scr::Descriptor& descriptor);
// Who would give way, and nobody does: errors as Withdraw's, but for IsFenced.
struct ReplacedDatasets {
  std::map<DatasetId, std::vector<catalogue::Catalogue>> own;
  std::vector<DatasetId> of_scr;
};
absl::StatusOr<ReplacedDatasets> FindReplaced(Disk& disk, const std::string& prefix, SharedRecords& records,
                                              ScrNames& scr_names, DatasetId by, const std::set<std::string>& names,
                                              const std::vector<catalogue::Catalogue>* in_place = nullptr);
absl::StatusOr<std::map<DatasetId, std::vector<catalogue::Catalogue>>> WithdrawReplaced(
    Disk& disk, const std::string& prefix, SharedRecords& records, ScrNames& scr_names, DatasetId by,
    const std::set<std::string>& names, LaunchId committer,
    const std::vector<catalogue::Catalogue>* in_place = nullptr);
absl::Status UpdateFlushEntries(SharedRecords& records, std::string_view node,
                                const std::map<DatasetId, std::optional<scr::FlushEntry>>& entries, bool only_these);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_IN_FLIGHT_H_
