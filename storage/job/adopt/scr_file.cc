#include "storage/job/adopt/scr_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/scr/records.h"
#include "storage/job/adopt/adoption.h"

namespace cairn {
namespace {

constexpr std::size_t kCopyBytes = 1 << 20;

// What it is to have afterwards: as META has it, or else as the file itself.
void TakeStat(const scr::Meta& meta, const FileInfo& info, catalogue::FileEntry* entry) {
  const bool known = meta.mtime.tv_sec != 0;
  const timespec& atime = known ? meta.atime : info.atime;
  const timespec& mtime = known ? meta.mtime : info.mtime;
  const auto nanoseconds = [](const timespec& time) {
    return static_cast<std::uint32_t>(std::clamp<long>(time.tv_nsec, 0, 999'999'999));
  };
  entry->set_mode(meta.mode != 0 ? meta.mode : info.mode);
  entry->set_atime_s(atime.tv_sec);
  entry->set_atime_ns(nanoseconds(atime));
  entry->set_mtime_s(mtime.tv_sec);
  entry->set_mtime_ns(nanoseconds(mtime));
}

timespec TimeOf(std::int64_t seconds, std::uint32_t nanoseconds) {
  return {.tv_sec = seconds, .tv_nsec = static_cast<long>(nanoseconds)};
}

bool IsSame(const FileInfo& a, const FileInfo& b) {
  return a.bytes == b.bytes && a.inode == b.inode && a.mtime.tv_sec == b.mtime.tv_sec &&
         a.mtime.tv_nsec == b.mtime.tv_nsec;
}

bool HasCrc(const ScrFile& from, const catalogue::FileEntry& entry) {
  return !from.meta.crc32 || entry.crc32() == *from.meta.crc32;
}

}  // namespace

absl::Status CopyScrFile(Disk& disk, const ScrFile& from, const std::string& to, OwnLaunch* launch,
                         catalogue::FileEntry* entry) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> source, disk.Open(from.path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo before, source->Info());
  CAIRN_ASSIGN_OR_RETURN(
      const std::unique_ptr<File> target,
      disk.Open(to, {.writable = true, .create = true, .exclusive = true, .mode = kAdoptedFileMode}));
  BlockWriter writer(*target, *entry, launch);
  std::vector<std::byte> block(std::min<std::uint64_t>(kCopyBytes, before.bytes));
  for (std::uint64_t at = 0; at < before.bytes; at += block.size()) {
    const std::span<std::byte> piece(block.data(), std::min<std::uint64_t>(block.size(), before.bytes - at));
    CAIRN_RETURN_IF_ERROR(source->ReadAt(at, piece));
    CAIRN_RETURN_IF_ERROR(writer.Write(at, piece));
  }
  CAIRN_RETURN_IF_ERROR(writer.Finish());
  CAIRN_ASSIGN_OR_RETURN(const FileInfo after, source->Info());
  if (before.bytes != from.meta.bytes || !IsSame(before, after) || !HasCrc(from, *entry)) {
    return FailedPrecondition("{}: it changed while it was copied", from.path);
  }
  TakeStat(from.meta, before, entry);
  // Before the sync: by its times a file that is in its place is told from others.
  CAIRN_RETURN_IF_ERROR(disk.SetModeAndTimes(to, entry->mode() & 07777, TimeOf(entry->atime_s(), entry->atime_ns()),
                                             TimeOf(entry->mtime_s(), entry->mtime_ns())));
  return target->Sync();
}

absl::StatusOr<FileInfo> KeepScrFile(Disk& disk, const ScrFile& from, const std::string& staged,
                                     catalogue::FileEntry* entry) {
  CAIRN_RETURN_IF_ERROR(disk.Open(staged, {.writable = true, .create = true, .exclusive = true}).status());
  CAIRN_ASSIGN_OR_RETURN(const FileInfo before, disk.Info(from.path));
  CAIRN_RETURN_IF_ERROR(ChecksumFile(disk, from.path, before, /*sync=*/true, entry));
  if (!HasCrc(from, *entry)) return FailedPrecondition("{}: it changed while it was looked at", from.path);
  return before;
}

}  // namespace cairn
