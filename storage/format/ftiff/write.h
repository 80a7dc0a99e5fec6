// Writes a whole checkpoint file of layout A or F, given its containers and a source for their bytes.
// For conversions, exports and layout A in the cache; the daemon's fast path writes layout F from images itself.
// Pure: reads and writes through functions; memory is bounded by the records and some MiB.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_WRITE_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_WRITE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/layout.h"

namespace cairn::ftiff {

// Writes bytes at `offset` of the new file. Calls come front to back, without gap or overlap, except that the file
// record of layout A (at 0) comes last; containers' unused tails are written as zeros.
using WriteAt = std::function<absl::Status(std::uint64_t offset, std::span<const std::byte> bytes)>;
using ReadVariable = std::function<absl::Status(std::int32_t id, std::uint64_t offset, std::span<std::byte> target)>;

struct FileToWrite {
  Letter letter = Letter::kF;  // A or F
  FileHeader header;
  FileLayout layout;  // any offsets: the letter says where containers go
  // One per container, or none at all. Of those without content the last hash that they had is stored in F (none given:
  // that of nothing). Of those with content: what the bytes must have; none given: whatever they have.
  std::vector<Md5Digest> chunk_hashes;
  // A: as EncodeBlocksA's; F does not hold it.
  std::vector<std::int32_t> registered = {};
};
// The metadata of what was written, as DecodeMetadata reads it. In F, and in A with hashes given, each variable is read
// once, front to back by container; in A without them twice.
//   kDataLoss         bytes that were read do not have the hash given, or (A) were not the same when read again
//   kInvalidArgument  a layout whose sums are wrong or too large for a file, or whose variables are not those that
//                     are registered
// Errors of the functions pass through. After an error what was written is of no use.
absl::StatusOr<FileMetadata> WriteFile(const FileToWrite& file, const ReadVariable& read, const WriteAt& write);

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_WRITE_H_
