// The data of a directory, wherever it is.
#ifndef CAIRN_STORAGE_FORMAT_BP5_BYTE_SOURCE_H_
#define CAIRN_STORAGE_FORMAT_BP5_BYTE_SOURCE_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn::bp5 {

// Files, mapped files, images in memory, another node. May block.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Exactly these bytes. kNotFound: no such subfile; kDataLoss: it ends before.
  virtual absl::Status Read(std::uint32_t subfile, std::uint64_t offset, std::span<std::byte> target) = 0;
  // The bytes where they are, if this source has them in memory for as long as it lives; empty: read them.
  virtual std::span<const std::byte> InPlace([[maybe_unused]] std::uint32_t subfile,
                                             [[maybe_unused]] std::uint64_t offset,
                                             [[maybe_unused]] std::uint64_t bytes) {
    return {};
  }
};

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_BYTE_SOURCE_H_
