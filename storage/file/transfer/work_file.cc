#include "storage/file/transfer/work_file.h"

#include "storage/base/path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "storage/base/checksum.h"
#include "storage/io/disk.h"

namespace cairn {
namespace {

constexpr std::size_t kNameBytesMax = 255;

}  // namespace

std::string TransferWorkName(const std::string& path, const catalogue::FileEntry& entry, std::uint64_t owner) {
  const std::string name = BaseOf(path);
  const std::uint64_t bytes = entry.bytes();
  std::uint32_t crc = Crc32c(std::as_bytes(std::span(name)));
  crc = Crc32c(std::as_bytes(std::span(&bytes, 1)), crc);
  crc = Crc32c(std::as_bytes(std::span(entry.crc32c().data(), static_cast<std::size_t>(entry.crc32c_size()))), crc);
  if (owner != 0) crc = Crc32c(std::as_bytes(std::span(&owner, 1)), crc);
  const std::string suffix = fmt::format("{}{:08x}", kWorkSuffix, crc);
  // A name may be as long as the file system allows; then its end gives way. The CRC tells such names apart.
  const std::size_t kept = std::min(name.size(), kNameBytesMax - suffix.size());
  return path.substr(0, path.size() - name.size() + kept) + suffix;
}

}  // namespace cairn
