#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <map>
#include <string_view>

#include "storage/base/clock.h"
#include "storage/base/lock_file.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "storage/io/errno_status.h"
#include "storage/io/posix_file.h"
#include "storage/io/tree.h"

namespace cairn {
namespace {

constexpr std::size_t kFoldersKept = 64;
constexpr std::size_t kAttributeBytesMax = 64 << 10;  // of the kernel, XATTR_SIZE_MAX and XATTR_LIST_MAX

// No room and no quota are the tree's matter; a file that is too large, or a process that has too much open, is not.
absl::Status CallStatus(int error, std::string_view what) {
  absl::Status status = ErrnoStatus(error, what);
  if (!absl::IsResourceExhausted(status) || error == ENOSPC || error == EDQUOT) return status;
  return Unavailable("{}", MessageOf(status));
}

// Where nobody may lead us out.
absl::Status WayStatus(int error, std::string_view what, std::string_view path) {
  if (error == EXDEV) return FailedPrecondition("{} {}: the way leaves the tree, or its file system", what, path);
  if (error == ELOOP) return FailedPrecondition("{} {}: a symbolic link is in the way", what, path);
  return CallStatus(error, fmt::format("{} {}", what, path));
}

// File systems whose syncfs(2) is as good as fsync(2) of each file: the kernel's own, with a journal or in memory.
bool SyncsAsAWhole(std::uint64_t type) {
  constexpr std::array<std::uint64_t, 5> kTypes{EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
                                                TMPFS_MAGIC};
  return std::ranges::find(kTypes, type) != kTypes.end();
}

// Whose writers a file system's leases tell of. Only the kernel's own know all. One that other machines share, or a
// process serves, knows this machine's; NFS and SMB give a lease by what their server has promised, and may never.
enum class Leases : std::uint8_t { kOfAll, kOfThisMachine, kOfNobody };

Leases LeasesOf(std::uint64_t type) {
  constexpr std::array<std::uint64_t, 4> kByServer{NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, SMB2_SUPER_MAGIC,
                                                   CIFS_SUPER_MAGIC};
  if (SyncsAsAWhole(type)) return Leases::kOfAll;
  return std::ranges::find(kByServer, type) == kByServer.end() ? Leases::kOfThisMachine : Leases::kOfNobody;
}

class PosixFileBelow final : public FileBelow {
 public:
  PosixFileBelow(UniqueFd fd, std::string path, const FileInfo& opened, Leases leases)
      : fd_(std::move(fd)), path_(std::move(path)), opened_(opened), leases_(leases) {}

  absl::StatusOr<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> target) override {
    std::size_t done = 0;
    while (done < target.size()) {
      const ssize_t n = Uninterrupted([&] {
        return ::pread(fd_.get(), target.data() + done, target.size() - done, static_cast<off_t>(offset + done));
      });
      if (n < 0) return Failed("read");
      done += static_cast<std::size_t>(n);
      if (n == 0 || (direct_ && done % kDirectAlignment != 0)) break;
    }
    return done;
  }

  absl::Status WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n =
          Uninterrupted([&] { return ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
      if (n < 0) return Failed("write");
      if (n == 0) return Unavailable("write {}: the kernel took nothing", path_);
      offset += static_cast<std::uint64_t>(n);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<Stretch>> DataFrom(std::uint64_t offset) override {
    const off_t begin = ::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_DATA);
    if (begin < 0 && errno == ENXIO) return std::nullopt;
    if (begin < 0 && errno == EINVAL) {  // knows no holes
      CAIRN_ASSIGN_OR_RETURN(const FileInfo info, Info());
      if (offset >= info.bytes) return std::nullopt;
      return Stretch{.begin = offset, .end = info.bytes};
    }
    if (begin < 0) return Failed("look for data in");
    const off_t end = ::lseek(fd_.get(), begin, SEEK_HOLE);
    if (end < 0) return Failed("look for holes in");
    return Stretch{.begin = static_cast<std::uint64_t>(begin), .end = static_cast<std::uint64_t>(end)};
  }

  absl::Status Reserve(std::uint64_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    if (Uninterrupted([&] { return ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)); }) == 0) {
      return absl::OkStatus();
    }
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return absl::OkStatus();
    return Failed("take room for");
  }

  absl::Status Truncate(std::uint64_t bytes) override {
    if (Uninterrupted([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(bytes)); }) == 0) return absl::OkStatus();
    return Failed("set the size of");
  }

  absl::Status Sync() override {
    if (Uninterrupted([&] { return ::fsync(fd_.get()); }) == 0) return absl::OkStatus();
    return Failed("sync");
  }

  absl::StatusOr<FileInfo> Info() override { return ReadFileInfo(fd_.get(), "", AT_EMPTY_PATH, path_); }
  FileInfo opened() const override { return opened_; }

  bool BypassCache() override {
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    direct_ = flags >= 0 && ::fcntl(fd_.get(), F_SETFL, flags | O_DIRECT) == 0;
    if (!direct_) ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
    return direct_;
  }

  // A read lease is only given while no writer has the file. It is returned at once: a writer that comes meanwhile
  // waits for no longer than that. Of one that does the kernel tells by a signal, SIGIO, which would end the process;
  // SIGURG is ignored unless somebody asks for it.
  Writers LookForWriters() override {
    if (!quiet_) quiet_ = ::fcntl(fd_.get(), F_SETSIG, SIGURG) == 0;
    if (!quiet_ || leases_ == Leases::kOfNobody) return Writers::kUnknown;
    if (::fcntl(fd_.get(), F_SETLEASE, F_RDLCK) == 0) {
      ::fcntl(fd_.get(), F_SETLEASE, F_UNLCK);
      return leases_ == Leases::kOfAll ? Writers::kNone : Writers::kUnknown;
    }
    return errno == EAGAIN ? Writers::kSome : Writers::kUnknown;
  }

  absl::StatusOr<LockFile> Lock(std::chrono::milliseconds patience) override {
    UniqueFd same(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));  // of one open file: one lock
    if (!same.valid()) return Failed("lock");
    return LockFile::Take(std::move(same), path_, patience);
  }

  absl::StatusOr<TreeAttributes> Attributes() override {
    TreeAttributes attributes;
    std::array<char, 1024> few;
    std::string names;
    ssize_t bytes = ::flistxattr(fd_.get(), few.data(), few.size());
    if (bytes > 0) names.assign(few.data(), static_cast<std::size_t>(bytes));
    if (bytes < 0 && errno == ERANGE) {
      names.resize(kAttributeBytesMax);
      bytes = ::flistxattr(fd_.get(), names.data(), names.size());
      names.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    }
    if (bytes < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) return attributes;
    if (bytes < 0) return Failed("list the attributes of");
    for (std::size_t at = 0; at < names.size(); at += names.find('\0', at) - at + 1) {
      const std::string name = names.c_str() + at;
      std::string value(kAttributeBytesMax, '\0');
      const ssize_t size = ::fgetxattr(fd_.get(), name.c_str(), value.data(), value.size());
      if (size < 0) continue;  // it went meanwhile, or is not for us to read: as `cp -a`
      value.resize(static_cast<std::size_t>(size));
      attributes.emplace_back(name, std::move(value));
    }
    return attributes;
  }

  absl::StatusOr<bool> SetAttributes(const FileInfo& info, const TreeAttributes& attributes) override {
    bool all = true;
    const FileInfo& now = opened_;
    std::uint32_t mode = info.mode & 07777;
    const bool others = now.uid != info.uid || now.gid != info.gid;
    if (others && ::fchown(fd_.get(), info.uid, info.gid) != 0) {
      // The group alone may be given, if we are in it. Without the owner nobody becomes him by running the file.
      all = false;
      if (::fchown(fd_.get(), static_cast<uid_t>(-1), info.gid) != 0) mode &= ~02000U;
      if (now.uid != info.uid) mode &= ~04000U;
    }
    for (const auto& [name, value] : attributes) {
      if (::fsetxattr(fd_.get(), name.c_str(), value.data(), value.size(), 0) != 0) all = false;
    }
    // After owner and lists, both of which change it.
    const bool moved = others || !attributes.empty() || mode != (now.mode & 07777);
    if (moved && ::fchmod(fd_.get(), mode) != 0) return Failed("set the mode of");
    const timespec times[2] = {info.atime, info.mtime};
    if (::futimens(fd_.get(), times) != 0) return Failed("set the times of");
    return all;
  }

 private:
  absl::Status Failed(std::string_view what) const { return CallStatus(errno, fmt::format("{} {}", what, path_)); }

  const UniqueFd fd_;
  const std::string path_;
  const FileInfo opened_;
  const Leases leases_;
  bool direct_ = false;
  bool quiet_ = false;  // the lease's signal is one that does no harm
};

class PosixTree final : public Tree {
 public:
  PosixTree(UniqueFd root, std::string path, const FileInfo& info, std::uint64_t type, bool keep_folders)
      : root_(std::move(root)),
        path_(std::move(path)),
        info_(info),
        syncs_whole_(SyncsAsAWhole(type)),
        leases_(LeasesOf(type)),
        keep_folders_(keep_folders) {}

  absl::StatusOr<std::vector<TreeEntry>> List(const std::string& folder) override {
    CAIRN_ASSIGN_OR_RETURN(UniqueFd fd, Beneath("list", folder, O_RDONLY | O_DIRECTORY));
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
    if (directory == nullptr) return Failed("list", folder);
    const int at = fd.Release();  // closed with the directory
    std::vector<TreeEntry> entries;
    errno = 0;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") {
        auto info = ReadFileInfo(at, entry->d_name, AT_SYMLINK_NOFOLLOW, name);
        if (info.ok()) {
          entries.push_back({.name = std::string(name), .info = *info});
        } else if (!absl::IsNotFound(info.status())) {
          return Annotate(info.status(), Full(folder));
        }
      }
      errno = 0;
    }
    if (errno != 0) return Failed("list", folder);
    std::ranges::sort(entries, {}, &TreeEntry::name);
    return entries;
  }

  absl::StatusOr<FileInfo> Info(const std::string& path) override {
    if (path.empty()) return ReadFileInfo(root_.get(), "", AT_EMPTY_PATH, path_);
    CAIRN_ASSIGN_OR_RETURN(const Place place, PlaceOf("stat", path));
    return ReadFileInfo(place.folder(), place.name.c_str(), AT_SYMLINK_NOFOLLOW, Full(path));
  }

  absl::StatusOr<std::unique_ptr<FileBelow>> Open(const std::string& path) override {
    return OpenAs(path, O_RDONLY, 0);
  }
  absl::StatusOr<std::unique_ptr<FileBelow>> Create(const std::string& path, std::uint32_t mode) override {
    return OpenAs(path, O_RDWR | O_CREAT | O_EXCL, mode);
  }
  absl::StatusOr<std::unique_ptr<FileBelow>> OpenToWrite(const std::string& path) override {
    return OpenAs(path, O_RDWR | O_CREAT, 0600);
  }
  absl::StatusOr<std::unique_ptr<FileBelow>> OpenFolder(const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(UniqueFd fd, Beneath("open", path, O_RDONLY | O_DIRECTORY));
    return Opened(std::move(fd), path);
  }

  absl::StatusOr<std::string> ReadLink(const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(const Place place, PlaceOf("read link", path));
    std::string target(PATH_MAX, '\0');
    const ssize_t bytes = ::readlinkat(place.folder(), place.name.c_str(), target.data(), target.size());
    if (bytes < 0) return Failed("read link", path);
    target.resize(static_cast<std::size_t>(bytes));
    return target;
  }

  absl::Status Symlink(const std::string& target, const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(const Place place, PlaceOf("make link", path));
    return Result(::symlinkat(target.c_str(), place.folder(), place.name.c_str()), "make link", path);
  }

  absl::Status SetLinkTimes(const std::string& path, const FileInfo& info) override {
    CAIRN_ASSIGN_OR_RETURN(const Place place, PlaceOf("set the times of", path));
    if (::geteuid() == 0) {
      const int chowned = ::fchownat(place.folder(), place.name.c_str(), info.uid, info.gid, AT_SYMLINK_NOFOLLOW);
      CAIRN_RETURN_IF_ERROR(Result(chowned, "set the owner of", path));
    }
    const timespec times[2] = {info.atime, info.mtime};
    const int set = ::utimensat(place.folder(), place.name.c_str(), times, AT_SYMLINK_NOFOLLOW);
    return Result(set, "set the times of", path);
  }

  absl::Status Link(const std::string& existing, const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(const Place from, PlaceOf("link", existing));
    CAIRN_ASSIGN_OR_RETURN(const Place to, PlaceOf("link", path));
    if (::linkat(from.folder(), from.name.c_str(), to.folder(), to.name.c_str(), 0) == 0) return absl::OkStatus();
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK) {
      return FailedPrecondition("link {}: no hard link can be made", Full(path));
    }
    return Failed("link", path);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override { return Rename(from, to, 0); }
  absl::Status RenameNew(const std::string& from, const std::string& to) override {
    return Rename(from, to, RENAME_NOREPLACE);
  }

  absl::Status MakeFolder(const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(const Place place, PlaceOf("make folder", path));
    return Result(::mkdirat(place.folder(), place.name.c_str(), 0700), "make folder", path);
  }

  absl::Status Remove(const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(const Place place, PlaceOf("remove", path));
    if (::unlinkat(place.folder(), place.name.c_str(), 0) == 0) return absl::OkStatus();
    if (errno != EISDIR) return Failed("remove", path);
    if (::unlinkat(place.folder(), place.name.c_str(), AT_REMOVEDIR) != 0) return Failed("remove", path);
    ForgetFolders();  // it may come again as another one
    return absl::OkStatus();
  }

  absl::Status SyncFolder(const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(const UniqueFd fd, Beneath("sync", path, O_RDONLY | O_DIRECTORY));
    if (Uninterrupted([&] { return ::fsync(fd.get()); }) == 0 || errno == EINVAL) return absl::OkStatus();
    return Failed("sync", path);
  }

  absl::Status SyncAll() override { return Result(::syncfs(root_.get()), "sync", ""); }
  bool syncs_as_a_whole() const override { return syncs_whole_; }

  absl::Status CheckRoot() override {
    CAIRN_ASSIGN_OR_RETURN(const FileInfo now, ReadFileInfo(AT_FDCWD, path_.c_str(), AT_SYMLINK_NOFOLLOW, path_));
    if (now.inode == info_.inode && now.device == info_.device) return absl::OkStatus();
    return NotFound("{}: another folder is in its place now", path_);
  }

  void ForgetFolders() override {
    const absl::MutexLock lock(&mutex_);
    folders_.clear();
  }

 private:
  // A name in a folder that stays open as long as this.
  struct Place {
    std::shared_ptr<const UniqueFd> fd;
    int root = -1;
    std::string name;
    int folder() const { return fd ? fd->get() : root; }
  };

  std::string Full(const std::string& path) const { return path.empty() ? path_ : path_ + "/" + path; }
  absl::Status Failed(std::string_view what, const std::string& path) const {
    return WayStatus(errno, what, Full(path));
  }
  absl::Status Result(int result, std::string_view what, const std::string& path) const {
    return result == 0 ? absl::OkStatus() : Failed(what, path);
  }

  absl::StatusOr<UniqueFd> Beneath(std::string_view what, const std::string& path, int flags, std::uint32_t mode = 0) {
    // RESOLVE_CACHED is not asked for: these calls may block.
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
    // A pipe must not hold us; but O_PATH, which opens nothing, goes with few others.
    if ((flags & O_PATH) == 0) how.flags |= O_NONBLOCK;
    how.mode = mode;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
    const char* const name = path.empty() ? "." : path.c_str();
    for (;;) {
      const long fd = ::syscall(SYS_openat2, root_.get(), name, &how, sizeof how);
      if (fd >= 0) return UniqueFd(static_cast<int>(fd));
      // EAGAIN: something was renamed while the kernel looked; it asks to be asked again.
      if (errno == EAGAIN) {
        SleepFor(std::chrono::milliseconds(1));
      } else if (errno != EINTR) {
        return Failed(what, path);
      }
    }
  }

  absl::StatusOr<std::unique_ptr<FileBelow>> OpenAs(const std::string& path, int flags, std::uint32_t mode) {
    CAIRN_ASSIGN_OR_RETURN(UniqueFd fd, Beneath("open", path, flags, mode));
    CAIRN_ASSIGN_OR_RETURN(auto file, Opened(std::move(fd), path));
    if (!file->opened().is_regular()) return InvalidArgument("open {}: not a regular file", Full(path));
    return file;
  }

  absl::StatusOr<std::unique_ptr<FileBelow>> Opened(UniqueFd fd, const std::string& path) {
    std::string full = Full(path);
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, ReadFileInfo(fd.get(), "", AT_EMPTY_PATH, full));
    return std::make_unique<PosixFileBelow>(std::move(fd), std::move(full), info, leases_);
  }

  absl::StatusOr<Place> PlaceOf(std::string_view what, const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return Place{.fd = nullptr, .root = root_.get(), .name = path};
    const std::string folder = path.substr(0, slash);
    std::string name = path.substr(slash + 1);
    if (keep_folders_) {
      const absl::MutexLock lock(&mutex_);
      const auto kept = folders_.find(folder);
      if (kept != folders_.end()) return Place{.fd = kept->second, .root = -1, .name = std::move(name)};
    }
    CAIRN_ASSIGN_OR_RETURN(UniqueFd opened, Beneath(what, folder, O_PATH | O_DIRECTORY));
    auto fd = std::make_shared<const UniqueFd>(std::move(opened));
    if (keep_folders_) {
      const absl::MutexLock lock(&mutex_);
      if (folders_.size() >= kFoldersKept) folders_.clear();
      folders_.emplace(folder, fd);
    }
    return Place{.fd = std::move(fd), .root = -1, .name = std::move(name)};
  }

  absl::Status Rename(const std::string& from, const std::string& to, unsigned flags) {
    CAIRN_ASSIGN_OR_RETURN(const Place old, PlaceOf("rename", from));
    CAIRN_ASSIGN_OR_RETURN(const Place place, PlaceOf("rename to", to));
    if (::renameat2(old.folder(), old.name.c_str(), place.folder(), place.name.c_str(), flags) == 0) {
      return absl::OkStatus();
    }
    if (flags == 0 || (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)) return Failed("rename to", to);
    // NFS, for one, has no rename without replacing. A name more, then one less, comes to the same.
    if (::linkat(old.folder(), old.name.c_str(), place.folder(), place.name.c_str(), 0) != 0) {
      return Failed("give a name to", to);
    }
    return Result(::unlinkat(old.folder(), old.name.c_str(), 0), "remove", from);
  }

  const UniqueFd root_;
  const std::string path_;
  const FileInfo info_;
  const bool syncs_whole_;
  const Leases leases_;
  const bool keep_folders_;
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<const UniqueFd>> folders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tree>> OpenTree(const std::string& root, const PosixTreeOptions& options) {
  UniqueFd fd(Uninterrupted([&] { return ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd.valid()) return ErrnoStatus(errno, fmt::format("open {}", root));
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH;
  const UniqueFd probe(static_cast<int>(::syscall(SYS_openat2, fd.get(), ".", &how, sizeof how)));
  if (!probe.valid()) {
    return Unimplemented("{}: without openat2(2), which this kernel or container refuses, links could lead out", root);
  }
  struct statfs volume {};
  if (::fstatfs(fd.get(), &volume) != 0) return ErrnoStatus(errno, fmt::format("file system of {}", root));
  const auto type = static_cast<std::uint32_t>(volume.f_type);
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, ReadFileInfo(fd.get(), "", AT_EMPTY_PATH, root));
  return std::make_unique<PosixTree>(std::move(fd), root, info, type, options.keep_folders);
}

}  // namespace cairn
