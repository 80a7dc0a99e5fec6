#include "storage/io/posix_disk.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "storage/io/errno_status.h"
#include "storage/io/posix_file.h"

namespace cairn {
namespace {

absl::StatusOr<UniqueFd> OpenFd(std::string_view what, const std::string& path, int flags, std::uint32_t mode = 0) {
  for (;;) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    if (fd >= 0) return UniqueFd(fd);
    if (errno != EINTR) return ErrnoStatus(errno, fmt::format("{} {}", what, path));
  }
}

int OpenFlags(const Disk::OpenOptions& options) {
  // O_NONBLOCK: so that a named pipe cannot hold us.
  int flags = O_NOFOLLOW | O_NONBLOCK | (options.writable ? O_RDWR : O_RDONLY);
  if (options.create) flags |= options.exclusive ? O_CREAT | O_EXCL : O_CREAT | O_TRUNC;
  return flags;
}

// link(2): EPERM means that the file system has no hard links, or that this file may not have another: a directory, or,
// as the kernel may be set up, somebody else's. Others say so by EMLINK, for the second name already.
bool HasNoLinks(int error, const std::string& existing) {
  if (error == EOPNOTSUPP || error == ENOSYS) return true;
  struct stat stat {};
  if ((error != EPERM && error != EMLINK) || ::lstat(existing.c_str(), &stat) != 0 || !S_ISREG(stat.st_mode)) {
    return false;
  }
  return error == EPERM ? stat.st_uid == ::geteuid() : stat.st_nlink == 1;
}

// A file system for disks of this machine: whoever reads there is not left waiting for a server of files.
bool IsOfThisMachine(int fd) {
  struct statfs stat {};
  if (::fstatfs(fd, &stat) != 0) return false;
  const auto type = static_cast<std::uint32_t>(stat.f_type);
  return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC || type == F2FS_SUPER_MAGIC;
}

// What direct reads of this file ask of an address; 0: it has none. Kernels before 6.1 do not tell; a page always is
// enough.
std::uint64_t MemoryAlignment(int fd) {
#ifdef STATX_DIOALIGN
  struct statx stat {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stat) == 0 && (stat.stx_mask & STATX_DIOALIGN) != 0) {
    return stat.stx_dio_offset_align <= kDirectAlignment ? stat.stx_dio_mem_align : 0;
  }
#endif
  return kDirectAlignment;
}

// A file system has one for as long as a file of it is open, or has a transfer under way; then the engine is the next
// one's. None ends before all do: the last file may be let go of on a thread of its engine.
class Engines {
 public:
  explicit Engines(const IoEngineOptions& options) : options_(options) {
    const absl::MutexLock lock(&mutex_);
    Add();
  }

  // Does not wait for an engine that is being made.
  std::string_view names() const {
    if (!threads_) return "io_uring";
    return io_uring_ ? "io_uring, threads" : "threads";
  }

  // The first one pins: that of the cache, whose disk serves nothing else. What others transfer works without.
  std::shared_ptr<void> Pin(std::span<std::byte> memory) {
    IoEngine* first = nullptr;
    {
      const absl::MutexLock lock(&mutex_);
      first = engines_.front().get();
    }
    return first->Pin(memory);
  }

  // For one file.
  std::shared_ptr<IoEngine> Of(dev_t device) {
    return {Take(device), [this, device](IoEngine*) { LetGo(device); }};
  }

 private:
  struct Served {
    std::size_t engine = 0;  // its place in engines_
    std::uint64_t files = 0;
  };

  IoEngine* Take(dev_t device) {
    const absl::MutexLock lock(&mutex_);
    auto served = served_.find(device);
    if (served == served_.end()) served = served_.emplace(device, Served{.engine = LeastUsed()}).first;
    ++served->second.files;
    return engines_[served->second.engine].get();
  }

  std::size_t LeastUsed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<std::size_t> file_systems(engines_.size());  // that each engine serves
    for (const auto& [device, served] : served_) ++file_systems[served.engine];
    const auto least = std::ranges::min_element(file_systems);
    if (*least == 0 || engines_.size() == PosixDisk::kEnginesMax) {
      return static_cast<std::size_t>(least - file_systems.begin());
    }
    Add();
    return engines_.size() - 1;
  }

  void Add() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    engines_.push_back(MakeIoEngine(options_));
    (engines_.back()->name() == "io_uring" ? io_uring_ : threads_) = true;
  }

  void LetGo(dev_t device) {
    const absl::MutexLock lock(&mutex_);
    const auto served = served_.find(device);
    if (--served->second.files == 0) served_.erase(served);
  }

  const IoEngineOptions options_;
  mutable absl::Mutex mutex_;
  std::map<dev_t, Served> served_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> io_uring_{false}, threads_{false};  // one of them is such an engine
  // Last: they end first, and what they still finish lets go of them.
  std::vector<std::unique_ptr<IoEngine>> engines_ ABSL_GUARDED_BY(mutex_);
};

class PosixDiskImpl final : public PosixDisk {
 public:
  explicit PosixDiskImpl(const PosixDiskOptions& options) : engines_(options.engine), direct_(options.direct) {}

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override {
    CAIRN_ASSIGN_OR_RETURN(UniqueFd fd, OpenFd("open", path, OpenFlags(options), options.mode));
    struct stat stat {};
    if (::fstat(fd.get(), &stat) != 0) return ErrnoStatus(errno, fmt::format("stat {}", path));
    if (!S_ISREG(stat.st_mode)) return InvalidArgument("open {}: not a regular file", path);
    return Opened(std::move(fd), stat.st_dev, path, options.direct);
  }

  absl::StatusOr<HandedFile> OpenForHanding(const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(UniqueFd fd, OpenFd("open", path, OpenFlags({})));
    struct stat stat {};
    if (::fstat(fd.get(), &stat) != 0) return ErrnoStatus(errno, fmt::format("stat {}", path));
    if (!S_ISREG(stat.st_mode)) return InvalidArgument("open {}: not a regular file", path);
    ++files_asked_;
    const std::uint64_t alignment = MemoryAlignment(fd.get());
    if (!direct_ || alignment == 0 || !IsOfThisMachine(fd.get()) || ::fcntl(fd.get(), F_SETFL, O_DIRECT) != 0) {
      return FailedPrecondition("{}: others cannot read it with direct I/O", path);
    }
    ++files_handed_;
    return HandedFile{
        .fd = std::move(fd), .bytes = static_cast<std::uint64_t>(stat.st_size), .memory_alignment = alignment};
  }

  absl::StatusOr<std::unique_ptr<File>> OpenUnnamed(const std::string& directory) override {
    UniqueFd fd;
    int error = EINTR;
    while (error == EINTR && !fd.valid()) {
      fd = UniqueFd(::open(directory.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
      error = errno;
    }
    // EISDIR: a kernel that takes it for the opening of a directory.
    if (!fd.valid() && (error == EOPNOTSUPP || error == EISDIR)) {
      return FailedPrecondition("{}: this file system makes no files without names", directory);
    }
    if (!fd.valid()) return ErrnoStatus(error, fmt::format("make a file without a name in {}", directory));
    struct stat stat {};
    if (::fstat(fd.get(), &stat) != 0) return ErrnoStatus(errno, fmt::format("stat a file in {}", directory));
    return Opened(std::move(fd), stat.st_dev, directory, /*wants_direct=*/true);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, fmt::format("rename {} to {}", from, to));
  }

  absl::Status RenameNew(const std::string& from, const std::string& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return absl::OkStatus();
    const int error = errno;
    // EINVAL also: a directory into itself. Who asks for that need not be told that it is wrong.
    if (error == EINVAL || error == ENOSYS || error == EOPNOTSUPP) {
      return FailedPrecondition("rename {} to {}: this file system cannot without replacing", from, to);
    }
    return ErrnoStatus(error, fmt::format("rename {} to {}", from, to));
  }

  absl::Status Link(const std::string& existing, const std::string& link) override {
    if (::link(existing.c_str(), link.c_str()) == 0) return absl::OkStatus();
    const int error = errno;
    if (HasNoLinks(error, existing)) {
      return FailedPrecondition("link {} to {}: this file system has no hard links", link, existing);
    }
    return ErrnoStatus(error, fmt::format("link {} to {}", link, existing));
  }

  absl::Status Clone(const std::string& from, const std::string& to) override {
    CAIRN_ASSIGN_OR_RETURN(const UniqueFd source, OpenFd("clone", from, O_RDONLY | O_NOFOLLOW));
    CAIRN_ASSIGN_OR_RETURN(const UniqueFd target,
                           OpenFd("clone to", to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    if (::ioctl(target.get(), FICLONE, source.get()) == 0) return absl::OkStatus();
    const int error = errno;
    ::unlink(to.c_str());  // we have just made it
    if (error == EOPNOTSUPP || error == ENOTTY || error == EXDEV || error == EINVAL || error == ENOSYS) {
      return FailedPrecondition("clone {} to {}: this file system cannot share extents", from, to);
    }
    return ErrnoStatus(error, fmt::format("clone {} to {}", from, to));
  }

  absl::Status Symlink(const std::string& target, const std::string& link) override {
    if (::symlink(target.c_str(), link.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, fmt::format("make symbolic link {}", link));
  }

  absl::StatusOr<std::string> ReadLink(const std::string& path) override {
    std::string target(PATH_MAX, '\0');
    const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
    if (size < 0) return ErrnoStatus(errno, fmt::format("read symbolic link {}", path));
    target.resize(static_cast<std::size_t>(size));
    return target;
  }

  absl::StatusOr<std::string> RealPath(const std::string& path) override {
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
    if (real == nullptr) return ErrnoStatus(errno, fmt::format("resolve {}", path));
    return std::string(real.get());
  }

  absl::Status Remove(const std::string& path) override {
    if (::remove(path.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, fmt::format("remove {}", path));
  }

  absl::Status MakeDirectory(const std::string& path, std::uint32_t mode) override {
    if (::mkdir(path.c_str(), mode) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, fmt::format("make directory {}", path));
  }

  absl::Status SyncDirectory(const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(const UniqueFd fd, OpenFd("sync directory", path, O_RDONLY | O_DIRECTORY));
    while (::fsync(fd.get()) != 0) {
      if (errno == EINVAL) return absl::OkStatus();  // a file system that has nothing to sync in a directory
      if (errno != EINTR) return ErrnoStatus(errno, fmt::format("sync directory {}", path));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(UniqueFd fd, OpenFd("list", path, O_RDONLY | O_DIRECTORY));
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
    if (directory == nullptr) return ErrnoStatus(errno, fmt::format("list {}", path));
    fd.Release();  // closed with the directory
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    if (errno != 0) return ErrnoStatus(errno, fmt::format("list {}", path));
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<FileInfo> Info(const std::string& path) override {
    return ReadFileInfo(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, path);
  }

  absl::Status SetModeAndTimes(const std::string& path, std::uint32_t mode, timespec atime, timespec mtime) override {
    if (::fchmodat(AT_FDCWD, path.c_str(), mode & 07777, AT_SYMLINK_NOFOLLOW) != 0) {
      return ErrnoStatus(errno, fmt::format("set mode {:o} of {}", mode & 07777, path));
    }
    const timespec times[2] = {atime, mtime};
    if (::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
      return ErrnoStatus(errno, fmt::format("set times of {}", path));
    }
    return absl::OkStatus();
  }

  std::shared_ptr<void> Pin(std::span<std::byte> memory) override { return engines_.Pin(memory); }
  DiskMechanisms mechanisms() const override {
    // Before those that they are part of, or they could be more.
    const std::uint64_t files_direct = files_direct_, files_handed = files_handed_;
    return {.engine = engines_.names(),
            .direct = direct_,
            .files = files_,
            .files_direct = files_direct,
            .files_asked = files_asked_,
            .files_handed = files_handed};
  }
  // A journalling file system writes its journal once for all of them.
  std::size_t syncs_at_once() const override { return 8; }

  TransferShapes shapes() const override {
    const absl::MutexLock lock(&shapes_mutex_);
    return shapes_;
  }
  void UseShapes(const TransferShapes& shapes) override {
    CAIRN_CHECK(shapes.write.valid() && shapes.read.valid());
    const absl::MutexLock lock(&shapes_mutex_);
    shapes_ = shapes;
  }

  absl::StatusOr<std::uint64_t> FreeBytes(const std::string& path) override {
    struct statvfs stat {};
    if (::statvfs(path.c_str(), &stat) != 0) return ErrnoStatus(errno, fmt::format("free bytes of {}", path));
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(stat.f_bavail, stat.f_frsize, &bytes)) return UINT64_MAX;
    return bytes;
  }

  absl::StatusOr<std::uint64_t> FileSystemType(const std::string& path) override {
    struct statfs stat {};
    if (::statfs(path.c_str(), &stat) != 0) return ErrnoStatus(errno, fmt::format("file system of {}", path));
    return static_cast<std::uint32_t>(stat.f_type);  // kinds have 32 bits; the field is signed, and of another width
  }

 private:
  // Direct I/O is asked for only now: an open that refuses it has made the file already.
  absl::StatusOr<std::unique_ptr<File>> Opened(UniqueFd fd, dev_t device, const std::string& path, bool wants_direct) {
    const bool direct = direct_ && wants_direct && ::fcntl(fd.get(), F_SETFL, O_DIRECT) == 0;
    if (!direct && ::fcntl(fd.get(), F_SETFL, 0) != 0) return ErrnoStatus(errno, fmt::format("open {}", path));
    if (direct_ && wants_direct) ++files_;
    if (direct) ++files_direct_;
    return std::make_unique<PosixFile>(engines_.Of(device), std::move(fd), path, direct);
  }

  Engines engines_;
  const bool direct_;
  std::atomic<std::uint64_t> files_{0}, files_direct_{0}, files_asked_{0}, files_handed_{0};  // as mechanisms has them
  mutable absl::Mutex shapes_mutex_;
  TransferShapes shapes_ ABSL_GUARDED_BY(shapes_mutex_);
};

}  // namespace

std::unique_ptr<PosixDisk> MakePosixDisk(const PosixDiskOptions& options) {
  return std::make_unique<PosixDiskImpl>(options);
}

}  // namespace cairn
