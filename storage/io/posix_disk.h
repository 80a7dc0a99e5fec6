// The Disk on the real file system. Everything happens with the rights of the calling process.
#ifndef CAIRN_STORAGE_IO_POSIX_DISK_H_
#define CAIRN_STORAGE_IO_POSIX_DISK_H_

#include <cstddef>
#include <memory>

#include "storage/io/disk.h"
#include "storage/io/io_engine.h"

namespace cairn {

struct PosixDiskOptions {
  IoEngineOptions engine;
  bool direct = true;  // false: nobody gets direct I/O, as if no file system had it
};

// What storage/io/disk.h promises, and:
//   Open        only regular files (else kInvalidArgument); `mode` is subject to the umask
//   Truncate    growing a file also reserves its blocks where the file system can: kResourceExhausted comes then, not
//   in
//               the middle of the writes, and direct writes into it need not wait for each other
//   ReadAt      direct, ending early: the rest of the last block is zero
//   Sync        repeats its first error for as long as the file is open, since the kernel tells it only once
//   WriteAsync, ReadAsync   block while the engine's queue is full (IoEngineOptions), except in a `done`. Each file
//               system that has files open has an engine of its own (more than kEnginesMax at once share): one that
//               hangs holds up no transfer of another
//   shapes      what was last given to UseShapes
//   mechanisms  an engine once refused an io_uring has threads for as long as the disk is there. Does not block
// The disk outlives its files; its destructor finishes what was begun.
class PosixDisk : public Disk {
 public:
  static constexpr std::size_t kEnginesMax = 16;
};

// Falls back to threads if the kernel refuses io_uring (ProbeIoUring says why).
std::unique_ptr<PosixDisk> MakePosixDisk(const PosixDiskOptions& options = {});

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_POSIX_DISK_H_
