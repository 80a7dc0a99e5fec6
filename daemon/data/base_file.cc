#include "daemon/data/base_file.h"

#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <span>
#include <utility>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/file/transfer/block_stream.h"

namespace cairn {
namespace {

constexpr std::uint64_t kReadAheadBytesMax = 8 << 20;  // many ranks may read theirs at once after a restart

std::uint64_t PartsOf(std::uint64_t bytes, std::uint64_t part_bytes) {
  return bytes / part_bytes + (bytes % part_bytes != 0 ? 1 : 0);
}

// What is said of the base must fit together, and the file to it.
absl::Status CheckBase(Disk& disk, const CaptureBase& base) {
  if (base.data_bytes > base.file_bytes) {
    return InvalidArgument("base {}: {} bytes of data in a file of {}", base.path, base.data_bytes, base.file_bytes);
  }
  const BlockDigests* const digests = base.digests.get();
  if (digests != nullptr && (digests->data_bytes != base.data_bytes ||
                             digests->blocks.size() != PartsOf(base.data_bytes, kDigestBlockBytes))) {
    return InvalidArgument("base {}: {} digests of {} bytes for {} bytes of data", base.path, digests->blocks.size(),
                           digests->data_bytes, base.data_bytes);
  }
  if (digests == nullptr && base.compared && base.crc32c.size() != PartsOf(base.file_bytes, kCrcBlockBytes)) {
    return InvalidArgument("base {}: {} checksums for {} bytes", base.path, base.crc32c.size(), base.file_bytes);
  }
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(base.path));
  if (!info.is_regular()) return InvalidArgument("base {}: not a regular file", base.path);
  // Somebody keeps the file under a name of their own, which is not to be written over.
  if (!base.clone && info.links > 1) return FailedPrecondition("base {}: has {} names", base.path, info.links);
  if (info.bytes == base.file_bytes) return absl::OkStatus();
  return DataLoss("base {}: has {} bytes, expected {}", base.path, info.bytes, base.file_bytes);
}

// Makes the digests of the first `data_bytes` bytes from the file itself. A MiB that is not what the catalogue says is
// damaged: its digests do not count.
absl::Status ReadDigests(const CaptureBase& base, std::uint64_t data_bytes, const std::function<bool()>& stop,
                         BaseFile& made) {
  auto digests = std::make_shared<BlockDigests>(BlockDigests{.data_bytes = data_bytes, .blocks = {}});
  digests->blocks.reserve(PartsOf(data_bytes, kDigestBlockBytes));
  const std::uint64_t windows = PartsOf(data_bytes, kCrcBlockBytes);
  const std::uint64_t bytes_read = std::min(base.file_bytes, windows * kCrcBlockBytes);
  BlockBuffers buffers(std::min(bytes_read, kReadAheadBytesMax));
  BlockStream stream(*made.file, bytes_read, 0, buffers);
  while (!stream.done()) {
    if (stop()) return Cancelled("base {}: stopped", base.path);
    CAIRN_ASSIGN_OR_RETURN(const BlockStream::Piece window, stream.Next());
    const absl::Cleanup back = [&] { stream.GiveBack(window.slot); };
    std::vector<BlockCrc> blocks = DigestsOf(window.bytes);
    const std::uint64_t window_bytes = window.bytes.size();
    const std::uint64_t data_in_window = std::min(window_bytes, data_bytes - window.offset());
    // The last block of data, with metadata behind it, counts as not had: it is whole for the check only.
    const std::vector<BlockCrc> crc = WindowCrcs({.data_bytes = window_bytes, .blocks = blocks});
    made.damaged.push_back(crc.front().crc32c != base.crc32c[window.first]);
    blocks.resize(PartsOf(data_in_window, kDigestBlockBytes));
    digests->blocks.insert(digests->blocks.end(), blocks.begin(), blocks.end());
  }
  made.digests = std::move(digests);
  return absl::OkStatus();
}

absl::StatusOr<BaseFile> UseWorkFile(Disk& disk, const CaptureBase& base, const std::string& work_path,
                                     std::uint64_t data_bytes, std::uint64_t file_bytes,
                                     const std::function<bool()>& stop) {
  BaseFile made{.file = nullptr, .digests = base.digests, .damaged = {}};
  CAIRN_ASSIGN_OR_RETURN(made.file, disk.Open(work_path, {.direct = true, .writable = true}));
  if (made.digests == nullptr && base.compared) {
    CAIRN_RETURN_IF_ERROR(ReadDigests(base, std::min(base.data_bytes, data_bytes), stop, made));
  }
  CAIRN_RETURN_IF_ERROR(made.file->Truncate(file_bytes));
  return made;
}

}  // namespace

bool BaseFile::Holds(std::uint64_t block, const BlockCrc& digest) const {
  if (block >= digests->data_bytes / kDigestBlockBytes) return false;
  const std::uint64_t window = block / kBlocksOfWindow;
  return (window >= damaged.size() || !damaged[window]) && digests->blocks[block] == digest;
}

absl::StatusOr<BaseFile> TakeBase(Disk& disk, const CaptureBase& base, const std::string& work_path,
                                  std::uint64_t data_bytes, std::uint64_t file_bytes,
                                  const std::function<bool()>& stop) {
  CAIRN_RETURN_IF_ERROR(CheckBase(disk, base));
  CAIRN_RETURN_IF_ERROR(base.clone ? disk.Clone(base.path, work_path) : disk.Rename(base.path, work_path));
  absl::StatusOr<BaseFile> made = UseWorkFile(disk, base, work_path, data_bytes, file_bytes, stop);
  if (!made.ok()) disk.Remove(work_path).IgnoreError();  // a work name is garbage anyway, and may be written over
  return made;
}

}  // namespace cairn
