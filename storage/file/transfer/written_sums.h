// The checksums that a catalogue has of a file, taken while the file is written from its first byte to its last. The
// file need not be read again, and the checksums are of the bytes that the writer meant.
#ifndef CAIRN_STORAGE_FILE_TRANSFER_WRITTEN_SUMS_H_
#define CAIRN_STORAGE_FILE_TRANSFER_WRITTEN_SUMS_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/catalogue.pb.h"
#include "storage/io/disk.h"

namespace cairn {

class WrittenSums {
 public:
  std::uint64_t bytes() const { return entry_.bytes(); }  // added so far
  void Add(std::span<const std::byte> bytes);
  // What ChecksumFile answers of that file. `info`: after its last byte was written, and synced.
  //   kFailedPrecondition  it has another size: somebody else has changed it
  absl::StatusOr<catalogue::FileEntry> Finish(const File& file, const FileInfo& info) const;

 private:
  catalogue::FileEntry entry_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_FILE_TRANSFER_WRITTEN_SUMS_H_
