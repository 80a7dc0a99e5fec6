// System calls: their errors as a Status, mapped as storage/io/disk.h says, and what a signal interrupts.
#ifndef CAIRN_STORAGE_IO_ERRNO_STATUS_H_
#define CAIRN_STORAGE_IO_ERRNO_STATUS_H_

#include <absl/status/status.h>

#include <cerrno>
#include <string_view>

namespace cairn {

// "<what>: <the system's words for it>". REQUIRES: error > 0.
absl::Status ErrnoStatus(int error, std::string_view what);

// Repeats a call that a signal interrupted.
template <typename Call>
auto Uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_ERRNO_STATUS_H_
