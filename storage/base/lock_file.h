// One daemon per place: an advisory lock (flock) on a file that names its holder. The kernel frees it when the holder
// dies, so that nothing has to be cleaned up; the file stays.
#ifndef CAIRN_STORAGE_BASE_LOCK_FILE_H_
#define CAIRN_STORAGE_BASE_LOCK_FILE_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <string>
#include <utility>

#include "storage/base/unique_fd.h"

namespace cairn {

// Who owns a directory decides what lies in it: kPermissionDenied if it is neither this user's nor root's.
absl::Status CheckOwner(const std::string& directory);

class LockFile {
 public:
  // Makes the file and its missing directories (0700), locks it and writes "<pid> <host>" into it. One that is held is
  // waited for up to `patience`: a process that was killed keeps its locks until the kernel has taken it apart.
  //   kFailedPrecondition  held: the message names process and host
  //   kPermissionDenied    it or its directory is another user's (root's directory is fine), or no directory can be
  //   made kUnavailable         the file system refuses files or locks
  static absl::StatusOr<LockFile> Take(const std::string& path, std::chrono::milliseconds patience = {});
  // The same with a file that is open already, for reading and writing; `path` is for messages.
  static absl::StatusOr<LockFile> Take(UniqueFd fd, const std::string& path, std::chrono::milliseconds patience = {});

 private:
  explicit LockFile(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;  // closing it frees the lock
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_LOCK_FILE_H_
