// A Disk that others share, as one client of NFS sees it. Give each client a StaleDisk of its own, over one FakeDisk.
// What it remembers, by directory, from the first time that this client asked:
//   listings       List answers from memory: neither names that others make later, nor names that they remove
//   absent names   a name of which the server once said that it is not there, to List, Info, RealPath, ReadLink or an
//                  Open that does not create, is kNotFound for these, also on the way to something below it
// It forgets what it remembers of a directory when
//   - this client changes it: makes, removes, renames or links a name in it, with success. A name that this client
//   could
//     not make, since it was there, is not absent any more; the listing stays
//   - the test calls Expire(), as time does after some 60 s
// A name that a listing from the server shows is not absent any more. All else is the server's at each call: the names
// that are there, what files hold, their sizes and times. Memory is told apart by the inodes of directories; a symbolic
// link on a way is followed by the server, past the names that this client takes for absent behind it.
//
// The server sees more operations than the client was asked for (Info of directories on the way). Thread-safe; the
// server is called without locks.
#ifndef CAIRN_TESTS_SUPPORT_STALE_DISK_H_
#define CAIRN_TESTS_SUPPORT_STALE_DISK_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "storage/io/disk.h"

namespace cairn {

class StaleDisk final : public Disk {
 public:
  explicit StaleDisk(Disk& server) : server_(server) {}  // borrowed

  void Expire();  // it remembers nothing

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override;
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
  std::size_t syncs_at_once() const override { return server_.syncs_at_once(); }

 private:
  struct Directory {
    std::uint64_t device = 0, inode = 0;
    auto operator<=>(const Directory&) const = default;
  };
  struct Memory {
    std::optional<std::vector<std::string>> names;
    std::set<std::string> absent;
  };
  // A name on a path, in the directory that it stands in.
  struct Step {
    std::string parent;  // its path
    std::string name;
  };

  static std::vector<Step> StepsOf(const std::string& path);
  std::optional<Directory> Find(const std::string& path);  // none: not there, or it cannot be asked

  // A question about a path: kNotFound from memory, else the server's answer, whose kNotFound is remembered.
  template <typename Answer>
  absl::StatusOr<Answer> Ask(const std::string& path, const std::function<absl::StatusOr<Answer>()>& ask);
  bool IsAbsent(const std::string& path);
  void RememberAbsent(const std::string& path, std::uint64_t changes);

  // A change of the names at `paths`.
  absl::Status Change(const std::vector<std::string>& paths, const std::function<absl::Status()>& change);
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path, OpenOptions options);

  std::uint64_t changes() const;

  Disk& server_;
  mutable absl::Mutex mutex_;
  std::map<Directory, Memory> memory_ ABSL_GUARDED_BY(mutex_);
  // How often this client changed something, or forgot. An answer that was asked for before is not remembered after.
  std::uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_STALE_DISK_H_
