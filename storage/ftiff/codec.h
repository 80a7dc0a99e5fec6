// Layout F of FTI-FF, bytes to structures and back: containers first, all metadata behind them.
// Source: FTI-FF specification, sections 2, 3 and 10. Pure: bytes in, structures out, no I/O.
#ifndef CAIRN_STORAGE_FTIFF_CODEC_H_
#define CAIRN_STORAGE_FTIFF_CODEC_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/ftiff/layout.h"

namespace cairn::ftiff {

struct FileHeader {
  std::int32_t checkpoint_id = 0;
  std::uint64_t timestamp_ns = 0;    // only the low 32 bits are stored in F
  std::int64_t file_bytes_max = -1;  // maxFs: level 3 only
  std::int64_t partner_bytes = -1;   // ptFs: level 2 only
};

// A checkpoint file's metadata: what the trailer, the blocks and the chunk records say.
struct FileMetadata {
  FileHeader header;
  FileLayout layout;
  std::vector<Md5Digest> chunk_hashes;  // one per container
  std::string checksum_hex;             // as stored: 32 lower-case hex digits
  Md5Digest record_hash{};              // "myHash", as stored
  std::uint64_t file_bytes = 0;
};

// Metadata and trailer of layout F, to be written at layout.data_bytes. The file checksum is by the reader rule (3.5).
// REQUIRES: chunk_hashes.size() == layout.containers.size().
std::vector<std::byte> EncodeMetadata(const FileLayout& layout, std::span<const Md5Digest> chunk_hashes,
                                      const FileHeader& header);

// Reads `target.size()` bytes at `offset` of the file.
using ReadAt = std::function<absl::Status(std::uint64_t offset, std::span<std::byte> target)>;

// Decodes and checks the metadata of a file of `file_bytes` bytes: checks 1 to 5 of section 10 and the file checksum
// against the *stored* chunk hashes (either rule); the data itself is not read (VerifyChunks does that).
// Memory is bounded by the records that are there. `name` goes into errors, which name file, field, offset, found and
// expected: kDataLoss; kFailedPrecondition for a layout other than F and for a level 3 code file. Errors of `read` pass
// through. No hash covers checkpoint_id, in_file_before and the variables' ids: who knows them compares.
absl::StatusOr<FileMetadata> DecodeMetadata(std::string_view name, std::uint64_t file_bytes, const ReadAt& read);

struct BadChunk {
  std::size_t container = 0;
  std::string why;
};

// Check 6: hashes the data of each container with content, many at once. Empty: all good. Errors of `read` pass
// through.
absl::StatusOr<std::vector<BadChunk>> VerifyChunks(std::string_view name, const FileMetadata& metadata,
                                                   const ReadAt& read);

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FTIFF_CODEC_H_
