#include "storage/file/transfer/checks.h"

#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <span>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/file/checked/checked_blocks.h"
#include "storage/file/transfer/transfer.h"

namespace cairn {
namespace {

bool SameTime(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

absl::Status CheckUnchanged(const std::string& path, const FileInfo& before, const FileInfo& now) {
  if (before.inode == now.inode && before.device == now.device && before.bytes == now.bytes &&
      SameTime(before.mtime, now.mtime)) {
    return absl::OkStatus();
  }
  return FailedPrecondition(
      "{}: changed after it was complete: inode {} of {} bytes, now inode {} of {} bytes, written {}", path,
      before.inode, before.bytes, now.inode, now.bytes,
      SameTime(before.mtime, now.mtime) ? "at the same time" : "since");
}

// The CRC32C of a block; `crc32`, if given, is continued over it. By slices, so that the second of the two finds its
// bytes in the core's own cache: from memory they take as long as their arithmetic.
std::uint32_t SumBlock(std::span<const std::byte> bytes, std::uint32_t* crc32) {
  constexpr std::size_t kSliceBytes = 64 << 10;
  if (crc32 == nullptr) return Crc32c(bytes);
  std::uint32_t crc32c = 0;
  while (!bytes.empty()) {
    const auto slice = bytes.first(std::min(bytes.size(), kSliceBytes));
    crc32c = Crc32c(slice, crc32c);
    *crc32 = Crc32(slice, *crc32);
    bytes = bytes.subspan(slice.size());
  }
  return crc32c;
}

}  // namespace

void PutInfo(const FileInfo& info, catalogue::FileEntry* entry) {
  entry->set_bytes(info.bytes);
  entry->set_inode(info.inode);
  entry->set_mode(info.mode);
  entry->set_mtime_s(info.mtime.tv_sec);
  entry->set_mtime_ns(static_cast<std::uint32_t>(info.mtime.tv_nsec));
  entry->set_atime_s(info.atime.tv_sec);
  entry->set_atime_ns(static_cast<std::uint32_t>(info.atime.tv_nsec));
}

absl::Status CheckEntry(const catalogue::FileEntry& entry) {
  const std::uint64_t blocks = entry.bytes() / kCrcBlockBytes + (entry.bytes() % kCrcBlockBytes != 0);
  if (static_cast<std::uint64_t>(entry.crc32c_size()) == blocks) return absl::OkStatus();
  return InvalidArgument("{}: {} bytes have {} blocks, the catalogue has {} checksums", entry.name(), entry.bytes(),
                         blocks, entry.crc32c_size());
}

absl::Status BlockDiffers(const std::string& path, const BlockStream::Block& block, const catalogue::FileEntry& entry) {
  return BlockDiffers(path, block.offset(), block.bytes.size(), Crc32c(block.bytes),
                      entry.crc32c(static_cast<int>(block.index)));
}

std::optional<BlockStream::Block> FirstDiffering(const BlockStream::Piece& piece, const catalogue::FileEntry& entry,
                                                 std::uint32_t* crc32) {
  for (std::size_t i = 0; i < piece.blocks(); ++i) {
    const BlockStream::Block block = piece.block(i);
    std::uint32_t with_it = crc32 != nullptr ? *crc32 : 0;
    const std::uint32_t found = SumBlock(block.bytes, crc32 != nullptr ? &with_it : nullptr);
    if (found != entry.crc32c(static_cast<int>(block.index))) return block;
    if (crc32 != nullptr) *crc32 = with_it;
  }
  return std::nullopt;
}

absl::StatusOr<std::uint64_t> CountMatchingBlocks(File& file, std::uint64_t bytes_there,
                                                  const catalogue::FileEntry& entry, BlockBuffers& buffers,
                                                  Throttle& throttle, TransferProgress& progress,
                                                  const Stopped& stopped, std::uint32_t* crc32) {
  const std::uint64_t bytes =
      bytes_there >= entry.bytes() ? entry.bytes() : bytes_there / kCrcBlockBytes * kCrcBlockBytes;
  BlockStream stream(file, bytes, 0, buffers);
  std::uint64_t matching = 0;
  while (!stream.done()) {
    if (stopped()) return Cancelled("{}: checking was stopped", file.path());
    const auto piece = stream.Next();
    if (!piece.ok()) break;
    const absl::Cleanup back = [&] { stream.GiveBack(piece->slot); };
    if (!TakeToCompare(throttle, piece->bytes.size(), progress)) {
      return Cancelled("{}: checking was stopped", file.path());
    }
    const auto differs = FirstDiffering(*piece, entry, crc32);
    const std::uint64_t here = differs ? differs->index - piece->first : piece->blocks();
    matching += here;
    progress.compared += std::min<std::uint64_t>(here * kCrcBlockBytes, piece->bytes.size());
    if (differs) break;
  }
  return matching;
}

absl::Status ChecksumFile(Disk& disk, const std::string& path, const FileInfo& before, bool sync,
                          catalogue::FileEntry* entry) {
  // Buffered: the application has just written it, so it is in memory, and direct reads would push it out first.
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo opened, file->Info());
  CAIRN_RETURN_IF_ERROR(CheckUnchanged(path, before, opened));
  if (sync) CAIRN_RETURN_IF_ERROR(file->Sync());
  BlockBuffers buffers(opened.bytes, kWholeFile);
  std::uint32_t crc32 = 0;
  entry->clear_crc32c();
  {
    BlockStream stream(*file, opened.bytes, 0, buffers);
    while (!stream.done()) {
      const auto piece = stream.Next();
      if (absl::IsDataLoss(piece.status()))
        return FailedPrecondition("{}", MessageOf(piece.status()));  // cut meanwhile
      if (!piece.ok()) return piece.status();
      const absl::Cleanup back = [&] { stream.GiveBack(piece->slot); };
      for (std::size_t i = 0; i < piece->blocks(); ++i) entry->add_crc32c(SumBlock(piece->block(i).bytes, &crc32));
    }
  }
  CAIRN_ASSIGN_OR_RETURN(const FileInfo after, disk.Info(path));
  CAIRN_RETURN_IF_ERROR(CheckUnchanged(path, before, after));
  PutInfo(opened, entry);
  entry->set_crc32(crc32);
  entry->set_has_crc32(true);
  return absl::OkStatus();
}

namespace {

// `throttle`: null: without limit. REQUIRES: with it there is a progress.
absl::Status Verify(Disk& disk, const std::string& path, const catalogue::FileEntry& entry, Throttle* throttle,
                    TransferProgress* progress) {
  CAIRN_RETURN_IF_ERROR(CheckEntry(entry));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {.direct = true}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  if (info.bytes != entry.bytes()) return DataLoss("{}: {} bytes instead of {}", path, info.bytes, entry.bytes());
  BlockBuffers buffers(info.bytes, kWholeFile);
  BlockStream stream(*file, info.bytes, 0, buffers);
  const auto stopped = [&path] { return Cancelled("{}: checking was stopped", path); };
  while (!stream.done()) {
    if (progress != nullptr && progress->stop) return stopped();
    const auto piece = stream.Next();
    if (!piece.ok()) return piece.status();
    const absl::Cleanup back = [&] { stream.GiveBack(piece->slot); };
    if (throttle != nullptr && !TakeBandwidth(*throttle, piece->bytes.size(), *progress)) return stopped();
    if (const auto differs = FirstDiffering(*piece, entry, nullptr)) return BlockDiffers(path, *differs, entry);
    if (progress != nullptr) progress->bytes_done += piece->bytes.size();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyFile(Disk& disk, const std::string& path, const catalogue::FileEntry& entry,
                        TransferProgress* progress) {
  return Verify(disk, path, entry, nullptr, progress);
}

absl::Status VerifyFile(Disk& disk, const std::string& path, const catalogue::FileEntry& entry, Throttle& throttle,
                        TransferProgress& progress) {
  return Verify(disk, path, entry, &throttle, &progress);
}

}  // namespace cairn
