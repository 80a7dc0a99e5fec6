// <prefix>/.scr: SCR's index and flush file, which any number of processes may change at the same time
// (changed_file.h), its nodes file, and the commit records that the index is merged from. Calls block on disk.
// Thread-safe.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_SHARED_RECORDS_H_
#define CAIRN_STORAGE_PLACE_PREFIX_SHARED_RECORDS_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/arbiter/arbiter.h"
#include "storage/place/prefix/changed_file.h"
#include "storage/place/prefix/identity.h"
#include "storage/place/prefix/launches.h"
#include "storage/place/prefix/settled.h"

namespace cairn {

// commit.cairn: what makes a dataset Cairn's, and whole. Whether it counts is another question (launches.h).
struct CommitRecord {
  RunId run;
  LaunchId committer = 0;  // the launch under which it was made; 0: none, it counts by existing
  std::int64_t committed_us = 0;
  scr::Descriptor descriptor;
};
kvtree::Tree ToTree(const CommitRecord& commit);
// kDataLoss naming `path` and field.
absl::StatusOr<CommitRecord> ParseCommit(const std::string& path, const kvtree::Tree& tree);

// What <prefix>/.scr says, read at one time.
struct PrefixView {
  kvtree::Tree tree;                          // index.scr
  scr::Index index;                           // the same
  std::map<DatasetId, CommitRecord> commits;  // valid, of this run, not removed, and they count
  std::map<DatasetId, CommitRecord> fenced;   // the same, but a newer launch had been made: only by number
  std::set<DatasetId> removed;                // also those whose removal has begun and counts
  std::set<DatasetId> placing;                // whose files may not be in their places yet (placing.h)
};

// Was the dataset's commit merged into this index (or its entry removed afterwards)?
bool IsMerged(DatasetId id, const kvtree::Tree& index);

class SharedRecords {
 public:
  // `disk` is borrowed. The run all zeros: commit records of any run count. Index, flush and nodes file count as
  // damaged only if they stay so (ReadSettled, with `pause`). `writable`: Launches'. `arbiter`: the run's; null: the
  // prefix itself, which is right for whoever makes no launch and no lease and takes no ids.
  SharedRecords(Disk& disk, std::string prefix, RunIdentity identity, Pause pause = {}, bool writable = true,
                std::unique_ptr<Arbiter> arbiter = nullptr);
  SharedRecords(const SharedRecords&) = delete;

  const RunIdentity& identity() const { return identity_; }
  Launches& launches() { return launches_; }
  Arbiter& arbiter() { return *arbiter_; }
  std::string Folder() const { return prefix_ + "/.scr"; }
  std::string DatasetFolder(DatasetId id) const;
  std::string CommitPath(DatasetId id) const { return DatasetFolder(id) + "/commit.cairn"; }
  std::string RemovedPath(DatasetId id) const { return DatasetFolder(id) + "/removed.cairn"; }

  // As it is; empty: there is none. kDataLoss: damaged.
  absl::StatusOr<kvtree::Tree> ReadIndex() { return index_.Read(); }
  // Only looks. A damaged index reads as an empty one, with a warning.
  absl::StatusOr<PrefixView> Look();
  // The same, but of old datasets that the index has the index is believed: whoever merged a commit has found that it
  // counts, and a removal takes the entry out before all else. So it reads few of a long history's records. Who
  // restores such a dataset finds out what is there.
  absl::StatusOr<PrefixView> LookQuickly();
  // The same, without the commits.
  absl::StatusOr<PrefixView> LookAtIndex();
  // Merges into the index what was committed and is not in its list CAIRN_COMMITTED, but for what is not in its place
  // yet: SCR finds files by their names alone. Reads only such commits.
  absl::Status Mend();

  // kNotFound: no commit record, or the dataset was removed. It may be fenced.
  absl::StatusOr<CommitRecord> ReadCommit(DatasetId id);
  // Does a commit of the dataset count: this one, which was read, or one that was made beside it?
  absl::StatusOr<bool> Counts(const CommitRecord& commit);
  absl::StatusOr<bool> IsRemoved(DatasetId id);
  // Of all folders of records, ascending.
  absl::StatusOr<std::vector<DatasetId>> ListDatasets();
  // Removals by policy that have begun and are not through, whether they count or not: dataset and launch.
  absl::StatusOr<std::set<std::pair<DatasetId, LaunchId>>> ListRemovals();
  // Those whose files may not be in their places yet (placing.h), committed or not.
  absl::StatusOr<std::set<DatasetId>> ListPlacings();
  absl::StatusOr<bool> IsPlacing(DatasetId id);
  std::string PlacingPath(DatasetId id) const;
  // Of those that no index entry was made for, or whose commit was taken back.
  absl::StatusOr<std::vector<DatasetId>> ListUnmerged();

  // As ChangedFile::Make: `change` may run several times. A damaged index is moved aside first and made of what was
  // committed, by Cairn and by SCR. kFailedPrecondition: its VERSION is unknown.
  using Change = ChangedFile::Change;
  absl::Status ChangeIndex(const Change& change) { return index_.Make(change); }
  // ChangedFile::LeaveBehind, of the index.
  void LeaveIndexBehind() { index_.LeaveBehind(); }
  std::uint64_t index_behind() const { return index_.behind(); }
  absl::Status IndexCatchUp() { return index_.CatchUp(); }
  absl::Status ChangeIndexIfNeeded(const Change& change) { return index_.MakeIfNeeded(change); }
  absl::Status ChangeFlush(const Change& change) { return flush_.MakeIfNeeded(change); }
  // nodes.scr holds one number, which the last to come sets.
  absl::Status ChangeNodes(const Change& change);

  // Into the index: the entry, the list of what was merged, CURRENT if it is a newer checkpoint. `verified`: its bytes
  // have just been, so FAILED goes.
  static absl::Status MergeCommit(const CommitRecord& commit, bool verified, kvtree::Tree& index);
  // The same, and CURRENT stays.
  static absl::Status EnterCommit(const CommitRecord& commit, bool verified, kvtree::Tree& index);
  static void Forget(DatasetId id, kvtree::Tree& index);
  // Takes the entry out for good: no Mend brings it back.
  static void Drop(DatasetId id, kvtree::Tree& index);

  // Is there a whole record of SCR's own (summary.scr)? Its descriptor; kNotFound: none, or one of Cairn's;
  // kFailedPrecondition: not complete; kDataLoss.
  absl::StatusOr<scr::Descriptor> ReadScrSummary(DatasetId id);

  void Warn(std::string text);
  std::vector<std::string> TakeWarnings();

 private:
  std::string IndexPath() const { return Folder() + "/index.scr"; }
  struct Folders {
    std::vector<DatasetId> datasets;                    // ascending
    std::set<std::pair<DatasetId, LaunchId>> removals;  // marks, whether they count or not
    std::set<DatasetId> placings;                       // marks
  };
  absl::StatusOr<Folders> List();
  absl::StatusOr<bool> Counts(const CommitRecord& commit, const Launches::State& state);
  struct Commits {
    std::map<DatasetId, CommitRecord> counting, fenced;
    std::set<DatasetId> removed, placing;
    std::vector<DatasetId> passed_over;
  };
  using PassOver = std::function<bool(DatasetId)>;
  // But for those that need not be read.
  absl::StatusOr<Commits> ReadCommits(const PassOver& pass_over);
  absl::StatusOr<Commits> ReadUnder(const Launches::State& state, const PassOver& pass_over);
  // Who may not write cannot ask the server: of a dataset whose flush began after the index was read the index says
  // nothing, and the launches may be too old to tell whether it counts. So only what was there `before` is shown.
  absl::StatusOr<std::optional<std::set<DatasetId>>> ListBefore();
  absl::StatusOr<PrefixView> LookAt(PrefixView view, const std::set<DatasetId>* before, const PassOver& pass_over);
  NumberRanges Merged();
  absl::Status ReadOne(DatasetId id, const Launches::State& state, Commits& commits);
  absl::Status MendTree(kvtree::Tree& index);
  absl::Status EnterScrDatasets(kvtree::Tree& index);

  Disk& disk_;
  const std::string prefix_;
  const RunIdentity identity_;
  const Pause pause_;
  const bool writable_;
  const std::unique_ptr<Arbiter> arbiter_;
  Launches launches_;
  ChangedFile index_, flush_;
  absl::Mutex warnings_mutex_;
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(warnings_mutex_);
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_SHARED_RECORDS_H_
