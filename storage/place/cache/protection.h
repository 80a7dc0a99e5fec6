// What a dataset's folder holds of redundancy sets, brought in line with its record (redundancy_record.h): by a call
// that puts a new one in force, and by the next start after one that was cut short. Calls block on disk. Stateless.
#ifndef CAIRN_STORAGE_PLACE_CACHE_PROTECTION_H_
#define CAIRN_STORAGE_PLACE_CACHE_PROTECTION_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <set>
#include <string>
#include <vector>

#include "proto/redundancy.pb.h"
#include "storage/format/scr/descriptor.h"
#include "storage/io/disk.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/run_identity.h"

namespace cairn {

// What SCR's records are to say: of each rank the newest set, if its files have SCR's own names.
RankSets SetsOfRanks(const kept::Record& record);
std::set<std::string> NamesIn(const kept::Record& record);  // of its files, below .scr

// The record as far as it holds: sets of ranks whose files, of data and of filemap, are there in their sizes. What does
// not hold is taken out of it on disk, too, and `warnings` receives why. No record: an empty one. Errors are the
// disk's.
absl::StatusOr<kept::Record> LoadProtection(Disk& disk, const std::string& folder, const RunIdentity& run,
                                            const scr::Descriptor& descriptor, std::vector<std::string>* warnings);

// After a call that was cut short: set descriptors and ownership lists that are sound, but of other sets or ranks, and
// what SINGLE lacks, are made anew as the record (`sets`) has them. What is damaged stays as it is.
absl::Status SettleRedsets(Disk& disk, const std::string& folder, const std::string& prefix,
                           const scr::Descriptor& descriptor, const std::vector<StoredCatalogue>& ranks,
                           const RankSets& sets);

// As CacheFolder::Protect, of a dataset that is whole here.
absl::Status PutProtection(Disk& disk, const std::string& folder, const std::string& prefix, const RunIdentity& run,
                           const scr::Descriptor& descriptor, const kept::Record& record);

// The record, if there is a sound one, does not name this rank any more. Its files stay.
absl::Status EndProtection(Disk& disk, const std::string& folder, const RunIdentity& run,
                           const scr::Descriptor& descriptor, Rank rank);
// The files and the catalogue of a rank that does not lie here any more, by `rest`, go to a folder `<stem>.<n>`, as far
// as they are there.
absl::Status MoveRankAside(Disk& disk, const std::string& folder, const std::string& stem, const scr::Descriptor& rest,
                           Rank rank);

// Ownership lists, each replaced as a whole: the dataset stays whole meanwhile.
absl::Status ReplaceOwnershipLists(Disk& disk, const std::string& folder, std::uint32_t nranks,
                                   const std::vector<RankFiles>& ranks);

// What nothing names any more goes: redundancy files of sets that are not in the record, work names in .scr, and all of
// ranks that do not lie here (Descriptor::held), which were being brought when that was cut short. `ranks`: those that
// do. `kept`: what the record names.
absl::Status RemoveLeftovers(Disk& disk, const std::string& folder, const scr::Descriptor& descriptor,
                             const std::vector<RankFiles>& ranks, const std::set<std::string>& kept);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_PROTECTION_H_
