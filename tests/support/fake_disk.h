// A Disk in memory that tests can pull the plug of. The faults that it can make:
//   CrashAt(n)        at the n-th operation from now the power fails: that one and all later ones are kUnavailable
//   Restart(seed)     power again, without a random subset of what was not synced: writes as a whole or by blocks of
//                     4 KiB, sizes without data, names. Each unsynced operation on a directory survives or not, also
//                     out of order, but a rename never by half, and none without an earlier one on the same name. A
//                     synced file whose name was not may be gone; a synced directory that nothing durable leads to is.
//                     All open files are stale: kUnavailable
//   FailOn(fault)     the n-th operation of a kind, on certain paths, fails with a status; so may those after it. A
//                     write that fails has put down its first half; a Sync that fails loses what was unsynced, and the
//                     next is OK, as under Linux; a SyncDirectory that fails has made nothing durable, the next may
//   capacity          the bytes of all files together: what goes beyond is kResourceExhausted, after what still fitted
//   FlipBit(path, i)  silent damage, durable
//   links, renames_new = false   a file system without: kFailedPrecondition
//   tells_birth = false          a file system that tells no birth times
//   file_system       the kind that it says it is
//   locks             TryLock of a file that another open File has locked is kAborted
//   on_operation      a hook before each operation, called without locks: count, fail, crash, block
// Modes, owners and times are kept, but not lost by crashes; permissions are not enforced. Times count operations. An
// inode keeps its number and its birth time wherever it is moved.
// Asynchronous transfers end before the call returns. Each disk is a device of its own. Thread-safe.
#ifndef CAIRN_TESTS_SUPPORT_FAKE_DISK_H_
#define CAIRN_TESTS_SUPPORT_FAKE_DISK_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage/io/disk.h"

namespace cairn {

enum class FakeOp {
  kAny,
  kOpen,
  kRead,
  kWrite,
  kTruncate,
  kSync,
  kFileInfo,
  kLock,
  kRename,
  kRenameNew,
  kLink,
  kClone,
  kSymlink,
  kReadLink,
  kRealPath,
  kRemove,
  kMakeDirectory,
  kSyncDirectory,
  kList,
  kInfo,
  kSetModeAndTimes,
  kFreeBytes,
  kFileSystemType,
};

struct FakeFault {
  FakeOp op = FakeOp::kAny;
  std::string path_part = {};  // in the path (of a rename and a link: in either); "": all
  std::uint64_t nth = 1;       // the first to fail, counted among those that match, from now: 1 is the next
  std::uint64_t times = 1;     // how many fail from there on
  absl::Status status = absl::UnavailableError("injected");
};

struct FakeDiskOptions {
  std::uint64_t capacity = UINT64_MAX;
  bool direct = false;                 // grants direct I/O to who asks, and then insists on alignment
  bool shares_extents = false;         // Clone works
  bool links = true;                   // Link works
  bool renames_new = true;             // RenameNew works
  std::size_t syncs_at_once = 1;       // so many are said to be faster than one after the other
  bool tells_birth = true;             // FileInfo::birth is there
  std::uint64_t file_system = 0xEF53;  // FileSystemType; ext4's
};

class FakeDisk : public Disk {
 public:
  using Hook = std::function<void(FakeOp op, const std::string& path)>;

  explicit FakeDisk(FakeDiskOptions options = {});
  ~FakeDisk() override;

  // Faults. REQUIRES: n >= 1.
  void CrashAt(std::uint64_t n);
  void Restart(std::uint64_t seed);  // also without a crash before
  void FailOn(FakeFault fault);
  void ClearFaults();
  void FlipBit(const std::string& path, std::uint64_t bit);  // REQUIRES: in a regular file
  void SetCapacity(std::uint64_t bytes);
  void SetHook(Hook on_operation);  // none by default

  bool crashed() const;
  std::uint64_t operations() const;  // begun so far, those after a crash not counted
  void SyncAll();                    // all is durable: a test's starting point; not an operation
  // The directory, and what is made below it from now on, is told as being on another device. REQUIRES: it is there.
  void Mount(const std::string& path);
  // What `cp -a` does, all at once and by nobody: not an operation, and no fault hits it. The copy is not synced; its
  // inodes are new. REQUIRES: `from` is there, `to` is not, but its parent.
  void CopyTree(const std::string& from, const std::string& to);

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override;
  // A memory file with what the file holds now, read by operations of this disk.
  absl::StatusOr<HandedFile> OpenForHanding(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status RenameNew(const std::string& from, const std::string& to) override;
  absl::Status Link(const std::string& existing, const std::string& link) override;
  absl::Status Clone(const std::string& from, const std::string& to) override;
  absl::Status Symlink(const std::string& target, const std::string& link) override;
  absl::StatusOr<std::string> ReadLink(const std::string& path) override;
  absl::StatusOr<std::string> RealPath(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status MakeDirectory(const std::string& path, std::uint32_t mode) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<FileInfo> Info(const std::string& path) override;
  absl::Status SetModeAndTimes(const std::string& path, std::uint32_t mode, timespec atime, timespec mtime) override;
  absl::StatusOr<std::uint64_t> FreeBytes(const std::string& path) override;
  absl::StatusOr<std::uint64_t> FileSystemType(const std::string& path) override;
  std::size_t syncs_at_once() const override { return syncs_at_once_; }
  TransferShapes shapes() const override;  // no operation, nor is the next
  void UseShapes(const TransferShapes& shapes) override;

 private:
  friend class FakeFile;
  struct State;

  static absl::Status Move(State& state, const std::string& from, const std::string& to, bool replace);

  const std::size_t syncs_at_once_;
  const std::shared_ptr<State> state_;  // shared with the open files
};

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_FAKE_DISK_H_
