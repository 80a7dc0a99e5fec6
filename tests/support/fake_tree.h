// The model behind the FakeDisk: files and directories, each with what is there and what would be there after a power
// failure. Not thread-safe; paths are resolved, faults and handles are the FakeDisk's.
#ifndef CAIRN_TESTS_SUPPORT_FAKE_TREE_H_
#define CAIRN_TESTS_SUPPORT_FAKE_TREE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/io/disk.h"

namespace cairn {

struct FakeInode;
using FakeInodePtr = std::shared_ptr<FakeInode>;
using FakeEntries = std::map<std::string, FakeInodePtr>;

struct FakeInode {
  // A change of the content that no Sync has made durable.
  struct Change {
    bool truncate = false;
    std::uint64_t offset = 0;  // or the size after a truncation
    std::string bytes;
  };

  FileInfo info;       // without the sizes
  std::string target;  // of a symbolic link
  std::string content, durable_content;
  std::vector<Change> unsynced;
  FakeEntries entries, durable_entries;
  std::weak_ptr<void> lock;  // held by an open file

  void Write(std::uint64_t offset, std::string_view bytes);
  void Truncate(std::uint64_t bytes);
  void Sync();      // what is unsynced becomes durable
  void LoseSync();  // what is unsynced stays readable, but will never be durable: a failed fsync
};

class FakeTree {
 public:
  // Where a path leads. `inode` is null if the last name is not there; `parent` is null for "/" and paths ending in
  // ".".
  struct Place {
    FakeInodePtr parent;
    std::string name;
    FakeInodePtr inode;
  };
  // One name set (or with a null inode, removed). The edits of one operation become durable together or not at all.
  struct Edit {
    FakeInodePtr directory;
    std::string name;
    FakeInodePtr inode;
  };

  explicit FakeTree(bool tells_birth);

  // kNotFound, kInvalidArgument as the Disk has them; links on the way are followed, the last if `follow_last`.
  absl::StatusOr<Place> Resolve(const std::string& path, bool follow_last) const;
  absl::StatusOr<std::string> RealPath(const std::string& path) const;
  absl::StatusOr<FakeInodePtr> ResolveDirectory(const std::string& path) const;
  void Touch(FakeInode& inode);    // its content changed now
  void Renamed(FakeInode& inode);  // its name did: file systems note that, too
  FakeInodePtr NewInode(std::uint32_t mode);
  // What lies at and below `inode`, anew, as `cp -a` makes it; it has no name yet.
  FakeInodePtr Copy(const FakeInodePtr& inode);
  void Change(std::vector<Edit> edits);
  // The unsynced operations that touched this directory become durable, and those that they build upon.
  void SyncDirectory(const FakeInodePtr& directory);
  void SyncAll();
  // Drops a subset of what is unsynced: see FakeDisk.
  void Crash(std::uint64_t seed);
  // How many names lead to it.
  std::uint64_t links(const FakeInode& inode) const;
  // The content of all files that have a name, each counted once.
  std::uint64_t used_bytes() const;
  // Whether `inode` is `directory` or lies below it.
  static bool IsWithin(const FakeInodePtr& inode, const FakeInodePtr& directory);

 private:
  struct Operation {
    std::vector<Edit> edits;
    bool moves_directory = false;
  };

  // Resolve; `names` becomes those of the directories on the real way, with the last name if something is there.
  absl::StatusOr<Place> Walk(const std::string& path, bool follow_last, std::vector<std::string>* names) const;
  FakeInodePtr CopyOnce(const FakeInodePtr& inode, std::map<const FakeInode*, FakeInodePtr>& copies);
  timespec Now();
  static void Apply(const Edit& edit, FakeEntries FakeInode::*entries);

  const std::uint64_t device_;
  const bool tells_birth_;
  std::uint64_t inodes_ = 0;
  std::int64_t ticks_ = 0;
  const FakeInodePtr root_;
  std::vector<Operation> unsynced_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_FAKE_TREE_H_
