// Commits datasets in the prefix, and reads their catalogues. Calls block on disk.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_COMMIT_H_
#define CAIRN_STORAGE_PLACE_PREFIX_COMMIT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {

absl::Status StoreCatalogue(Disk& disk, const std::string& prefix, const catalogue::Catalogue& catalogue);

// Whether dataset `id` may still be committed, by what the records say; asked before anything gives way to it.
//   kAborted  never: it was removed, or SCR has given out its id again (TakenByScr)
//   others    not as long as commit.cairn is damaged or of an unknown version
absl::Status CheckMayCommit(SharedRecords& records, DatasetId id);
// The last of these, by the index alone; and also by what SCR has left of a dataset that was dropped from the index.
absl::Status CheckNotScrs(DatasetId id, const kvtree::Tree& index);
absl::Status CheckNumber(SharedRecords& records, DatasetId id, const kvtree::Tree& index);
// If that is what the status says: the name of SCR's dataset.
std::optional<std::string> TakenByScr(const absl::Status& status);

// SCR's lists in the folder of the dataset's records: parts before the root, the root before the summary, so that
// nothing names what is not there yet. `files`: paths below the prefix, by rank.
absl::Status WriteFileLists(Disk& disk, const std::string& folder, const scr::Descriptor& descriptor,
                            const std::vector<std::vector<std::string>>& files);

// A commit in two steps. Between them others may give way to it: it is there, and counts.
struct MadeCommit {
  enum class Before : std::uint8_t { kNo, kMeanwhile, kFound };  // was it there: no; another came first just now; yes
  CommitRecord commit;
  Before before = Before::kNo;
};
// Up to commit.cairn and the look whether it counts. As Prefix::Commit, but for kAlreadyExists.
absl::StatusOr<MadeCommit> MakeCommit(Disk& disk, const std::string& prefix, SharedRecords& records,
                                      const scr::Descriptor& descriptor,
                                      const std::vector<catalogue::Catalogue>& catalogues, LaunchId committer);
// Into the index. kAlreadyExists: it had been committed before.
absl::Status EnterMade(const std::string& prefix, SharedRecords& records, const MadeCommit& made);

// As Prefix::Commit and Prefix::Catalogues. `committer` 0: the user's will, or SCR's: no launch fences it.
absl::Status CommitDataset(Disk& disk, const std::string& prefix, SharedRecords& records,
                           const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                           LaunchId committer);
// A commit that was fenced counts from now on: the user's will.
absl::Status CommitAgain(Disk& disk, SharedRecords& records, const CommitRecord& fenced);
absl::StatusOr<std::vector<catalogue::Catalogue>> ReadCatalogues(Disk& disk, const std::string& prefix,
                                                                 SharedRecords& records, DatasetId id);

// Those that lie in ckpt.<id>, whether the dataset is committed or not. One that is damaged, or another's, names
// nothing of this dataset; one that the disk does not give now may (kUnavailable).
absl::StatusOr<std::vector<catalogue::Catalogue>> StoredCatalogues(Disk& disk, const std::string& prefix,
                                                                   const RunIdentity& identity, DatasetId id);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_COMMIT_H_
