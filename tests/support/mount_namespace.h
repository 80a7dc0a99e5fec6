// File systems that a test mounts are seen by the test and by what it starts, and by nobody else.
#ifndef CAIRN_TESTS_SUPPORT_MOUNT_NAMESPACE_H_
#define CAIRN_TESTS_SUPPORT_MOUNT_NAMESPACE_H_

#include <absl/status/status.h>

namespace cairn {

// Gives the calling thread mounts of its own. Threads and processes that it starts from now on see them; whatever
// happens to the test, they vanish with these. A second call does nothing.
//   kFailedPrecondition  the kernel refuses: this is for root
absl::Status EnterMountNamespace();

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_MOUNT_NAMESPACE_H_
