// What a rank's redundancy set needs to know of it, by the records in its node's cache; there, or here by a peer's
// disk. Calls block on disk: I/O pool. Stateless.
#ifndef CAIRN_STORAGE_JOB_PROTECT_MEMBER_H_
#define CAIRN_STORAGE_JOB_PROTECT_MEMBER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

#include "storage/format/scr/records.h"
#include "storage/format/scr/redset.h"
#include "storage/io/disk.h"
#include "storage/job/protect/protect.h"
#include "storage/place/run_identity.h"

namespace cairn {

struct MemberPlace {
  Disk* disk = nullptr;        // borrowed, also by what is answered
  std::string folder;          // the dataset's, on that disk
  RunIdentity run;             // what its catalogue has to say: this run,
  scr::Descriptor descriptor;  // and this dataset
  scr::SetDescriptor set;      // the rank, and its place in its set
};

// Its files (those of kData: data files, then the catalogue), each under the path that its own node knows, with what
// SCR's records say of it. The catalogue has been read and checked, and so has the filemap; of the files only that they
// are there in their sizes.
//   kDataLoss  what is missing, wrong, or of another run or dataset
//   others     the disk's, which say nothing about the dataset
absl::StatusOr<ProtectSource> ReadMember(const MemberPlace& place, scr::RedsetKind kind);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_PROTECT_MEMBER_H_
