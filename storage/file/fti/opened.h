// Checkpoint and code files of FTI's, opened and checked. Used by storage/file/fti/ only. Calls block on disk.
#ifndef CAIRN_STORAGE_FILE_FTI_OPENED_H_
#define CAIRN_STORAGE_FILE_FTI_OPENED_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "storage/file/fti/code.h"
#include "storage/format/ftiff/codec.h"
#include "storage/io/disk.h"

namespace cairn::fti {

struct OpenedFile {
  std::unique_ptr<File> file;
  std::uint64_t bytes = 0;  // its length: in layout B it may be less than metadata.file_bytes
  ftiff::FileMetadata metadata;
};

// Opens a checkpoint file and checks all but its data. `id`: what its name says, to be compared with what it says
// itself (layouts C to F).
//   kDataLoss  damaged, of another checkpoint, or not FTI-FF. Errors of the disk pass through
absl::StatusOr<OpenedFile> OpenRankFile(Disk& disk, const std::string& path, std::optional<std::int32_t> id);

// Hashes all its data. kDataLoss names the containers that are damaged.
absl::Status VerifyRankFile(const OpenedFile& opened);

struct OpenedCode {
  std::unique_ptr<File> file;
  ftiff::EncodedFile record;
};
absl::StatusOr<OpenedCode> OpenCodeFile(Disk& disk, const std::string& path);
absl::Status VerifyCodeFile(const OpenedCode& opened);  // the checksum of the code bytes

// Whether files of this layout say which checkpoint they are of.
bool HoldsId(ftiff::Letter letter);

// Whether files of this layout have their length behind them when they are encoded (7.3).
bool HasLengthWord(ftiff::Letter letter);

// A checkpoint file of `bytes` bytes as a data shard: zeros behind it up to `shard_bytes`, of which with `length_word`
// the last 8 are its length. `file` is borrowed.
// REQUIRES: bytes + (length_word ? 8 : 0) <= shard_bytes.
ReadShard DataShard(File& file, std::uint64_t bytes, std::uint64_t shard_bytes, bool length_word);

}  // namespace cairn::fti

#endif  // CAIRN_STORAGE_FILE_FTI_OPENED_H_
