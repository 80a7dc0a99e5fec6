// The older file that a capture starts from, on its way to becoming the new one.
#ifndef CAIRN_DAEMON_DATA_BASE_FILE_H_
#define CAIRN_DAEMON_DATA_BASE_FILE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/data/block_digests.h"
#include "daemon/data/capture.h"
#include "storage/io/disk.h"

namespace cairn {

struct BaseFile {
  std::unique_ptr<File> file;                   // open for writing, of the new file's length
  std::shared_ptr<const BlockDigests> digests;  // of what it holds; null: it is not compared
  std::vector<bool> damaged;                    // windows that hold something else; those beyond: none do

  // Block `block` of the file is a whole block of the base's data and has that digest. REQUIRES: it is compared.
  bool Holds(std::uint64_t block, const BlockCrc& digest) const;
};

// Brings the base to `work_path` (renamed or cloned), opens it, makes its digests if it is to be compared and has none,
// and gives it `file_bytes` bytes, of which the first `data_bytes` will be data. Blocks on disk. Any error: the base is
// of no use, and nothing is at `work_path`. A spare file that is not what it is said to be stays; one that was renamed
// already is removed. `stop` is asked at each MiB: true ends it with kCancelled.
absl::StatusOr<BaseFile> TakeBase(Disk& disk, const CaptureBase& base, const std::string& work_path,
                                  std::uint64_t data_bytes, std::uint64_t file_bytes,
                                  const std::function<bool()>& stop);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_BASE_FILE_H_
