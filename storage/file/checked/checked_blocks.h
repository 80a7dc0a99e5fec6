// A file that is read here and there, each of its blocks compared with the catalogue's CRC32C when it is first read. A
// bit for each block remembers that it is good; so small reads cost a block once, and then no more than they ask for.
#ifndef CAIRN_STORAGE_FILE_CHECKED_CHECKED_BLOCKS_H_
#define CAIRN_STORAGE_FILE_CHECKED_CHECKED_BLOCKS_H_

#include <absl/status/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "proto/catalogue.pb.h"

namespace cairn {

// What a catalogue knows of the bytes of a file.
struct FileSums {
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> crc32c;  // of each block of kCrcBlockBytes, the last one shorter
};
// REQUIRES: a sound entry (ValidateCatalogue).
FileSums SumsOf(const catalogue::FileEntry& entry);

// kDataLoss with file, offset, what is and what should be.
absl::Status BlockDiffers(std::string_view path, std::uint64_t offset, std::uint64_t bytes, std::uint32_t found,
                          std::uint32_t expected);

// Thread-safe: two threads that come to a block at once both compare it. `path` goes into errors.
class CheckedBlocks {
 public:
  // `sums` is borrowed.
  explicit CheckedBlocks(const FileSums& sums);

  // Reads exactly these bytes of the file.
  using ReadAt = std::function<absl::Status(std::uint64_t offset, std::span<std::byte> target)>;
  // A block that was not compared yet is read whole, into `target` or into a buffer of its size; what was compared is
  // what is given. Errors of `read` pass through.
  //   kDataLoss  a block differs, or the file has fewer bytes by its catalogue
  absl::Status Read(std::string_view path, std::uint64_t offset, std::span<std::byte> target, const ReadAt& read);

  // The blocks that have some of these bytes, as one range; empty: the file does not have all of the bytes.
  struct Range {
    std::uint64_t begin = 0, bytes = 0;
  };
  Range BlocksOf(std::uint64_t offset, std::uint64_t bytes) const;
  // Compares whole blocks where they lie. REQUIRES: they begin at `begin` of the file, a range of BlocksOf.
  absl::Status Compare(std::string_view path, std::uint64_t begin, std::span<const std::byte> blocks);

 private:
  std::uint64_t BytesOf(std::uint64_t block) const;
  bool IsGood(std::uint64_t block) const;
  absl::Status CompareBlock(std::string_view path, std::uint64_t block, std::span<const std::byte> bytes);

  const FileSums& sums_;
  std::vector<std::atomic<std::uint64_t>> good_;  // a bit for each block
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_FILE_CHECKED_CHECKED_BLOCKS_H_
