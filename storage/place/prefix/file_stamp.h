// Tells whether a file is still what was read of it, without reading it again.
//
// By inode, size and times as the file's server has them. Two changes within one tick of its clock may leave the same
// ones. So they prove nothing until the file was read twice, kTick apart, with the same stamp and the same text: a
// change after the second reading then falls into a later tick. No two clocks are compared.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_FILE_STAMP_H_
#define CAIRN_STORAGE_PLACE_PREFIX_FILE_STAMP_H_

#include <chrono>
#include <optional>
#include <string>

#include "storage/io/disk.h"

namespace cairn {

class FileStamp {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kTick{3};  // more than any file system's times are coarse

  // What the file shows now; none: it cannot be asked. Opened for that: NFS asks the server then.
  static std::optional<FileInfo> Look(Disk& disk, const std::string& path);

  // It shows `now`: is its text the one that was read?
  bool Proves(const std::optional<FileInfo>& now) const;
  // It was read whole at `time`, after it had shown `before`, and its text was the same as at all readings before.
  void WasRead(const std::optional<FileInfo>& before, Time time);

 private:
  std::optional<FileInfo> info_;
  Time first_read_{};
  bool settled_ = false;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_FILE_STAMP_H_
