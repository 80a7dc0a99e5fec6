// A transfer under way: what is left of it after a system call moved a part.
#ifndef CAIRN_STORAGE_IO_IO_JOB_H_
#define CAIRN_STORAGE_IO_IO_JOB_H_

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "storage/base/caught.h"
#include "storage/io/disk.h"
#include "storage/io/io_engine.h"

namespace cairn {

// A transfer with what has arrived so far.
struct IoJob {
  static constexpr std::size_t kPartBytesMax = std::size_t{1} << 30;  // one system call takes less than 2 GiB

  IoTransfer transfer;
  std::size_t bytes_done = 0;

  std::byte* data() const { return transfer.data + bytes_done; }
  std::uint64_t offset() const { return transfer.offset + bytes_done; }
  std::size_t part_bytes() const { return std::min(transfer.bytes - bytes_done, kPartBytesMax); }

  // Takes in a system call's result (-errno or bytes). True: over, and *error says how; false: submit the rest.
  bool TakeResult(long result, int* error) {
    *error = 0;
    if (result == -EINTR) return false;
    if (result < 0) {
      *error = static_cast<int>(-result);
      return true;
    }
    bytes_done += static_cast<std::size_t>(result);
    if (bytes_done == transfer.bytes) return true;
    const bool mid_block = transfer.direct && bytes_done % kDirectAlignment != 0;
    if (result != 0 && !mid_block) return false;
    if (transfer.write) *error = EIO;  // the kernel took nothing and gave no reason
    return true;
  }

  // All of it, in the calling thread; answers 0 or errno.
  int RunHere() {
    int error = 0;
    while (!TakeResult(RunPart(), &error)) {
    }
    return error;
  }

  // On a thread of an engine, which all transfers share: what throws is for whoever asked for the transfer to notice.
  void Finish(int error) {
    Caught([&] { transfer.done(error, bytes_done); }).IgnoreError();
    transfer.done = nullptr;  // what it holds goes now, not with the next transfer
  }

 private:
  long RunPart() const {
    const auto at = static_cast<off_t>(offset());
    const ssize_t n = transfer.write ? ::pwrite(transfer.fd, data(), part_bytes(), at)
                                     : ::pread(transfer.fd, data(), part_bytes(), at);
    return n < 0 ? -errno : n;
  }
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_IO_JOB_H_
