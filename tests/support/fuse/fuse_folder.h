// A file system of a test's own: a real folder, shown elsewhere through /dev/fuse, which lacks what it is told to lack
// and fails or hangs on request, seen by real processes through real system calls. The faults that it can make:
//   no_links, no_rename_flags   link(2), and renameat2(2) with flags, fail with this errno
//   Fail(fault)                 the next requests of a kind, for certain names, fail with an errno
//   Hang(fault)                 they get no answer until Release; a process that is killed meanwhile dies (EINTR)
// A process of its own serves it, so a hanging request holds up those that wait for it and no others. Nothing is cached
// by the kernel but pages of files.
//
// Needs root and /dev/fuse. The mount is in a mount namespace that Mount makes for the calling thread: threads and
// processes that it starts afterwards see it, nobody else, and whatever happens to the test, nothing stays behind.
#ifndef CAIRN_TESTS_SUPPORT_FUSE_FUSE_FOLDER_H_
#define CAIRN_TESTS_SUPPORT_FUSE_FUSE_FOLDER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <linux/fuse.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "storage/base/unique_fd.h"

namespace cairn {

struct FuseOptions {
  int no_links = 0;         // EPERM, ENOSYS …; 0: there are links
  int no_rename_flags = 0;  // EINVAL …
};

struct FuseFault {
  std::uint32_t opcode = 0;    // FUSE_WRITE, FUSE_FSYNC, FUSE_LOOKUP …; 0: each that has an answer
  std::string name_part = {};  // in the name that the request has, or that its file was last found by; "": all
  int error = 5;               // EIO; of Fail
  std::uint32_t times = 1;
};

class FuseFolder {
 public:
  // Shows `folder` at `mount_point`; both are there. REQUIRES: threads that are to see it are not there yet.
  //   kFailedPrecondition  no /dev/fuse, or mounting is refused: this machine cannot
  static absl::StatusOr<std::unique_ptr<FuseFolder>> Mount(const std::string& folder, const std::string& mount_point,
                                                           const FuseOptions& options = {});
  // Releases what hangs, unmounts, and ends the process. REQUIRES: on the thread that called Mount.
  ~FuseFolder();
  FuseFolder(const FuseFolder&) = delete;

  void Fail(const FuseFault& fault);
  void Hang(const FuseFault& fault);
  // Answers what hangs, as if it came now, and forgets all faults.
  void Release();
  std::uint32_t hanging() const;  // requests without an answer
  const std::string& mount_point() const { return mount_point_; }

 private:
  FuseFolder(std::string mount_point, UniqueFd control, pid_t server)
      : mount_point_(std::move(mount_point)), control_(std::move(control)), server_(server) {}

  const std::string mount_point_;
  UniqueFd control_;
  const pid_t server_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_FUSE_FUSE_FOLDER_H_
