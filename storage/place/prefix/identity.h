// Which run a directory is: <prefix>/.cairn/run, made by the first opener, names the run and the directory that it was
// made in. A directory that is not the one named is a copy: its next opener makes run.<k>, the next k, and so a branch,
// a run of its own that notes its parent. The highest k counts, none is ever rewritten. Calls block on disk. Stateless,
// hence thread-safe.
//
// Is it the one named? By the inode of .cairn, and its birth time where the file system tells one, on file systems
// whose inodes say that (storage/io/file_system_kind.h). Elsewhere by the path, as this node has last seen the run.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_IDENTITY_H_
#define CAIRN_STORAGE_PLACE_PREFIX_IDENTITY_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/run_identity.h"

namespace cairn::identity {

// SCR keeps ids in an int, and so does FTI: none above is given out, and what is named so is not a dataset's.
inline constexpr DatasetId kDatasetIdMax = 0x7fffffff;

// Where this node has last seen a run, if it has. REQUIRES: of a run that it has never seen it answers nothing; else
// each branch that Make makes would look like a copy again.
using KnownPath = std::function<std::optional<std::string>(const RunId& run)>;

// Only looks. kNotFound: none; kDataLoss: a file of it holds something else.
absl::StatusOr<RunIdentity> Read(Disk& disk, const std::string& prefix, const KnownPath& known = {});
// Makes what is missing: the run, or the branch. `prefix`: without links.
absl::StatusOr<RunIdentity> Make(Disk& disk, const std::string& prefix, const KnownPath& known = {});

// The run that was made out to be a branch is the run that it was: it has moved (mv to another file system, rsync,
// lfs migrate, a restore from tape), and is no copy. Its caches are used again.
//   kNotFound            no run
//   kFailedPrecondition  nothing is to be taken back; or the run still lives where it was, as far as this node sees
absl::StatusOr<RunIdentity> TakeBack(Disk& disk, const std::string& prefix);

// Whether what was opened is still there, without a listing: the folder, its record, and no newer one. Answers the
// identity that is there now; kNotFound: none.
class Opened {
 public:
  static absl::StatusOr<Opened> Open(Disk& disk, const std::string& prefix, RunIdentity identity);
  const RunIdentity& identity() const { return identity_; }
  absl::StatusOr<RunId> Now(Disk& disk) const;

 private:
  std::string prefix_;
  RunIdentity identity_;
  std::uint64_t inode_ = 0, device_ = 0;
};

}  // namespace cairn::identity

#endif  // CAIRN_STORAGE_PLACE_PREFIX_IDENTITY_H_
