// FTI-FF files, bytes to structures and back: all six layouts are read, A and F are written. The layouts are tables
// (records.h). Source: FTI-FF specification, sections 2, 3, 4, 7.3 and 10. Pure: bytes in, structures out, no I/O.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_CODEC_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_CODEC_H_

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
#include "storage/format/ftiff/layout.h"

namespace cairn::ftiff {

struct FileHeader {
  std::int32_t checkpoint_id = 0;    // A and B do not hold it: 0 when decoded
  std::uint64_t timestamp_ns = 0;    // only the low 32 bits are stored in E and F
  std::int64_t file_bytes_max = -1;  // maxFs: level 3 only
  std::int64_t partner_bytes = -1;   // ptFs: level 2 only
};

// What the file record, the blocks and the chunk records of a checkpoint file say.
struct FileMetadata {
  Letter letter = Letter::kF;
  FileHeader header;
  FileLayout layout;                        // with the file's own offsets
  std::vector<Md5Digest> chunk_hashes;      // one per container
  std::vector<std::int32_t> chunk_indexes;  // idx of each container, as stored, whatever it means; A to C alone
  // The ids in the order in which the writing run registered (protected) its variables, as idx says in A to C, whatever
  // numbers it has; the other layouts do not hold it: then the order of first appearance.
  std::vector<std::int32_t> registered;
  std::string checksum_hex;      // as stored: 32 lower-case hex digits
  Md5Digest record_hash{};       // "myHash", as stored
  std::uint64_t file_bytes = 0;  // fs: the file's length; in B the file may end before, after its last content
};

// Metadata and trailer of layout F, to be written at layout.data_bytes. The file checksum is by the reader rule (3.5).
// A container without content has in `chunk_hashes` the last hash that it had.
// REQUIRES: chunk_hashes.size() == layout.containers.size().
std::vector<std::byte> EncodeMetadata(const FileLayout& layout, std::span<const Md5Digest> chunk_hashes,
                                      const FileHeader& header);

// Layout A, whose records stand in front: those of each block (block record, chunk records), which come right before
// its first container (`placed`: see Placed), and the file record, which comes at 0. `checksum` is the MD5 of the
// file's bytes from kFileRecordBytesA on. A container without content gets the MD5 of the empty string, whatever
// `chunk_hashes` says. `registered`: each of the file's ids once, in the order in which the application registers its
// variables now, which may be another than that of their containers: FTI 1.1 gives the first variable that it knows the
// chunks with idx 0, and so on. Empty: nobody knows that order; idx counts first appearances.
inline constexpr std::uint64_t kFileRecordBytesA = 96;
std::vector<std::vector<std::byte>> EncodeBlocksA(const FileLayout& placed, std::span<const std::int32_t> registered,
                                                  std::span<const Md5Digest> chunk_hashes);
std::vector<std::byte> EncodeFileRecordA(const FileLayout& layout, const FileHeader& header, const Md5Digest& checksum);

// Reads `target.size()` bytes at `offset` of the file. Where several threads verify, from several at once.
using ReadAt = std::function<absl::Status(std::uint64_t offset, std::span<std::byte> target)>;

// Decodes and checks the metadata of a file of `file_bytes` bytes: checks 1 to 5 of section 10, and in C to F the file
// checksum against the *stored* chunk hashes (either rule). No data is read (VerifyData does that).
// Memory is bounded by the records that are there. `name` goes into errors, which name file, field, offset, found and
// expected: kDataLoss; kFailedPrecondition for a level 3 code file (DecodeEncoded). Errors of `read` pass through. No
// hash covers checkpoint_id, in_file_before and the variables' ids in B to F: who knows them compares.
absl::StatusOr<FileMetadata> DecodeMetadata(std::string_view name, std::uint64_t file_bytes, const ReadAt& read);

struct BadChunk {
  std::size_t container = 0;
  std::string why;
};
struct Verdict {
  std::vector<BadChunk> bad;  // by container
  std::string bad_checksum;   // A, B: the file checksum over the data differs; empty: it is right, or not over data
  bool ok() const { return bad.empty() && bad_checksum.empty(); }
};

// Check 6: hashes the data of each container with content, many at once, on `threads` threads (the caller's is one);
// in A and B the file checksum over the data, too. Errors of `read` pass through.
absl::StatusOr<Verdict> VerifyData(std::string_view name, const FileMetadata& metadata, const ReadAt& read,
                                   std::size_t threads = 1);

// A level 3 code file (7.3): code bytes, then a file record.
struct EncodedFile {
  Letter letter = Letter::kF;      // C stands for D, too: they share the record
  std::int32_t checkpoint_id = 0;  // may be arbitrary after a repair: go by the file's name
  std::uint64_t timestamp_ns = 0;
  std::uint64_t code_bytes = 0;        // maxFs of the group
  std::uint64_t checkpoint_bytes = 0;  // length of the rank's own checkpoint file
  std::string checksum_hex;            // MD5 of the code bytes, as stored; not yet compared
  Md5Digest record_hash{};             // "myHash", as stored
};
// kDataLoss; kFailedPrecondition: a checkpoint file. The code bytes are not read.
absl::StatusOr<EncodedFile> DecodeEncoded(std::string_view name, std::uint64_t file_bytes, const ReadAt& read);
// The record that goes behind the code bytes. REQUIRES: letter is A or F.
std::vector<std::byte> EncodeEncodedRecord(const EncodedFile& encoded);

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_CODEC_H_
