// Disks and files that can only be read: whatever would change something is kPermissionDenied.
#ifndef CAIRN_STORAGE_IO_READ_ONLY_H_
#define CAIRN_STORAGE_IO_READ_ONLY_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>

#include "storage/base/status.h"
#include "storage/io/disk.h"

namespace cairn {

inline absl::Status OnlyRead(const std::string& path) {
  return PermissionDenied("{}: is only read", path);
}

// Buffered, too.
class ReadOnlyFile : public File {
 public:
  absl::Status WriteAt(std::uint64_t, std::span<const std::byte>) final { return OnlyRead(path()); }
  void WriteAsync(std::uint64_t, std::span<const std::byte>, Done done) final { done(OnlyRead(path())); }
  absl::Status Truncate(std::uint64_t) final { return OnlyRead(path()); }
  absl::Status Sync() final { return OnlyRead(path()); }
  absl::Status TryLock() final { return OnlyRead(path()); }
  bool direct() const final { return false; }
};

class ReadOnlyDisk : public Disk {
 public:
  // No room, and no file system that anything is known of.
  absl::StatusOr<std::uint64_t> FreeBytes(const std::string&) final { return 0; }
  absl::StatusOr<std::uint64_t> FileSystemType(const std::string&) final { return 0; }

  absl::Status Rename(const std::string& from, const std::string&) final { return OnlyRead(from); }
  absl::Status RenameNew(const std::string& from, const std::string&) final { return OnlyRead(from); }
  absl::Status Link(const std::string&, const std::string& link) final { return OnlyRead(link); }
  absl::Status Clone(const std::string&, const std::string& to) final { return OnlyRead(to); }
  absl::Status Symlink(const std::string&, const std::string& link) final { return OnlyRead(link); }
  absl::Status Remove(const std::string& path) final { return OnlyRead(path); }
  absl::Status MakeDirectory(const std::string& path, std::uint32_t) final { return OnlyRead(path); }
  absl::Status SyncDirectory(const std::string& path) final { return OnlyRead(path); }
  absl::Status SetModeAndTimes(const std::string& path, std::uint32_t, timespec, timespec) final {
    return OnlyRead(path);
  }
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_READ_ONLY_H_
