// A rank's files that are lost with their node, found again in its redundancy set by the records of the nodes that are
// left. Blocks on disks: I/O pool. Stateless.
#ifndef CAIRN_STORAGE_JOB_PROTECT_REBUILD_H_
#define CAIRN_STORAGE_JOB_PROTECT_REBUILD_H_

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/scr/descriptor.h"
#include "storage/io/disk.h"
#include "storage/job/protect/keep.h"
#include "storage/place/run_identity.h"

namespace cairn {

struct RebuildWish {
  RunIdentity run;
  scr::Descriptor descriptor;  // `held` says nothing here
  std::uint64_t step = 0;
  kept::Set set;
  Rank lost = 0;                 // a member
  std::map<Rank, DatasetAt> at;  // where the members that are left are
  std::set<Rank> without;        // members whose files are not to be used: they were found to be bad
};

struct Rebuilt {
  std::unique_ptr<Disk> disk;  // that the files can be copied from (rebuilt_disk.h)
  std::string folder;          // there: files under the names that the catalogue has below it
  catalogue::Catalogue catalogue;
};

// The lost rank's catalogue, which has been rebuilt and is sound, of this run, dataset, step and rank; and a disk that
// has all files that it names. All disks of `wish`, `throttle` and `progress` outlive it.
//   kInvalidArgument  `set` is none, or `lost` no member
//   kDataLoss         more is lost or damaged than the scheme bears, the records contradict each other, or what they
//                     make is no such catalogue: names the ranks, or the file
//   others            of a disk
absl::StatusOr<Rebuilt> OpenRebuilt(const RebuildWish& wish, Throttle& throttle, TransferProgress& progress);

// After kDataLoss in what was read from a Rebuilt: which members' files, or what they keep, are not what their records
// say? Reads all of them. The disks' errors count as damage only where they say so.
absl::StatusOr<std::set<Rank>> FindDamagedMembers(const RebuildWish& wish, TransferProgress& progress);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_PROTECT_REBUILD_H_
