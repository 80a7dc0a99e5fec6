// A file for bytes that nobody keeps.
#ifndef CAIRN_STORAGE_IO_SCRATCH_H_
#define CAIRN_STORAGE_IO_SCRATCH_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "storage/io/disk.h"

namespace cairn {

// For reading and writing, by direct I/O where there is that. Where the disk makes files without names it has none, and
// a crash leaves nothing. Elsewhere it has a work name of its path as long as it is open, and a crash leaves it there
// (RemoveScratch). To take the name of an open file away would be worse: file systems over a network keep such a file
// under another name (NFS: .nfs...), a crash leaves that one, and nobody knows whose it is.
class ScratchFile {
 public:
  static absl::StatusOr<ScratchFile> Open(Disk& disk, const std::string& path);
  ScratchFile(ScratchFile&&) = default;
  ~ScratchFile();

  File& file() { return *file_; }
  // Closes the file and removes its name. Nothing is under way with it.
  absl::Status Remove();

 private:
  ScratchFile(Disk& disk, std::unique_ptr<File> file, std::string name)
      : disk_(&disk), file_(std::move(file)), name_(std::move(name)) {}

  Disk* disk_;
  std::unique_ptr<File> file_;
  std::string name_;  // empty: it has none
};

// Removes what crashes have left of `path`: regular files only, another thing of such a name is none of ours. If one
// cannot be removed, the others are, and the answer is the first such error. REQUIRES: nobody has a scratch file of
// this path open.
absl::Status RemoveScratch(Disk& disk, const std::string& path);

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_SCRATCH_H_
