// A dataset that SCR itself put into a prefix: no catalogues, no checksums, but summary.scr, rank2file and, after a
// scavenge, filemaps. Calls block on disk.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_SCR_DATASET_H_
#define CAIRN_STORAGE_PLACE_PREFIX_SCR_DATASET_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {

struct FlushedFile {
  std::string name;  // below the prefix, normalized
  FileInfo info;
  std::optional<std::uint32_t> crc32;  // where a filemap has it
};

struct FlushedDataset {
  scr::Descriptor descriptor;  // with ranks, step (its number as a checkpoint, else its id) and own_files
  std::vector<std::vector<FlushedFile>> files;  // by rank; one that several ranks share is the first one's
};

// rank2file and its parts in `folder`; `named` is raised by how many ranks the parts name. kDataLoss: missing, damaged
// or no files.
absl::StatusOr<scr::Rank2File> ReadRank2File(Disk& disk, const std::string& folder, std::uint64_t* named = nullptr);

// The files that it names, normalized; what would be outside of the prefix is left out.
absl::StatusOr<std::set<std::string>> ListedNames(Disk& disk, const std::string& folder);

// Looks whether all of it is there, without reading the data: each file is regular and inside of the prefix, has the
// size that its filemap says, and together they have the descriptor's FILES and SIZE, as far as these are known.
//   kDataLoss  not so; the message names the file or record
absl::StatusOr<FlushedDataset> LookAtScrDataset(Disk& disk, const std::string& prefix, SharedRecords& records,
                                                const scr::Descriptor& descriptor);

// What the core needs to know of one that is listed only: as LookAt, but of the ranks alone.
absl::StatusOr<scr::Descriptor> DescribeScrDataset(Disk& disk, SharedRecords& records,
                                                   const scr::Descriptor& descriptor);

// Its catalogues, made by reading each file once, several at a time.
//   kDataLoss            as above, or a file's CRC32 is not its filemap's
//   kFailedPrecondition  a file was changed meanwhile
absl::StatusOr<std::vector<catalogue::Catalogue>> ReadScrCatalogues(Disk& disk, const std::string& prefix,
                                                                    SharedRecords& records,
                                                                    const scr::Descriptor& descriptor);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_SCR_DATASET_H_
