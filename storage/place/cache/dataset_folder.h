// One dataset's folder in the cache: its records as Cairn and SCR read them. Calls block on disk. Stateless.
//
// Cairn's own records are the catalogues; each filemap holds the dataset's descriptor beside them. The rest (META,
// redundancy records, ownership lists, encode states) says the same once more, for SCR, and can be made anew.
#ifndef CAIRN_STORAGE_PLACE_CACHE_DATASET_FOLDER_H_
#define CAIRN_STORAGE_PLACE_CACHE_DATASET_FOLDER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/catalogue.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/base/number_ranges.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "storage/format/scr/redset.h"
#include "storage/io/disk.h"
#include "storage/place/cache/sync_batch.h"
#include "storage/place/run_identity.h"

namespace cairn {

// A rank's part of a dataset, as far as the dataset's own records need it.
struct RankFiles {
  Rank rank = 0;
  std::vector<std::string> data;  // absolute: files, then the catalogue
  std::uint64_t bytes = 0;        // of all of these
  std::optional<scr::SetDescriptor> set = {};  // of several ranks, in which it is a member; nullopt: SINGLE
};

// The redundancy sets of those ranks that others protect: those of the dataset's record (redundancy_record.h).
using RankSets = std::map<Rank, kept::Set>;
const kept::Set* SetOf(const RankSets& sets, Rank rank);  // nullptr: SINGLE

// A catalogue as it lies in the folder.
struct StoredCatalogue {
  catalogue::Catalogue catalogue;
  std::uint64_t bytes = 0;  // of the file
  std::uint32_t crc32 = 0;
};

std::string RecordsFolder(const std::string& folder);  // <folder>/.scr
std::string FilemapPath(const std::string& folder, Rank rank);
RankFiles RankFilesOf(const std::string& folder, const StoredCatalogue& stored, const RankSets& sets);

// What the cache index says of the dataset once it is whole. FILES and SIZE count the catalogues, too, as SCR would.
scr::CacheEntry CompleteEntry(const std::string& folder, const scr::Descriptor& descriptor,
                              const std::vector<RankFiles>& ranks);

// A rank's records as trees, by absolute path.
struct RankRecords {
  using Tree = std::pair<std::string, kvtree::Tree>;
  Tree filemap;
  std::vector<Tree> of_data;             // set descriptor and, of a set of one, redundancy header of the files
  std::vector<std::string> directories;  // that hold the files
};
// kFailedPrecondition: a file is missing or has another size than the catalogue says. The catalogue is one of them.
absl::StatusOr<RankRecords> MakeRankRecords(Disk& disk, const std::string& folder, const std::string& prefix,
                                            const scr::Descriptor& descriptor, const StoredCatalogue& stored,
                                            const RankSets& sets);
// The records that protect a filemap, which is in place.
absl::StatusOr<std::vector<RankRecords::Tree>> MakeFilemapRecords(Disk& disk, const std::string& folder, Rank rank,
                                                                  std::uint32_t nranks, const RankSets& sets);
// The set descriptor of a member of several. (The redundancy files, headers and all: storage/job/protect/.)
RankRecords::Tree MakeSetDescriptor(const std::string& folder, scr::RedsetKind kind, const kept::Set& set, Rank rank,
                                    std::uint32_t nranks);

// The rank's files are in place in `folder`, synced: writes its catalogue, filemap and redundancy records. They are
// durable once `batch` has run, with the directories that hold them and the files. (None of it is believed before the
// dataset's own records are there.)
//   kFailedPrecondition  a file is missing or has another size than the catalogue says
//   kInvalidArgument     a record would become larger than records may be
absl::StatusOr<RankFiles> WriteRankRecords(Disk& disk, SyncBatch& batch, const std::string& folder,
                                           const std::string& prefix, const scr::Descriptor& descriptor,
                                           const catalogue::Catalogue& catalogue);
// The same without the catalogue and the redundancy files, which are there.
absl::Status RewriteRankRecords(Disk& disk, const std::string& folder, const std::string& prefix,
                                const scr::Descriptor& descriptor, const StoredCatalogue& stored, const RankSets& sets);

// Ownership lists by absolute path: of the ranks that lie here, of so many. The encode states likewise.
std::vector<RankRecords::Tree> MakeOwnershipLists(const std::string& folder, std::uint32_t nranks,
                                                  const std::vector<RankFiles>& ranks);
std::vector<RankRecords::Tree> MakeEncodeStates(const std::string& folder);

// All ranks that lie here have theirs: ownership lists, then, after everything else is synced (the folder's own name,
// too), the encode states.
absl::Status WriteDatasetRecords(Disk& disk, const std::string& folder, std::uint32_t nranks,
                                 const std::vector<RankFiles>& ranks);

// The dataset is given up: nobody finds it whole any more, by whatever records are left. SCR takes it for incomplete,
// and where the index is lost Cairn does, too. Synced. No folder: OK.
enum class Erased : std::uint8_t {
  kGivenUp,    // on a full disk, a record gives its name for the mark that says so
  kToRewrite,  // for a moment: the dataset stays whole, and so do its records; on a full disk there is no mark
};
absl::Status EraseEncodeStates(Disk& disk, const std::string& folder, Erased why = Erased::kGivenUp);
// Were they there once, and have been erased?
absl::StatusOr<bool> IsGivenUp(Disk& disk, const std::string& folder);
// Its bytes go, the mark that it was given up last of all.
absl::Status RemoveGivenUp(Disk& disk, const std::string& folder);

// A record was not read, since it is gone or damaged: then another may say the same. Else the disk refused it (EIO,
// EACCES): it may say it the next time.
bool IsGoneOrDamaged(const absl::Status& status);

// Reads and checks a rank's catalogue; and its files but for their bytes.
//   kDataLoss  what is missing or wrong; other errors: the disk's, which say nothing about the dataset
absl::StatusOr<StoredCatalogue> ReadRank(Disk& disk, const std::string& folder, const RunIdentity& run,
                                         const scr::Descriptor& descriptor, Rank rank);
// All ranks that lie here (Descriptor::held), rising. Errors as of ReadRank.
absl::StatusOr<std::vector<StoredCatalogue>> ReadDataset(Disk& disk, const std::string& folder, const RunIdentity& run,
                                                         const scr::Descriptor& descriptor);

// What the dataset is, by the first of its filemaps that can be read and says so: with id, name, launch and ranks, but
// without what is only known when it is complete, and which ranks lie here. If the disk refused filemaps before that
// one, `refused`, if given, gets which, and why.
//   kNotFound  all can be read, and none says so; other errors: the disk's, of the first filemap that it refused
absl::StatusOr<scr::Descriptor> FindDescriptor(Disk& disk, const std::string& folder, DatasetId id,
                                               std::vector<std::string>* refused = nullptr);
// The ranks that lie here, of so many, by the ownership list. None: all, or the list is gone or damaged. Errors are the
// disk's.
absl::StatusOr<std::optional<NumberRanges>> FindHeld(Disk& disk, const std::string& folder, std::uint32_t nranks);

// Is it SCR's own? It has filemaps, and nothing of Cairn's. An error is the disk's: what can be read does not decide.
absl::StatusOr<bool> IsScrs(Disk& disk, const std::string& folder);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_DATASET_FOLDER_H_
