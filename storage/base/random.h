// Random bytes of the kernel, for identities and names that must not collide between processes and nodes.
#ifndef CAIRN_STORAGE_BASE_RANDOM_H_
#define CAIRN_STORAGE_BASE_RANDOM_H_

#include <sys/random.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <span>

#include "storage/base/check.h"

namespace cairn {

inline void FillRandom(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::getrandom(bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    CAIRN_CHECK(n > 0);  // the kernel promises it for a valid buffer
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_RANDOM_H_
