// A member's files end to end, as its redundancy set sees them, each block compared with its checksum before a byte of
// it is used. Used by storage/job/protect/ only.
#ifndef CAIRN_STORAGE_JOB_PROTECT_CHECKED_SOURCE_H_
#define CAIRN_STORAGE_JOB_PROTECT_CHECKED_SOURCE_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "storage/file/transfer/transfer.h"
#include "storage/io/disk.h"
#include "storage/job/protect/protect.h"

namespace cairn {

// Do paths, checksums and sizes fit each other? kDataLoss, kInvalidArgument.
absl::Status CheckProtectSource(const ProtectSource& source);

// Not thread-safe. One file is open at a time, and one block of it is in memory: what is read in order is read once.
class CheckedSource {
 public:
  // All is borrowed. REQUIRES: paths and sums, as many. `throttle`: nullptr for bytes that cross no network.
  CheckedSource(const ProtectSource& source, Throttle* throttle, TransferProgress& progress);

  std::uint64_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }
  // REQUIRES: within bytes(). Errors as of WriteRedundancy.
  absl::Status Read(std::uint64_t offset, std::span<std::byte> target);

 private:
  struct Block {
    std::size_t file = 0;
    std::uint64_t begin = 0;  // in the file
  };
  absl::Status Load(const Block& block);
  absl::Status Open(std::size_t file);

  const ProtectSource& source_;
  Throttle* const throttle_;
  TransferProgress& progress_;
  std::vector<std::uint64_t> ends_;  // where each file ends
  std::size_t open_ = 0;             // the file that `file_` is
  std::unique_ptr<File> file_;
  std::optional<Block> loaded_;
  std::vector<std::byte> block_;  // as far as the file has it
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_PROTECT_CHECKED_SOURCE_H_
