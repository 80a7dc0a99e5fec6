// What a rank keeps for the others of its redundancy set: SCR's redundancy file of it, made of their files wherever
// these are (storage/file/redundancy/ has the arithmetic, storage/format/scr/redset.h the header).
// Calls block on disks: I/O pool. Stateless.
#ifndef CAIRN_STORAGE_JOB_PROTECT_PROTECT_H_
#define CAIRN_STORAGE_JOB_PROTECT_PROTECT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/scr/redset.h"
#include "storage/io/disk.h"

namespace cairn {

// What is here already of the same rank's files of an earlier dataset.
struct EarlierCopy {
  std::shared_ptr<Disk> disk;
  std::vector<std::string> paths;  // as those of the source that it is for, the first of these at least
  std::vector<catalogue::FileEntry> sums;
};

// A member of the set.
struct ProtectSource {
  scr::SetMember member;                   // its files as its node's cache has them, in any fixed order
  Disk* disk = nullptr;                    // that has them: this node's, or that of a peer (daemon/bulk/net.h)
  std::vector<std::string> paths;          // by file: its name on that disk
  std::vector<catalogue::FileEntry> sums;  // by file: size and CRC32C that it has to have
  // A block that has the same checksum there is taken from it, and does not come from `disk`; the file's CRC-32 tells
  // at its end whether all blocks were the same. May be null. What cannot be read there comes from `disk`.
  std::shared_ptr<const EarlierCopy> earlier = nullptr;
};

// Makes the redundancy file and the set descriptor of member `member` below `records`, the dataset's .scr here; what is
// there under their names is replaced. Both are synced, under their names. Memory: some 16 MiB; of more
// than 16 members one for each.
// Every byte that goes into it has been compared with its checksum. Answered: size, CRCs, inode of the redundancy file.
// `set`: all members, by set rank. `throttle`: of what is read from the others.
// `over`: a file on `disk` that nothing needs any more: it gets the work name, and is written over, which takes less
// time than to find pages or blocks for a new one. One that cannot be had, or has another name besides, is as good as
// none.
//   kDataLoss  a member's file is not what it should be: names it
//   kAborted   blocks of an earlier copy with the same checksums are not the same: names the file
//   kCancelled `progress.stop`
//   others     of a disk
absl::StatusOr<catalogue::FileEntry> WriteRedundancy(Disk& disk, const std::string& records, scr::RedsetKind kind,
                                                     const std::vector<ProtectSource>& set, std::uint32_t member,
                                                     Throttle& throttle, TransferProgress& progress,
                                                     const std::string& over = "");

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_PROTECT_PROTECT_H_
