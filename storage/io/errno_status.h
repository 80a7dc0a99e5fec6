// Errors of system calls as a Status, mapped as storage/io/disk.h says.
#ifndef CAIRN_STORAGE_IO_ERRNO_STATUS_H_
#define CAIRN_STORAGE_IO_ERRNO_STATUS_H_

#include <absl/status/status.h>

#include <string_view>

namespace cairn {

// "<what>: <the system's words for it>". REQUIRES: error > 0.
absl::Status ErrnoStatus(int error, std::string_view what);

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_ERRNO_STATUS_H_
