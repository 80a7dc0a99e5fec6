// A directory tree that is entered at its root and never left: links are not followed, on no part of a way, and what
// another file system is mounted on is not entered (openat2(2) with RESOLVE_BENEATH). For trees whose names others
// make. Beside what a Disk does it tells of holes, extended attributes, and whether somebody writes to a file.
// A seam: tests fail, count and order its calls.
//
// Paths are relative to the root, without "." and ".."; "" is the root. Errors are those of storage/io/disk.h, and
//   kFailedPrecondition  the way leads out of the tree, over a link, or into another file system
//   kResourceExhausted   no room or no quota, nothing else
// All calls block. Trees are thread-safe; a FileBelow may be read and written from several threads at different places,
// and synced meanwhile: a Sync makes durable what was written before it began, of a write under way any part or none.
#ifndef CAIRN_STORAGE_IO_TREE_H_
#define CAIRN_STORAGE_IO_TREE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/lock_file.h"
#include "storage/io/disk.h"

namespace cairn {

// Extended attributes by name, access control lists among them.
using TreeAttributes = std::vector<std::pair<std::string, std::string>>;

class FileBelow {
 public:
  enum class Writers : std::uint8_t { kNone, kSome, kUnknown };
  struct Stretch {
    std::uint64_t begin = 0, end = 0;
  };

  virtual ~FileBelow() = default;
  // So many bytes came; less than the span only at the end of the file.
  virtual absl::StatusOr<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> target) = 0;
  virtual absl::Status WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // The first stretch at or behind `offset` that is no hole; none: there is none. A file system that knows no holes
  // has one stretch.
  virtual absl::StatusOr<std::optional<Stretch>> DataFrom(std::uint64_t offset) = 0;
  // Takes room for `bytes`, so that kResourceExhausted comes now. A file system that cannot: OK.
  virtual absl::Status Reserve(std::uint64_t bytes) = 0;
  virtual absl::Status Truncate(std::uint64_t bytes) = 0;
  virtual absl::Status Sync() = 0;
  virtual absl::StatusOr<FileInfo> Info() = 0;
  // The same as of when it was opened: costs nothing.
  virtual FileInfo opened() const = 0;
  // From now on all transfers pass the page cache by, in multiples of kDirectAlignment. False: not here; then what the
  // cache holds of the file is dropped, as far as the kernel does.
  virtual bool BypassCache() = 0;
  // Has anybody, on this machine, the file open for writing, or mapped so? kUnknown: not our file, or the file system
  // does not tell, or others than this machine may write there. Nobody is held up by the question for longer than it
  // takes.
  virtual Writers LookForWriters() = 0;
  // A lock for as long as the answer lives; the file holds who has it. Errors as LockFile::Take has them.
  virtual absl::StatusOr<LockFile> Lock(std::chrono::milliseconds patience) = 0;
  virtual absl::StatusOr<TreeAttributes> Attributes() = 0;
  // Mode, times, owner, attributes, as `cp -a` does; mode and owner if they differ from what they were when it was
  // opened. False: owner or an attribute could not be kept.
  virtual absl::StatusOr<bool> SetAttributes(const FileInfo& info, const TreeAttributes& attributes) = 0;
};

struct TreeEntry {
  std::string name;
  FileInfo info;
};

class Tree {
 public:
  virtual ~Tree() = default;
  // The entries of a folder, sorted by name; what goes meanwhile is left out.
  virtual absl::StatusOr<std::vector<TreeEntry>> List(const std::string& folder) = 0;
  virtual absl::StatusOr<FileInfo> Info(const std::string& path) = 0;
  // A regular file, else kInvalidArgument. A folder: OpenFolder, for its attributes.
  virtual absl::StatusOr<std::unique_ptr<FileBelow>> Open(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<FileBelow>> OpenFolder(const std::string& path) = 0;
  // Makes a file that is read and written. Its mode is `mode`, without what the process's umask takes away.
  virtual absl::StatusOr<std::unique_ptr<FileBelow>> Create(const std::string& path, std::uint32_t mode) = 0;
  // One that is there, or is made.
  virtual absl::StatusOr<std::unique_ptr<FileBelow>> OpenToWrite(const std::string& path) = 0;
  virtual absl::StatusOr<std::string> ReadLink(const std::string& path) = 0;
  virtual absl::Status Symlink(const std::string& target, const std::string& path) = 0;
  // Owner and times of a symbolic link, as far as they can be kept.
  virtual absl::Status SetLinkTimes(const std::string& path, const FileInfo& info) = 0;
  virtual absl::Status Link(const std::string& existing, const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;     // replaces
  virtual absl::Status RenameNew(const std::string& from, const std::string& to) = 0;  // kAlreadyExists
  virtual absl::Status MakeFolder(const std::string& path) = 0;                        // mode 0700
  virtual absl::Status Remove(const std::string& path) = 0;                            // a file or an empty folder
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  // All that was written below the root is durable, names too. REQUIRES: syncs_as_a_whole().
  virtual absl::Status SyncAll() = 0;
  // False: on this file system only files and folders can be synced, one by one.
  virtual bool syncs_as_a_whole() const = 0;
  // kNotFound: the root was removed, or another one is in its place.
  virtual absl::Status CheckRoot() = 0;
  // Folders that are kept open (PosixTreeOptions) are looked up anew by their names from now on.
  virtual void ForgetFolders() {}
};

struct PosixTreeOptions {
  // The folders on the way are kept open, and found again by their path. One that somebody moves away is written to
  // where it is, until ForgetFolders.
  bool keep_folders = false;
};

// `root`: absolute. kNotFound, kInvalidArgument (no directory), kUnimplemented (a kernel without openat2).
absl::StatusOr<std::unique_ptr<Tree>> OpenTree(const std::string& root, const PosixTreeOptions& options = {});

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_TREE_H_
