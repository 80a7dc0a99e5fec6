#include "storage/file/transfer/written_sums.h"

#include <algorithm>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/file/transfer/checks.h"

namespace cairn {

void WrittenSums::Add(std::span<const std::byte> bytes) {
  entry_.set_crc32(Crc32(bytes, entry_.crc32()));
  while (!bytes.empty()) {
    const std::uint64_t in_block = entry_.bytes() % kCrcBlockBytes;
    const auto part =
        bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), kCrcBlockBytes - in_block)));
    if (in_block == 0) entry_.add_crc32c(0);  // the checksum of no bytes
    const int block = entry_.crc32c_size() - 1;
    entry_.set_crc32c(block, Crc32c(part, entry_.crc32c(block)));
    entry_.set_bytes(entry_.bytes() + part.size());
    bytes = bytes.subspan(part.size());
  }
}

absl::StatusOr<catalogue::FileEntry> WrittenSums::Finish(const File& file, const FileInfo& info) const {
  if (info.bytes != bytes()) {
    return FailedPrecondition("{}: changed while it was written: {} bytes, now {}", file.path(), bytes(), info.bytes);
  }
  catalogue::FileEntry entry = entry_;
  PutInfo(info, &entry);
  entry.set_has_crc32(true);
  return entry;
}

}  // namespace cairn
