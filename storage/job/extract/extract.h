// One variable out of a checkpoint file of FTI-FF: its bytes as the application had them in memory, whatever containers
// they lie in. Calls block on disk.
#ifndef CAIRN_STORAGE_JOB_EXTRACT_EXTRACT_H_
#define CAIRN_STORAGE_JOB_EXTRACT_EXTRACT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "storage/file/known/known_file.h"
#include "storage/format/ftiff/codec.h"
#include "storage/io/disk.h"

namespace cairn {

class StoredVariable {
 public:
  // `path`: absolute. In layouts A and B the whole file is verified here: in A nothing but its checksum covers the
  // records, so that the bytes might be those of another variable; in B that is over all chunks.
  //   kNotFound  no such file, or no such variable: the message has those that there are
  //   kDataLoss  damaged
  // Errors of OpenCheckpointFile pass through. `disk` outlives the variable.
  static absl::StatusOr<StoredVariable> Open(Disk& disk, const std::string& path, std::int32_t id);

  std::uint64_t bytes() const;
  std::size_t containers() const { return containers_.layout.containers.size(); }
  std::uint32_t file_mode() const { return file_mode_; }

  // Gives every byte with its offset in the variable, in any order and from several threads at once; what is given is
  // what is compared with the hashes. kDataLoss: a chunk is damaged, and what was given is worth nothing.
  using WriteAt = std::function<absl::Status(std::uint64_t offset, std::span<const std::byte> bytes)>;
  absl::Status Copy(const WriteAt& write) const;
  // Compares all hashes, and then gives the bytes in order, reading them once more: for where nothing that was given
  // can be taken back.
  using Write = std::function<absl::Status(std::span<const std::byte> bytes)>;
  absl::Status Stream(const Write& write) const;

 private:
  // Each byte passes `read` on the way.
  absl::Status Verify(const ftiff::ReadAt& read) const;

  std::string path_;
  CheckpointFile file_;
  ftiff::FileMetadata containers_;  // those of the variable, as if they were all of the file
  std::uint32_t file_mode_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_EXTRACT_EXTRACT_H_
