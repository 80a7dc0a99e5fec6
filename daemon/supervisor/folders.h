// Folders that root makes for its users: only where nobody else can put a name in the way, and never in the place of
// what belongs to somebody else. Stateless, hence thread-safe. `us` is the effective user: root, but in tests.
#ifndef CAIRN_DAEMON_SUPERVISOR_FOLDERS_H_
#define CAIRN_DAEMON_SUPERVISOR_FOLDERS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <string>

#include "storage/base/unique_fd.h"

namespace cairn {

struct Owner {
  uid_t user = 0;
  gid_t group = 0;
};

// A folder of ours in which others' folders lie, made with `mode` if it is missing; its missing parents are made 0755.
//   kPermissionDenied  it is no folder, a link, another user's, or others may change it
absl::StatusOr<UniqueFd> OpenSharedFolder(const std::string& path, mode_t mode);

// The owner's folder `name` in `parent`, which is one of ours, with mode 0700. One of ours is given to the owner only
// if it is empty.
//   kInvalidArgument   `name` is no plain name
//   kPermissionDenied  it is no folder, a link, another user's, or ours with something in it
absl::Status MakeUserFolder(int parent, const std::string& name, const Owner& owner);

// The same for an empty file of mode 0600, without other names. What is in one that is there is left.
absl::Status MakeUserFile(int parent, const std::string& name, const Owner& owner);

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_FOLDERS_H_
