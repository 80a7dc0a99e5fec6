// What copying and verifying share. Used by storage/file/transfer/ only.
#ifndef CAIRN_STORAGE_FILE_TRANSFER_CHECKS_H_
#define CAIRN_STORAGE_FILE_TRANSFER_CHECKS_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "proto/catalogue.pb.h"
#include "storage/file/transfer/block_stream.h"
#include "storage/file/transfer/transfer.h"
#include "storage/io/disk.h"

namespace cairn {

// Size, inode, mode and times.
void PutInfo(const FileInfo& info, catalogue::FileEntry* entry);

// As many CRCs as blocks: kInvalidArgument.
absl::Status CheckEntry(const catalogue::FileEntry& entry);

// kDataLoss with file, offset, what is and what should be.
absl::Status BlockDiffers(const std::string& path, const BlockStream::Block& block, const catalogue::FileEntry& entry);

// The first of the piece that is not what the catalogue says; none: all are. `crc32`, if given, is continued over those
// before it.
std::optional<BlockStream::Block> FirstDiffering(const BlockStream::Piece& piece, const catalogue::FileEntry& entry,
                                                 std::uint32_t* crc32);

// Is a transfer to end? Any thread may ask.
using Stopped = std::function<bool()>;

// Reads `file` up to the first block that differs or lies beyond `bytes_there`, or to a piece that cannot be read; the
// number of blocks that match. `crc32`, if given, is continued over them. kCancelled: `stopped` said so.
absl::StatusOr<std::uint64_t> CountMatchingBlocks(File& file, std::uint64_t bytes_there,
                                                  const catalogue::FileEntry& entry, BlockBuffers& buffers,
                                                  Throttle& throttle, TransferProgress& progress,
                                                  const Stopped& stopped, std::uint32_t* crc32);

}  // namespace cairn

#endif  // CAIRN_STORAGE_FILE_TRANSFER_CHECKS_H_
