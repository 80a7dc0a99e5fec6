// The file system as Cairn uses it: a seam, so that tests can lose whatever was not synced.
// Implementations: storage/io/posix_disk.h (real), tests/support/fake_disk.h (in memory, drops and fails on request).
//
// Paths are absolute. Errors of every call, with the path in the message:
//   kNotFound           ENOENT, ENOTDIR          kAlreadyExists     EEXIST, ENOTEMPTY
//   kResourceExhausted  ENOSPC, EDQUOT, EMFILE … kPermissionDenied  EACCES, EPERM
//   kUnavailable        EIO, ESTALE, EROFS, ETIMEDOUT, ENODEV … : the storage; a retry may help, except after Sync
//   kInvalidArgument    EINVAL, ENAMETOOLONG, ELOOP (a symbolic link where none is followed)
//   kInternal           all others
// All calls block: use an I/O pool, not a strand. Disks are thread-safe; a File may be read and written from several
// threads at once at different places.
#ifndef CAIRN_STORAGE_IO_DISK_H_
#define CAIRN_STORAGE_IO_DISK_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/transfer_shape.h"
#include "storage/base/unique_fd.h"

namespace cairn {

inline constexpr std::size_t kDirectAlignment = 4096;  // of address, offset and size in direct I/O
// What a direct transfer of so many bytes takes.
constexpr std::uint64_t DirectBytes(std::uint64_t bytes) {
  return (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
}

struct FileInfo {
  std::uint64_t bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  std::uint32_t mode = 0;  // st_mode with the type bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t links = 1;  // names that the file has
  timespec atime{};
  timespec mtime{};
  timespec ctime{};
  std::optional<timespec> birth = {};  // when it was made; none: the file system does not tell

  bool is_directory() const { return (mode & 0170000) == 0040000; }
  bool is_regular() const { return (mode & 0170000) == 0100000; }
  bool is_symlink() const { return (mode & 0170000) == 0120000; }
};

// With what a disk works, of all that a kernel or a file system may refuse. Counts are since the disk is there.
struct DiskMechanisms {
  // "io_uring"; "threads" if the kernel refuses that; "io_uring, threads" if it does so for some file systems; or none.
  std::string_view engine = {};
  bool direct = true;              // false: by its options nobody gets direct I/O, and no file is counted
  std::uint64_t files = 0;         // opened for direct I/O
  std::uint64_t files_direct = 0;  // of those, the ones that got it
  std::uint64_t files_asked = 0;   // to be handed to another process
  std::uint64_t files_handed = 0;  // of those, the ones that were
};

// A file for another process, which reads it by itself with direct I/O.
struct HandedFile {
  UniqueFd fd;                         // read only
  std::uint64_t bytes = 0;             // of the file
  std::uint64_t memory_alignment = 0;  // of addresses that are read to; offsets and sizes: kDirectAlignment
};

class File {
 public:
  using Done = std::function<void(absl::Status)>;  // runs once, on any thread; must not block

  virtual ~File() = default;
  // Transfers exactly the span. Reading past the end is kDataLoss and says how much was there.
  virtual absl::Status ReadAt(std::uint64_t offset, std::span<std::byte> target) = 0;
  virtual absl::Status WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // The same, in the background. The bytes stay valid until `done`; it may run before the call returns.
  virtual void ReadAsync(std::uint64_t offset, std::span<std::byte> target, Done done) = 0;
  virtual void WriteAsync(std::uint64_t offset, std::span<const std::byte> bytes, Done done) = 0;
  virtual absl::Status Truncate(std::uint64_t bytes) = 0;
  // Data and size are durable. A failed sync is final for this file: write it anew elsewhere.
  virtual absl::Status Sync() = 0;
  virtual absl::StatusOr<FileInfo> Info() = 0;
  // The advisory lock of the whole file that others take with flock(2), exclusive; held until this File is gone. Never
  // waits.
  //   kAborted  another has it;  kFailedPrecondition  the file system has no locks
  virtual absl::Status TryLock() = 0;
  // True: address, offset and size of each transfer must be multiples of kDirectAlignment; only a read may end early,
  // at the end of the file, which counts as kDataLoss only if the file ends before the *last* block of the span.
  virtual bool direct() const = 0;
  virtual const std::string& path() const = 0;
};

class Disk {
 public:
  struct OpenOptions {
    bool direct = false;  // direct I/O if the file system has it, else buffered; ask File::direct()
    bool writable = false;
    bool create = false;  // with `exclusive`: kAlreadyExists if there; else truncated if there
    bool exclusive = false;
    std::uint32_t mode = 0600;
  };

  virtual ~Disk() = default;
  // Never follows a symbolic link in the last component. kInvalidArgument: not a regular file.
  virtual absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) = 0;
  // A new file for reading and writing that never has a name, and is gone with its File. kFailedPrecondition: this
  // disk cannot (scratch.h can).
  virtual absl::StatusOr<std::unique_ptr<File>> OpenUnnamed(const std::string& directory);
  // kFailedPrecondition: this disk hands none out, or the file system has no direct I/O, or is none of this machine
  // alone, whose reads may never end. kInvalidArgument: as Open.
  virtual absl::StatusOr<HandedFile> OpenForHanding(const std::string& path);
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;  // replaces `to`
  // The same, but never replaces: kAlreadyExists. kFailedPrecondition: this file system or kernel cannot.
  virtual absl::Status RenameNew(const std::string& from, const std::string& to) = 0;
  // Never replaces. kFailedPrecondition: this file system has no hard links.
  virtual absl::Status Link(const std::string& existing, const std::string& link) = 0;
  // Makes `to` a copy of the file `from` that shares its extents (FICLONE): no byte is read or written, and a later
  // write to either leaves the other as it is. kFailedPrecondition: this file system cannot. kAlreadyExists: `to` is
  // there.
  virtual absl::Status Clone(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Symlink(const std::string& target, const std::string& link) = 0;
  // Where a symbolic link points to, as it says it. kInvalidArgument: no link.
  virtual absl::StatusOr<std::string> ReadLink(const std::string& path) = 0;
  // The same place without symbolic links, "." and ".." on the way or at its end. kNotFound: there is no such place, or
  // a link leads nowhere. kInvalidArgument: links lead in a circle.
  virtual absl::StatusOr<std::string> RealPath(const std::string& path) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;  // a file or an empty directory
  virtual absl::Status MakeDirectory(const std::string& path, std::uint32_t mode) = 0;
  // SyncDirectory, List and FreeBytes follow a symbolic link in the last component, too.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;  // names in it are durable
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) = 0;                                    // names, sorted, without . and ..
  virtual absl::StatusOr<FileInfo> Info(const std::string& path) = 0;  // does not follow a symbolic link
  virtual absl::Status SetModeAndTimes(const std::string& path, std::uint32_t mode, timespec atime, timespec mtime) = 0;
  virtual absl::StatusOr<std::uint64_t> FreeBytes(const std::string& path) = 0;
  // Which kind of file system this is: statfs(2)'s f_type (file_system_kind.h). Follows links.
  virtual absl::StatusOr<std::uint64_t> FileSystemType(const std::string& path) = 0;
  // From now on transfers of this disk from and to `memory` need not look for its pages each time; until the handle is
  // let go of, which comes after the last transfer and before the memory goes. Null: this disk, kernel or user cannot
  // do that, and all works as before.
  virtual std::shared_ptr<void> Pin(std::span<std::byte> /*memory*/) { return nullptr; }
  virtual DiskMechanisms mechanisms() const { return {}; }
  // So many syncs at once, each on a thread of its own, are faster than one after the other. 1: no threads for that.
  virtual std::size_t syncs_at_once() const { return 1; }
  // How large transfers of much data should be, and how many at once. It may change; whoever has begun with one goes on
  // with it.
  virtual TransferShapes shapes() const { return {}; }
  // From now on `shapes` answers this, if this disk has a choice. REQUIRES: both are valid.
  virtual void UseShapes(const TransferShapes& /*shapes*/) {}
};

// --- What is made of these (disk.cc) ---

// The whole file; kResourceExhausted if it is larger than `bytes_max`. Of a record made once (create_once.h) its
// content in whichever form it was made, so that all who read records need not know how they were made. kNotFound:
// there is no such file, or its maker has not finished. kDataLoss: damaged.
absl::StatusOr<std::string> ReadWhole(Disk& disk, const std::string& path, std::uint64_t bytes_max);

// Replaces `path` atomically and durably: work name in the same directory, write, sync, rename, sync the directory.
absl::Status ReplaceFile(Disk& disk, const std::string& path, std::string_view bytes, std::uint32_t mode = 0600);

// Makes the directory and its missing parents, each synced into its parent. There already, or a
// link to one: OK. kAlreadyExists: `path` or a parent is there, but no directory.
absl::Status MakeDirectories(Disk& disk, const std::string& path, std::uint32_t mode = 0700);

// Removes a tree, never following links. Not there: OK. Durable once the caller syncs the parent.
absl::Status RemoveTree(Disk& disk, const std::string& path);

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_DISK_H_
