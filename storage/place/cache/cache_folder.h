// One run's folder in a node's cache: where datasets lie, and the records that say which of them are whole.
//
//   <cache>/<user>/scr.<run>/run.cairn, cindex.scrinfo, flush.cairn
//   <cache>/<user>/scr.<run>/scr.dataset.<id>/…  files, rank_<r>.cat, .scr/filemap_<r>, .scr/reddesc…
//
// Who owns the truth: the files. A rank: data synced under work names (by the caller), renamed; catalogue, filemap and
// the rank's redundancy records (scheme SINGLE) beside it, all synced at once, with their directories. A dataset:
// ranks; ownership lists; the encode states (STATE 2) when all that is synced; then its entry with COMPLETE 1, synced:
// none of the rest is believed without it. A crash anywhere leaves either a whole dataset with COMPLETE 1 or one that
// Load removes. (SCR writes an entry before the directory, too, so that a crash leaves a record. Here a folder without
// entry is record enough, and a begin costs no sync.) What is given up loses its entry first, then its encode states,
// both synced, then its bytes: so the index can be made anew from the folders when it is lost. Open, then Load, then
// the rest. Where the index is damaged, nothing can be begun before Load has made it anew. All calls block on disk: I/O
// pool, not a strand. Thread-safe: calls for different datasets and ranks run concurrently, the cache index is written
// by one at a time and changes waiting for it are written together.
#ifndef CAIRN_STORAGE_PLACE_CACHE_CACHE_FOLDER_H_
#define CAIRN_STORAGE_PLACE_CACHE_CACHE_FOLDER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/catalogue.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/cache/aside.h"
#include "storage/place/cache/dataset_store.h"
#include "storage/place/cache/run_folder.h"
#include "storage/place/cache/scr_datasets.h"
#include "storage/place/run_identity.h"

namespace cairn {

struct CachedDataset {
  scr::Descriptor descriptor;
  std::vector<catalogue::Catalogue> ranks;  // those that lie here (Descriptor::held), rising; all of these are there
  kept::Record redundancy;  // what these keep for other nodes' ranks: its files are there in their sizes
};

// What this node notes of the run's datasets (storage/place/node_record.h), in the run's folder.
inline constexpr std::string_view kFlushRecordName = "flush.cairn";

struct CacheLoad {
  std::map<DatasetId, CachedDataset> whole;
  std::vector<DatasetId> removed;     // were never whole
  std::vector<ScrCached> scrs;        // SCR's own, which it has written here
  std::vector<Aside> asides;          // oldest first
  std::vector<std::string> warnings;  // records damaged or set aside, for log and `cairn status`
  DatasetId highest_id = 0;           // of everything seen
};

class CacheFolder : public DatasetStore {
 public:
  // Finds the run's folder below `<cache>/<user>/` by the identity in run.cairn, or makes it (0700) as
  // scr.<name>-<8 hex digits>. kPermissionDenied if it belongs to another user or others may write to it.
  static absl::StatusOr<std::unique_ptr<CacheFolder>> Open(Disk& disk, const std::string& cache, std::string_view user,
                                                           std::string_view run_name, const RunIdentity& run,
                                                           const std::string& prefix);
  // The runs that have a folder below `<cache>/<user>/`, for a daemon that starts: what Open wants to know of each. Of
  // a folder whose run.cairn is lost or damaged, what its datasets say. Folders that do not say are none. No such
  // directory: none. `unread`, if given, gets those that are some run's, but nobody can say whose: run.cairn could not
  // be read this time, or is damaged, or is lost and the datasets could not be read this time; and why.
  struct Found {
    std::string path;
    std::string run_name;
    RunIdentity run;
    std::string prefix;   // as last opened on this node
    LaunchId served = 0;  // the newest launch that this cache's daemons have served
  };
  static absl::StatusOr<std::vector<Found>> Find(Disk& disk, const std::string& cache, std::string_view user,
                                                 std::vector<std::string>* unread = nullptr);

  virtual const std::string& path() const = 0;
  virtual std::string prefix() const = 0;
  virtual RunRecord record() const = 0;  // run.cairn
  // Changes run.cairn, durably: where the prefix is now, what it was before, and its launches. `change` may look at
  // what was noted; the run itself stays.
  virtual absl::Status ChangeRecord(const std::function<void(RunRecord& record)>& change) = 0;
  virtual std::string DatasetPath(DatasetId id) const = 0;

  // After a start: removes what was never whole (work names, entries without COMPLETE, folders without entry), checks
  // that every file of the rest is there in its size, reads the catalogues. A dataset that lacks a file or a sound
  // catalogue is set aside (folder renamed to damaged.<id>.<n>), reported, and not whole. What else is damaged or
  // missing is made anew and reported: filemaps, redundancy records (those of scheme SINGLE; a rank whose redundancy
  // files are gone protects no other any more), ownership lists, encode states from the catalogues; the index from the
  // folders, with those that their own records show to be whole (the others go aside). What Protect or Reopen left when
  // it was cut short goes, which is not reported.
  // What SCR itself wrote into the folder is left alone, and so it is by all calls below: under its number they answer
  // kAlreadyExists. Errors are the disk's, for the folder as a whole.
  virtual absl::StatusOr<CacheLoad> Load() = 0;
  // What SCR itself has written here by now. Only looks.
  virtual absl::StatusOr<std::vector<ScrCached>> FindScrs() = 0;

  // What lies aside here by now, oldest first. Only looks. Errors are the disk's, for the folder as a whole.
  virtual absl::StatusOr<std::vector<Aside>> FindAsides() = 0;
  // Its bytes go; not there: OK. First its name says so, durably: what is left of it after an error, or a crash, is
  // kGoing, and the next Load removes it.
  // REQUIRES: of kInPlace nobody reads the dataset or makes it anew.
  virtual absl::Status RemoveAside(const Aside& aside) = 0;

  // --- Before Load: what a daemon that was killed has begun ---
  // Datasets of checkpoint files that are not whole and were not given up, of which some ranks are committed. Where the
  // index is damaged: none. Only looks. Errors are the disk's, for the folder as a whole.
  struct Unfinished {
    std::vector<scr::Descriptor> datasets;
    // The disk does not let anybody see whether these are such, and why. Load leaves their folders alone.
    std::map<DatasetId, absl::Status> unread;
    // Filemaps that could not be read, and why; others say what these would.
    std::vector<std::string> refused;
  };
  virtual absl::StatusOr<Unfinished> FindUnfinished() = 0;
  // The ranks that may be committed: each that has a catalogue in the dataset's folder, sound or not. Only looks.
  virtual absl::StatusOr<std::set<Rank>> FindRanks(DatasetId id) = 0;
  // It is open as after Begin, with those ranks committed that were so soundly: these are returned. The rest may be
  // committed now, and all be completed. If that does not come to be, Load removes it as it would have.
  //   kAlreadyExists       it is whole here, or the folder is SCR's own
  //   kFailedPrecondition  what lies there was given up, or is of another dataset
  virtual absl::StatusOr<std::vector<Rank>> TakeUp(const scr::Descriptor& descriptor) = 0;
  // It is given up: OK: it does not come back, and Load removes it, the bytes first. What is whole stays so: OK.
  //   kAlreadyExists  the folder is SCR's own
  virtual absl::Status Drop(DatasetId id) = 0;

  // Of DatasetStore: after an error of Begin nothing is left that the next Load would not remove. Complete: encode
  // states, then COMPLETE 1; OK: the dataset is at `local`. Remove takes away damaged files that SetAside kept, too.

  // --- What its ranks keep for other nodes' ranks. The dataset is whole here ---
  // The redundancy files that the record names, and the set descriptors, are in place, synced: the record, then SCR's
  // ownership lists say so, and what the ranks had in .scr for other sets goes. Ranks that it does not name are SINGLE.
  // After a crash or an error either record holds, or none.
  //   kInvalidArgument     the record is not sound, of another dataset, or of a rank has data or filemap only
  //   kFailedPrecondition  the dataset is not here or is open, or a file is not as the record says
  virtual absl::Status Protect(const scr::Descriptor& descriptor, const kept::Record& record) = 0;

  // --- More ranks of a dataset that is whole here ---
  // Ranks that other nodes have lost may be committed now (CommitRank, CommitRankFiles); Complete, with all ranks that
  // lie here then, ends it. Until then it stays as it is, also for Load, which takes away what of others it finds.
  //   kFailedPrecondition  it is not here, or is open
  virtual absl::Status Reopen(const scr::Descriptor& descriptor) = 0;
  // Ends it without them: what was committed since Reopen is not believed, and goes, at the latest with the next Load.
  // After Retire, SetAside, Remove and SetDatasetAside there is nothing to be ended.
  virtual void EndReopened(DatasetId id) = 0;

  // --- Fewer ranks of it ---
  // A rank's files are damaged, and others lie here, too: it is whole here without that rank, and what the others keep
  // stays. The rank's files go to damaged.<id>.<n>. After a crash or an error it is whole with that rank or without.
  //   kFailedPrecondition  the dataset is not here or is open, or no other rank lies here
  //   others               nothing has changed
  virtual absl::Status SetRankAside(DatasetId id, Rank rank) = 0;

  // The dataset is given up for its files: its entry and encode states go, synced, so that nothing believes in it any
  // more; then the bytes stay where they are for others to take (by rename out of the folder) until Remove. The next
  // Load removes what is left. Not there: kNotFound.
  virtual absl::Status Retire(DatasetId id) = 0;

  // Can files here share extents (Disk::Clone)? Tried when the folder was opened.
  virtual bool shares_extents() const = 0;

  // A copy found damaged: the file keeps its bytes under a name of its own (<name>.damaged.<n>), the dataset's entry
  // loses COMPLETE. It is never used again; the next Load moves the folder aside. `file`: its name in the dataset's
  // directory, or its path.
  virtual absl::Status SetAside(DatasetId id, const std::string& file, std::string_view why) = 0;

  // The whole dataset goes aside, as Load would do it after SetAside: its folder to damaged.<id>.<n>, or, if nothing is
  // wrong with it but that its number is another's now, to taken.<id>.<n>, with all bytes; then its entry goes, and
  // Begin may make the dataset anew. Not there: OK.
  enum class Why : std::uint8_t { kDamaged, kNumberTaken };
  virtual absl::Status SetDatasetAside(DatasetId id, Why why = Why::kDamaged) = 0;

  // flush.cairn: opaque progress of this node's flushes (datasets that are on the prefix), replaced atomically.
  virtual absl::Status StoreFlushRecord(const kvtree::Tree& record) = 0;
  virtual absl::StatusOr<kvtree::Tree> LoadFlushRecord() = 0;  // absent: empty; damaged: kDataLoss
};

// The catalogues of a dataset in a folder that is not this node's: of the ranks that lie there (Descriptor::held), each
// of this run and dataset, and its files are there in their sizes. `folder`: the dataset's. Only looks.
//   kDataLoss           what is missing or wrong
//   kResourceExhausted  they have more than `bytes_max` together
//   other errors        the disk's, which say nothing about the dataset
absl::StatusOr<std::vector<catalogue::Catalogue>> ReadCatalogues(Disk& disk, const std::string& folder,
                                                                 const RunIdentity& run,
                                                                 const scr::Descriptor& descriptor,
                                                                 std::uint64_t bytes_max = 1u << 30);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_CACHE_FOLDER_H_
