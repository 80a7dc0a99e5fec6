// All that the ranks of one node keep for their redundancy sets, made. Blocks on disks: I/O pool. Stateless.
#ifndef CAIRN_STORAGE_JOB_PROTECT_KEEP_H_
#define CAIRN_STORAGE_JOB_PROTECT_KEEP_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/scr/descriptor.h"
#include "storage/io/disk.h"
#include "storage/place/cache/spare_files.h"
#include "storage/place/run_identity.h"

namespace cairn {

// Where a node has the dataset: its folder on a disk. All borrowed.
struct DatasetAt {
  Disk* disk = nullptr;
  std::string folder;
};

// A dataset before this one that lies here, too.
struct EarlierDataset {
  std::string folder;  // on the same disk
  scr::Descriptor descriptor;
  std::uint64_t step = 0;
};

struct KeepWish {
  DatasetAt here;
  RunIdentity run;
  scr::Descriptor descriptor;  // `held`: the ranks here
  std::uint64_t step = 0;
  std::vector<kept::Set> sets;          // in which ranks that are here are members
  std::map<Rank, DatasetAt> elsewhere;  // where all other members are
  // Copies (PARTNER) of which are here for the same sets: blocks of 1 MiB with the same checksum do not come again. The
  // first that can be used is. They may go meanwhile. With checksums (XOR, RS) all members' bytes are needed anyhow.
  std::vector<EarlierDataset> earlier = {};
  // Files on the same disk that are written over, in this order, by those of data; those that are left are removed.
  std::vector<SpareFile> spares = {};
  std::uint64_t bytes_max = UINT64_MAX;  // room for what files of data have to have for others
};

// Makes the redundancy files, of data and of filemaps, of each rank here that is a member. The record names them, and
// behind them what the record that is there names for other sets: it stays, under another name where a new file needs
// its own. It is for CacheFolder::Protect to write, and nothing is believed before; until then the record that is there
// names all that it did, also after an error or a crash.
// A file of data that the record that is there names for the same set is kept as it is: what it protects does not
// change. `throttle`: of what is read from other nodes.
//   kInvalidArgument  a set is none, or a member is neither here nor in `elsewhere`
//   kDataLoss         a member's file is not what it should be: names it
//   kCancelled        `progress.stop`
//   others            of a disk
absl::StatusOr<kept::Record> MakeKept(const KeepWish& wish, Throttle& throttle, TransferProgress& progress);

// The record that is there; there is none, or a damaged one: one that names nothing, of this dataset.
absl::StatusOr<kept::Record> ReadKept(const KeepWish& wish);

// So many bytes MakeKept will write at most, as far as the sizes of the ranks' files tell: for its room. `bytes`: of
// each member's files, catalogue and filemap among them. Pure.
std::uint64_t KeptBytesOf(const kept::Set& set, const std::map<Rank, std::uint64_t>& bytes, Rank member);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_PROTECT_KEEP_H_
