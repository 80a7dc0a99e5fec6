#include "storage/base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "storage/base/host_name.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

absl::Status Failed(const std::string& path, int error) {
  const bool denied = error == EACCES || error == EPERM || error == ELOOP;
  return MakeError(denied ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kUnavailable, "{}: {}", path,
                   std::strerror(error));
}

absl::Status MakeParents(const std::filesystem::path& directory) {
  if (directory.empty() || directory == directory.root_path()) return absl::OkStatus();
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  if (errno != ENOENT) return Failed(directory, errno);
  CAIRN_RETURN_IF_ERROR(MakeParents(directory.parent_path()));
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return Failed(directory, errno);
  return absl::OkStatus();
}

// "process 123 on node7", from what the holder wrote; anything may stand there.
std::string HolderIn(int fd) {
  std::array<char, 300> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  std::string_view line(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  line = line.substr(0, line.find('\n'));
  const std::size_t space = line.find(' ');
  for (const char c : line) {
    if (std::isprint(static_cast<unsigned char>(c)) == 0) return "an unknown process";
  }
  if (space == line.npos) return "an unknown process";
  return fmt::format("process {} on {}", line.substr(0, space), line.substr(space + 1));
}

// 0 or errno; EWOULDBLOCK: it is held. The kernel can wait for a lock, but not until a deadline.
int LockWithin(int fd, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause(20);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() >= end) return errno;
    std::this_thread::sleep_for(kPause);
  }
  return 0;
}

}  // namespace

absl::Status CheckOwner(const std::string& directory) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) return Failed(directory, errno);
  if (info.st_uid == ::geteuid() || info.st_uid == 0) return absl::OkStatus();
  return PermissionDenied("{}: belongs to user {}", directory, info.st_uid);
}

absl::StatusOr<LockFile> LockFile::Take(const std::string& path, std::chrono::milliseconds patience) {
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  CAIRN_RETURN_IF_ERROR(MakeParents(directory));
  CAIRN_RETURN_IF_ERROR(CheckOwner(directory));
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!fd.valid()) return Failed(path, errno);
  return Take(std::move(fd), path, patience);
}

absl::StatusOr<LockFile> LockFile::Take(UniqueFd fd, const std::string& path, std::chrono::milliseconds patience) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return Failed(path, errno);
  if (!S_ISREG(info.st_mode)) return PermissionDenied("{}: not a regular file", path);
  if (info.st_uid != ::geteuid()) return PermissionDenied("{}: belongs to user {}", path, info.st_uid);
  if (const int error = LockWithin(fd.get(), patience); error != 0) {
    if (error != EWOULDBLOCK) return Failed(path, error);
    return FailedPrecondition("{}: held by {}", path, HolderIn(fd.get()));
  }
  const std::string holder = fmt::format("{} {}\n", ::getpid(), HostName());
  if (::ftruncate(fd.get(), 0) != 0) return Failed(path, errno);
  if (::pwrite(fd.get(), holder.data(), holder.size(), 0) != static_cast<ssize_t>(holder.size())) {
    return Failed(path, errno);
  }
  return LockFile(std::move(fd));
}

}  // namespace cairn
