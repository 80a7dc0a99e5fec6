// The files of a BP5 directory of which catalogues know each MiB's CRC32C: what is read is compared with it.
#ifndef CAIRN_STORAGE_FILE_BPDIR_CHECKED_SOURCE_H_
#define CAIRN_STORAGE_FILE_BPDIR_CHECKED_SOURCE_H_

#include <map>
#include <memory>
#include <string>

#include "storage/file/bpdir/file_source.h"
#include "storage/file/checked/checked_blocks.h"

namespace cairn::bpdir {

using KnownSums = std::map<std::string, FileSums>;  // by the names that the source has for the files

// The files of `below`, each block of them compared when it is first read, held or shown in place (CheckedBlocks). Only
// files that `sums` knows are there: others are kNotFound. Bytes of a damaged block are not shown in place: whoever
// reads them then is told. `sums` null: `below` as it is.
//   kDataLoss  a block differs; the file has another size than the catalogue says
std::unique_ptr<FileSource> CheckFiles(std::unique_ptr<FileSource> below, std::shared_ptr<const KnownSums> sums);

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_CHECKED_SOURCE_H_
