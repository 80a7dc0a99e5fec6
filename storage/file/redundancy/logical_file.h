// A member's files, end to end, as SCR's redundancy sees them. SCR specification, 10.4. Over a Disk; one file is open
// at a time, whatever their number. Calls block on disk. Not thread-safe.
#ifndef CAIRN_STORAGE_FILE_REDUNDANCY_LOGICAL_FILE_H_
#define CAIRN_STORAGE_FILE_REDUNDANCY_LOGICAL_FILE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/io/disk.h"

namespace cairn::redundancy {

// A part of the logical file: `bytes` of the file `path` from `offset` on (a payload begins behind its header).
struct Part {
  std::string path;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
};

class LogicalFile {
 public:
  // `disk` is borrowed. REQUIRES: the parts' bytes fit in 63 bits together.
  LogicalFile(Disk& disk, std::vector<Part> parts);

  std::uint64_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }
  // REQUIRES for both: within bytes(). kNotFound, kDataLoss: a file is gone or too short; errors name it.
  absl::Status Read(std::uint64_t offset, std::span<std::byte> target);
  absl::Status Write(std::uint64_t offset, std::span<const std::byte> bytes);

  // For writing: makes the parts' files, in their sizes. kAlreadyExists: one is there. Their directories are the
  // caller's.
  absl::Status Create(std::uint32_t mode);

 private:
  using Use = std::function<absl::Status(File& file, std::uint64_t offset, std::size_t from, std::size_t count)>;
  absl::Status ForEach(std::uint64_t offset, std::size_t count, bool writable, const Use& use);
  absl::Status OpenPart(std::size_t part, bool writable);

  Disk& disk_;
  const std::vector<Part> parts_;
  std::vector<std::uint64_t> ends_;  // where each part ends
  std::size_t open_ = 0;             // the part that `file_` is
  bool writable_ = false;
  std::unique_ptr<File> file_;
};

}  // namespace cairn::redundancy

#endif  // CAIRN_STORAGE_FILE_REDUNDANCY_LOGICAL_FILE_H_
