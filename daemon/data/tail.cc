#include "daemon/data/tail.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

struct Free {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

}  // namespace

CaptureResult SumUp(std::uint64_t data_bytes, std::span<const BlockCrc> windows, std::vector<std::byte> metadata) {
  CaptureResult result;
  result.file_bytes = data_bytes + metadata.size();
  result.metadata = std::move(metadata);
  const std::span<const std::byte> behind = result.metadata;
  result.crc32c.reserve(result.file_bytes / kWindowBytes + 1);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::uint64_t bytes = std::min(kWindowBytes, data_bytes - i * kWindowBytes);
    result.crc32c.push_back(windows[i].crc32c);
    result.crc32 = Crc32Combine(result.crc32, windows[i].crc32, bytes);
  }
  result.crc32 = Crc32(behind, result.crc32);
  for (std::size_t at = 0; at < behind.size();) {
    const std::uint64_t in_block = (data_bytes + at) % kCrcBlockBytes;
    const std::size_t bytes = std::min<std::uint64_t>(kCrcBlockBytes - in_block, behind.size() - at);
    if (in_block == 0) result.crc32c.push_back(0);
    result.crc32c.back() = Crc32c(behind.subspan(at, bytes), result.crc32c.back());
    at += bytes;
  }
  return result;
}

absl::Status WriteTail(File& file, std::uint64_t data_bytes, std::span<const std::byte> data_rest,
                       std::span<const std::byte> metadata) {
  CAIRN_CHECK(data_rest.size() == data_bytes % kDirectAlignment);
  const std::size_t bytes = data_rest.size() + metadata.size();
  const std::size_t padded = DirectBytes(bytes);
  const std::unique_ptr<std::byte, Free> buffer(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, padded)));
  if (buffer == nullptr) return ResourceExhausted("{}: no memory for {} bytes of metadata", file.path(), padded);
  std::memset(buffer.get(), 0, padded);
  std::copy(data_rest.begin(), data_rest.end(), buffer.get());
  std::copy(metadata.begin(), metadata.end(), buffer.get() + data_rest.size());
  const std::size_t written = file.direct() ? padded : bytes;
  CAIRN_RETURN_IF_ERROR(file.WriteAt(data_bytes - data_rest.size(), std::span(buffer.get(), written)));
  if (written == bytes) return absl::OkStatus();
  return file.Truncate(data_bytes + metadata.size());
}

}  // namespace cairn
