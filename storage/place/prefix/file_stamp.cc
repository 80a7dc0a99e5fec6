#include "storage/place/prefix/file_stamp.h"

namespace cairn {
namespace {

bool SameTime(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool Same(const FileInfo& a, const FileInfo& b) {
  return a.device == b.device && a.inode == b.inode && a.bytes == b.bytes && SameTime(a.mtime, b.mtime) &&
         SameTime(a.ctime, b.ctime);
}

}  // namespace

std::optional<FileInfo> FileStamp::Look(Disk& disk, const std::string& path) {
  const auto file = disk.Open(path, {});
  if (!file.ok()) return std::nullopt;
  const auto info = (*file)->Info();
  return info.ok() ? std::optional(*info) : std::nullopt;
}

bool FileStamp::Proves(const std::optional<FileInfo>& now) const {
  return settled_ && now && Same(*info_, *now);
}

void FileStamp::WasRead(const std::optional<FileInfo>& before, Time time) {
  if (info_ && before && Same(*info_, *before)) {
    settled_ = settled_ || time - first_read_ >= kTick;
    return;
  }
  info_ = before;
  first_read_ = time;
  settled_ = false;
}

}  // namespace cairn
