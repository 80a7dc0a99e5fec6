#include "storage/io/posix_file.h"

#include <absl/synchronization/mutex.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "storage/base/caught.h"
#include "storage/base/status.h"
#include "storage/io/errno_status.h"
#include "storage/io/io_job.h"

namespace cairn {
namespace {

constexpr std::uint64_t kOffsetMax = std::numeric_limits<off_t>::max();

// Grows the file with blocks reserved, or without if the file system cannot. 0 or errno.
int Reserve(int fd, off_t from, off_t to) {
  // Asked first, since a reservation that fails takes all there is for a moment, from everybody else.
  struct statvfs volume {};
  if (::fstatvfs(fd, &volume) != 0) return errno;
  const bool counts = volume.f_blocks != 0 && volume.f_frsize != 0;  // not all file systems do
  if (counts && static_cast<std::uint64_t>(to - from) / volume.f_frsize > volume.f_bavail) return ENOSPC;
  if (Uninterrupted([&] { return ::fallocate(fd, 0, from, to - from); }) == 0) return 0;
  // EINVAL: some file systems say so instead of EOPNOTSUPP.
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) return errno;
  return Uninterrupted([&] { return ::ftruncate(fd, to); }) == 0 ? 0 : errno;
}

timespec TimeOf(const struct statx_timestamp& time) {
  return {.tv_sec = time.tv_sec, .tv_nsec = time.tv_nsec};
}

}  // namespace

absl::StatusOr<FileInfo> ReadFileInfo(int fd, const char* path, int flags, std::string_view name) {
  struct statx stat {};
  // Unlike stat(2) it would mount what is mounted on demand.
  if (::statx(fd, path, flags | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_BTIME, &stat) != 0) {
    return ErrnoStatus(errno, fmt::format("stat {}", name));
  }
  FileInfo info{.bytes = stat.stx_size,
                .allocated_bytes = stat.stx_blocks * 512,
                .inode = stat.stx_ino,
                .device = ::makedev(stat.stx_dev_major, stat.stx_dev_minor),
                .mode = stat.stx_mode,
                .uid = stat.stx_uid,
                .gid = stat.stx_gid,
                .links = stat.stx_nlink,
                .atime = TimeOf(stat.stx_atime),
                .mtime = TimeOf(stat.stx_mtime),
                .ctime = TimeOf(stat.stx_ctime)};
  if ((stat.stx_mask & STATX_BTIME) != 0) info.birth = TimeOf(stat.stx_btime);
  return info;
}

PosixFile::PosixFile(std::shared_ptr<IoEngine> engine, UniqueFd fd, std::string path, bool direct)
    : handle_(std::make_shared<const Handle>(Handle{std::move(engine), std::move(fd), std::move(path), direct})) {}

absl::Status PosixFile::Handle::CheckAlignment(std::string_view what, std::uint64_t offset,
                                               std::span<const std::byte> bytes) const {
  if (offset > kOffsetMax - std::min<std::uint64_t>(bytes.size(), kOffsetMax)) {
    return InvalidArgument("{} {}: {} bytes at {} are beyond what a file can hold", what, path, bytes.size(), offset);
  }
  if (!direct) return absl::OkStatus();
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  if ((address | offset | bytes.size()) % kDirectAlignment != 0) {
    return InvalidArgument("{} {}: {} bytes at {} from address {:#x} are not aligned to {} for direct I/O", what, path,
                           bytes.size(), offset, address, kDirectAlignment);
  }
  return absl::OkStatus();
}

absl::Status PosixFile::Handle::ReadResult(int error, std::size_t got, std::uint64_t offset,
                                           std::span<std::byte> target) const {
  if (error != 0) return ErrnoStatus(error, fmt::format("read {} at {}", path, offset + got));
  if (got == target.size()) return absl::OkStatus();
  if (!direct || target.size() - got >= kDirectAlignment) {
    return DataLoss("read {} at {}: the file ends after {} of {} bytes", path, offset, got, target.size());
  }
  std::fill(target.begin() + static_cast<std::ptrdiff_t>(got), target.end(), std::byte{0});
  return absl::OkStatus();
}

absl::Status PosixFile::Handle::WriteResult(int error, std::size_t taken, std::uint64_t offset) const {
  if (error == 0) return absl::OkStatus();
  return ErrnoStatus(error, fmt::format("write {} at {}", path, offset + taken));
}

absl::Status PosixFile::ReadAt(std::uint64_t offset, std::span<std::byte> target) {
  CAIRN_RETURN_IF_ERROR(handle_->CheckAlignment("read", offset, target));
  IoJob job{{.fd = handle_->fd.get(),
             .write = false,
             .direct = handle_->direct,
             .offset = offset,
             .data = target.data(),
             .bytes = target.size(),
             .done = nullptr}};
  const int error = job.RunHere();
  return handle_->ReadResult(error, job.bytes_done, offset, target);
}

absl::Status PosixFile::WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) {
  CAIRN_RETURN_IF_ERROR(handle_->CheckAlignment("write", offset, bytes));
  IoJob job{{.fd = handle_->fd.get(),
             .write = true,
             .direct = handle_->direct,
             .offset = offset,
             .data = const_cast<std::byte*>(bytes.data()),
             .bytes = bytes.size(),
             .done = nullptr}};
  const int error = job.RunHere();
  return handle_->WriteResult(error, job.bytes_done, offset);
}

void PosixFile::ReadAsync(std::uint64_t offset, std::span<std::byte> target, Done done) {
  if (absl::Status status = handle_->CheckAlignment("read", offset, target); !status.ok()) return done(status);
  handle_->engine->Submit(
      {.fd = handle_->fd.get(),
       .write = false,
       .direct = handle_->direct,
       .offset = offset,
       .data = target.data(),
       .bytes = target.size(),
       .done = [handle = handle_, offset, target, done = std::move(done)](int error, std::size_t bytes) {
         done(Caught([&] { return handle->ReadResult(error, bytes, offset, target); }));
       }});
}

void PosixFile::WriteAsync(std::uint64_t offset, std::span<const std::byte> bytes, Done done) {
  if (absl::Status status = handle_->CheckAlignment("write", offset, bytes); !status.ok()) return done(status);
  handle_->engine->Submit({.fd = handle_->fd.get(),
                           .write = true,
                           .direct = handle_->direct,
                           .offset = offset,
                           .data = const_cast<std::byte*>(bytes.data()),  // a write only reads it
                           .bytes = bytes.size(),
                           .done = [handle = handle_, offset, done = std::move(done)](int error, std::size_t taken) {
                             done(Caught([&] { return handle->WriteResult(error, taken, offset); }));
                           }});
}

absl::Status PosixFile::Truncate(std::uint64_t bytes) {
  const int fd = handle_->fd.get();
  if (bytes > kOffsetMax) return InvalidArgument("truncate {}: {} bytes are beyond any file", path(), bytes);
  struct stat now {};
  if (::fstat(fd, &now) != 0) return ErrnoStatus(errno, fmt::format("stat {}", path()));
  const auto size = static_cast<off_t>(bytes);
  const int error = size > now.st_size ? Reserve(fd, now.st_size, size) : 0;
  if (error != 0 || size <= now.st_size) {
    const off_t target = error != 0 ? now.st_size : size;  // a reservation that failed may have grown the file
    if (Uninterrupted([&] { return ::ftruncate(fd, target); }) != 0) {
      return ErrnoStatus(errno, fmt::format("truncate {} to {}", path(), target));
    }
  }
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, fmt::format("grow {} to {} bytes", path(), bytes));
}

absl::Status PosixFile::Sync() {
  const absl::MutexLock lock(&sync_mutex_);
  if (sync_error_.ok() && Uninterrupted([&] { return ::fdatasync(handle_->fd.get()); }) != 0) {
    sync_error_ = ErrnoStatus(errno, fmt::format("sync {}", path()));
  }
  return sync_error_;
}

absl::StatusOr<FileInfo> PosixFile::Info() {
  return ReadFileInfo(handle_->fd.get(), "", AT_EMPTY_PATH, path());
}

absl::Status PosixFile::TryLock() {
  if (Uninterrupted([&] { return ::flock(handle_->fd.get(), LOCK_EX | LOCK_NB); }) == 0) return absl::OkStatus();
  switch (errno) {
    case EWOULDBLOCK:
      return Aborted("lock {}: another process has it", path());
    case ENOLCK:
    case ENOSYS:
    case EOPNOTSUPP:
    case EINVAL:
      return FailedPrecondition("lock {}: this file system has no locks", path());
    default:
      return ErrnoStatus(errno, fmt::format("lock {}", path()));
  }
}

}  // namespace cairn
