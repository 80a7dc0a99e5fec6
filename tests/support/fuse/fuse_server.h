// The process behind a FuseFolder: it answers the kernel's requests by those on a real folder.
#ifndef CAIRN_TESTS_SUPPORT_FUSE_FUSE_SERVER_H_
#define CAIRN_TESTS_SUPPORT_FUSE_FUSE_SERVER_H_

#include "tests/support/fuse/fuse_folder.h"

namespace cairn {

struct FuseServing {
  int device = -1;   // /dev/fuse, mounted
  int control = -1;  // FuseControl messages; at its end the serving ends
  int root = -1;     // the folder, O_PATH
  FuseOptions options = {};
};

// Serves until the mount or the other end of `control` has gone.
void ServeFuse(const FuseServing& serving);

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_FUSE_FUSE_SERVER_H_
