// A member's files end to end, as its redundancy set sees them, each block compared with its checksum before a byte of
// it is used. Used by storage/job/protect/ only.
#ifndef CAIRN_STORAGE_JOB_PROTECT_CHECKED_SOURCE_H_
#define CAIRN_STORAGE_JOB_PROTECT_CHECKED_SOURCE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "storage/file/redundancy/payload.h"
#include "storage/file/transfer/block_stream.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/scr/redset_records.h"
#include "storage/io/disk.h"
#include "storage/job/protect/protect.h"

namespace cairn {

// Do paths, checksums and sizes fit each other? kDataLoss, kInvalidArgument.
absl::Status CheckProtectSource(const ProtectSource& source);

// Not thread-safe. One file is open at a time, and what is read in order is read once. While the caller uses a block,
// the next expected blocks of its file are read in the background; several sources do so at the same time. Blocks of an
// earlier copy are used in files that are read in order from their beginning.
class CheckedSource {
 public:
  // All is borrowed. REQUIRES: paths and sums, as many. `throttle`: nullptr for bytes that cross no network. Memory:
  // `blocks` MiB from the first use on, fewer if the files are shorter. REQUIRES: blocks > 0.
  CheckedSource(const ProtectSource& source, Throttle* throttle, TransferProgress& progress, std::size_t blocks);
  ~CheckedSource() { StopReading(); }
  CheckedSource(const CheckedSource&) = delete;

  std::uint64_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }
  // REQUIRES for all: within bytes(). Errors as of WriteRedundancy.
  absl::Status Read(std::uint64_t offset, std::span<std::byte> target);
  // Where they are, up to the end of their block, at most `bytes_max`; until the next call of any of these.
  // REQUIRES: bytes_max > 0.
  absl::StatusOr<std::span<const std::byte>> Lend(std::uint64_t offset, std::uint64_t bytes_max);
  // Begins to read them. An error is reported by the call that asks for the bytes.
  void Expect(std::uint64_t offset, std::uint64_t bytes);

 private:
  struct Place {
    std::size_t file = 0;
    std::uint64_t block = 0;  // of the file
    std::size_t from = 0;     // in the block
  };
  struct Loaded {
    std::size_t file = 0;
    std::uint64_t block = 0;
    std::span<const std::byte> bytes;
    std::optional<std::size_t> slot;  // of `stream_`; none: an earlier copy has it
  };
  // A file with an earlier copy, as far as it was read in order.
  struct InOrder {
    std::size_t file = 0;
    std::uint64_t next = 0;  // block
    std::uint32_t crc32 = 0;
    bool uses_earlier = false;
  };
  Place PlaceOf(std::uint64_t offset) const;
  std::uint64_t BeginOf(std::size_t file) const { return file == 0 ? 0 : ends_[file - 1]; }
  bool IsLoaded(const Place& place) const;
  bool IsNext(const Place& place) const;
  absl::Status Load(const Place& place);
  std::uint64_t BytesOf(const Place& place) const;
  absl::Status LeaveOrder(const Place& place);
  bool IsInEarlier(const Place& place) const;
  bool LoadEarlier(const Place& place);
  absl::Status LoadFromDisk(const Place& place);
  absl::Status CheckInOrder(const Place& place);
  absl::Status Open(std::size_t file);
  absl::Status StartReading(const Place& place);
  void StopReading();
  void GiveBack();

  const ProtectSource& source_;
  Throttle* const throttle_;
  TransferProgress& progress_;
  const std::size_t blocks_;
  std::vector<std::uint64_t> ends_;  // where each file ends
  std::uint64_t expected_end_ = 0;
  std::size_t open_ = 0;  // the file that `file_` is
  std::unique_ptr<File> file_;
  std::optional<BlockBuffers> buffers_;
  std::unique_ptr<BlockStream> stream_;  // of `file_`, from some block on
  std::uint64_t next_ = 0;               // the block that it gives next
  std::optional<Loaded> loaded_;
  std::optional<InOrder> in_order_;
  std::vector<std::byte> earlier_block_;
};

// `source` from its byte `begin` on, as the arithmetic takes it; borrowed.
redundancy::Source AsSource(CheckedSource& source, std::uint64_t begin = 0);

// How many blocks the source of each of so many members has: PARTNER reads one after the other. REQUIRES: members > 0.
std::size_t BlocksOfEach(scr::Scheme scheme, std::size_t members);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_PROTECT_CHECKED_SOURCE_H_
