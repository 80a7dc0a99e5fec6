// Memory files whose size nobody can change, so that who maps or reads one meets no end that was not there before.
#ifndef CAIRN_STORAGE_BASE_SEALED_MEMORY_H_
#define CAIRN_STORAGE_BASE_SEALED_MEMORY_H_

#include <absl/status/statusor.h>

#include <cstdint>

#include "storage/base/unique_fd.h"

namespace cairn {

struct SealedMemory {
  std::uint64_t inode = 0;  // unique among memory files (Linux 5.9)
  std::uint64_t bytes = 0;
};

// A new one, all zero. kResourceExhausted, with the step that failed.
absl::StatusOr<UniqueFd> MakeSealedMemory(const char* name, std::uint64_t bytes);

// What `fd` is. kInvalidArgument: no such file.
absl::StatusOr<SealedMemory> LookAtMemory(int fd);

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_SEALED_MEMORY_H_
