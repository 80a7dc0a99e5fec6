// One run's folder in a folder that is redundant itself (redundant.path): of a file system that outlives the loss of
// nodes, and that all nodes of the run mount. Datasets lie there as in a cache:
//
//   <root>/<user>/run.<identity>/scr.dataset.<id>/Ckpt<id>-Rank<r>.fti, rank_<r>.cat, files of the application's
//                                scr.dataset.<id>/.scr/whole.cairn   all of it is there, verified
//                                damaged.<id>.<n>   set aside;   going.<id>.<n>   its removal has begun
//   <root>/<user>/folder.cairn   by which it is known again
//
// Each node brings its own ranks' parts (Bring); when all have, one of them makes the record (Complete), by which alone
// the dataset counts. What goes loses its name first, durably, so that nothing counts of which something is missing.
// Nothing is believed that is not a directory of the user's own, closed to others; below such a one only the user could
// make a link, and none that is met is followed. Calls block on disks that may hang: a lane of its own. Thread-safe for
// different datasets.
#ifndef CAIRN_STORAGE_PLACE_REDUNDANT_REDUNDANT_FOLDER_H_
#define CAIRN_STORAGE_PLACE_REDUNDANT_REDUNDANT_FOLDER_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/catalogue.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/io/disk.h"
#include "storage/place/run_identity.h"

namespace cairn {

class RedundantFolder {
 public:
  // How much is read; and by what a folder is told that is only the place at which its file system is to be mounted:
  // what is put there is on this node's own disk. Such a one is kUnavailable for all calls here.
  struct Checks {
    // None of these is on its device. Disks are borrowed. One that is not there does not matter.
    std::vector<std::pair<Disk*, std::string>> apart_from;
    bool marked = false;  // it has the mark that is expected, if one is
    std::uint64_t catalogues_bytes_max = 1u << 30;  // of a dataset: what has more is kResourceExhausted
  };
  // `disk` is borrowed. Nothing is asked yet.
  RedundantFolder(Disk& disk, const std::string& root, std::string_view user, const RunIdentity& run, Checks checks);

  Disk& disk() const { return disk_; }
  const std::string& path() const { return path_; }
  std::string DatasetPath(DatasetId id) const;

  // The mark of the user's folder, which is made if need be: it is used for the first time.
  absl::StatusOr<std::string> Mark();
  // From now on. `noted_in`: where it can be changed; for errors. Until then the mark is expected that Look has found.
  // True: another one was expected before.
  bool Expect(const std::string& mark, const std::string& noted_in);
  // A call has found that it is not the expected one, since this was asked last.
  bool Differed() { return differed_.exchange(false); }

  struct Found {
    kept::Whole record;
    std::vector<catalogue::Catalogue> ranks;  // all, rising; their files are there in their sizes
  };
  struct Contents {
    std::map<DatasetId, Found> whole;
    std::map<DatasetId, absl::Status> damaged;  // have a record, and are not what it says: why
    std::map<DatasetId, absl::Status> unknown;  // could not be looked at, which says nothing of the others: why
  };
  // Only looks. The run has no folder: nothing.
  //   kUnavailable  there is no `root`, or not the one (Checks): its file system is not mounted
  //   others        the disk's, and kPermissionDenied: see above
  absl::StatusOr<Contents> Look();

  // Where the parts come from: a node's cache. Borrowed.
  struct Source {
    Disk& disk;
    std::string folder;  // of the dataset there
    const std::vector<catalogue::Catalogue>& ranks;
  };
  // These ranks' files and catalogues are there, synced, and have been read back. What had arrived before is not copied
  // again. Errors as of CopyFiles and Look, and:
  //   kDataLoss     a file of the source is damaged or missing: `damaged` has its name below the dataset's folder
  //   kUnavailable  what was written is read back differently
  absl::Status Bring(DatasetId id, const Source& source, Throttle& throttle, TransferProgress& progress,
                     std::string* damaged);
  // All parts are in this very folder, in their sizes, and the dataset counts from now on, durably.
  //   kFailedPrecondition  some are not: another node's folder may be another one; or another dataset is in its place
  absl::Status Complete(const kept::Whole& record);

  // It does not count any more, then its bytes go, or stay aside. Not there: OK.
  absl::Status Remove(DatasetId id) { return MoveAway(id, /*goes=*/true); }
  absl::Status SetAside(DatasetId id) { return MoveAway(id, /*goes=*/false); }
  // What was set aside, what a removal has left, and datasets below `end` that are not whole go, but for `stay`.
  absl::Status Tidy(DatasetId end, const std::set<DatasetId>& stay);

 private:
  struct Expected {
    std::string mark;  // empty: any
    std::string noted_in;
  };
  absl::Status CheckRoot() const;
  absl::Status CheckMounted() const;
  absl::Status CheckMark() const;
  absl::StatusOr<std::string> MarkThere() const;
  Expected expected() const;
  absl::Status MakeFolders() const;
  absl::Status MakeOwnFolder(const std::string& folder) const;
  absl::StatusOr<std::vector<std::string>> Names() const;
  absl::StatusOr<Found> LookAt(DatasetId id) const;
  absl::Status CheckNoLinks(DatasetId id, const std::vector<catalogue::Catalogue>& ranks) const;
  absl::Status CopyParts(DatasetId id, const Source& source, Throttle& throttle, TransferProgress& progress,
                         std::string* damaged);
  absl::Status ReadBack(const std::string& path, const catalogue::FileEntry& entry, TransferProgress& progress);
  absl::Status MoveAway(DatasetId id, bool goes);

  Disk& disk_;
  const std::string root_, user_folder_, path_;
  const RunIdentity run_;
  const Checks checks_;
  mutable absl::Mutex mutex_;
  Expected expected_ ABSL_GUARDED_BY(mutex_);
  mutable std::atomic<bool> differed_{false};
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_REDUNDANT_REDUNDANT_FOLDER_H_
