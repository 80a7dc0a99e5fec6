#include "storage/file/checked/checked_blocks.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::uint64_t kBitsOfWord = 64;

}  // namespace

FileSums SumsOf(const catalogue::FileEntry& entry) {
  return {.bytes = entry.bytes(), .crc32c = {entry.crc32c().begin(), entry.crc32c().end()}};
}

absl::Status BlockDiffers(std::string_view path, std::uint64_t offset, std::uint64_t bytes, std::uint32_t found,
                          std::uint32_t expected) {
  return DataLoss("{}: offset {}: {} bytes with CRC32C {:08x} instead of {:08x}", path, offset, bytes, found, expected);
}

CheckedBlocks::CheckedBlocks(const FileSums& sums)
    : sums_(sums), good_((sums.crc32c.size() + kBitsOfWord - 1) / kBitsOfWord) {
  CAIRN_CHECK(sums.crc32c.size() == sums.bytes / kCrcBlockBytes + (sums.bytes % kCrcBlockBytes != 0));
}

std::uint64_t CheckedBlocks::BytesOf(std::uint64_t block) const {
  return std::min(kCrcBlockBytes, sums_.bytes - block * kCrcBlockBytes);
}

bool CheckedBlocks::IsGood(std::uint64_t block) const {
  return (good_[block / kBitsOfWord].load(std::memory_order_relaxed) >> block % kBitsOfWord & 1) != 0;
}

absl::Status CheckedBlocks::CompareBlock(std::string_view path, std::uint64_t block, std::span<const std::byte> bytes) {
  const std::uint32_t found = Crc32c(bytes), expected = sums_.crc32c[block];
  if (found != expected) return BlockDiffers(path, block * kCrcBlockBytes, bytes.size(), found, expected);
  good_[block / kBitsOfWord].fetch_or(std::uint64_t{1} << block % kBitsOfWord, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status CheckedBlocks::Read(std::string_view path, std::uint64_t offset, std::span<std::byte> target,
                                 const ReadAt& read) {
  if (offset > sums_.bytes || target.size() > sums_.bytes - offset) {
    return DataLoss("{}: offset {}: {} bytes are wanted, by its catalogue the file ends at {}", path, offset,
                    target.size(), sums_.bytes);
  }
  std::unique_ptr<std::byte[]> buffer;
  for (std::size_t count = 0; !target.empty(); target = target.subspan(count), offset += count) {
    const std::uint64_t block = offset / kCrcBlockBytes, within = offset % kCrcBlockBytes, bytes = BytesOf(block);
    count = std::min<std::size_t>(target.size(), bytes - within);
    if (IsGood(block)) {
      while (count < target.size() && IsGood((offset + count) / kCrcBlockBytes)) {
        count += std::min<std::size_t>(target.size() - count, kCrcBlockBytes);
      }
      CAIRN_RETURN_IF_ERROR(read(offset, target.first(count)));
    } else if (count == bytes) {
      CAIRN_RETURN_IF_ERROR(read(offset, target.first(count)));
      CAIRN_RETURN_IF_ERROR(CompareBlock(path, block, target.first(count)));
    } else {
      if (buffer == nullptr) buffer.reset(new std::byte[std::min(sums_.bytes, kCrcBlockBytes)]);
      const std::span<std::byte> whole(buffer.get(), bytes);
      CAIRN_RETURN_IF_ERROR(read(block * kCrcBlockBytes, whole));
      CAIRN_RETURN_IF_ERROR(CompareBlock(path, block, whole));
      std::memcpy(target.data(), whole.data() + within, count);
    }
  }
  return absl::OkStatus();
}

CheckedBlocks::Range CheckedBlocks::BlocksOf(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > sums_.bytes || bytes > sums_.bytes - offset) return {};
  const std::uint64_t begin = offset - offset % kCrcBlockBytes, end = offset + bytes;
  const std::uint64_t rest = (kCrcBlockBytes - end % kCrcBlockBytes) % kCrcBlockBytes;
  return {.begin = begin, .bytes = end + std::min(rest, sums_.bytes - end) - begin};
}

absl::Status CheckedBlocks::Compare(std::string_view path, std::uint64_t begin, std::span<const std::byte> blocks) {
  for (std::uint64_t block = begin / kCrcBlockBytes; !blocks.empty(); ++block) {
    const std::uint64_t bytes = BytesOf(block);
    if (!IsGood(block)) CAIRN_RETURN_IF_ERROR(CompareBlock(path, block, blocks.first(bytes)));
    blocks = blocks.subspan(bytes);
  }
  return absl::OkStatus();
}

}  // namespace cairn
