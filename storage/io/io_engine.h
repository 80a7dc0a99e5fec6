// Transfers between memory and files in the background: one io_uring with a thread of its own, or a few threads with
// pread and pwrite where io_uring is refused (containers). The same contract either way.
#ifndef CAIRN_STORAGE_IO_IO_ENGINE_H_
#define CAIRN_STORAGE_IO_IO_ENGINE_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "storage/io/io_priority.h"

namespace cairn {

struct IoTransfer {
  // Runs once, on a thread of the engine. `error`: 0 or errno; `bytes`: what arrived until then. Less than asked for
  // and no error: the end of the file. Must not block, except that it may submit. An exception of its ends here.
  using Done = std::function<void(int error, std::size_t bytes)>;

  int fd = -1;  // stays open until `done`
  bool write = false;
  bool direct = false;  // offset, size and address are aligned: what ends in mid-block is the end of the file
  std::uint64_t offset = 0;
  std::byte* data = nullptr;  // only read from if `write`; stays valid until `done`
  std::size_t bytes = 0;
  IoPriority priority = IoPriority::OfThisThread();  // none: that of the engine
  Done done;
};

struct IoEngineOptions {
  bool io_uring = true;          // false: threads, whatever the kernel has
  unsigned in_flight_max = 64;   // transfers that the kernel works on at once
  std::size_t queued_max = 256;  // that wait for it; one more blocks its submitter until there is room
  unsigned threads = 4;          // where there is no io_uring
  bool pin = true;               // false: as if the kernel refused to pin memory
  // Where a transfer may wait for hours, it must not keep the next one from being begun: some file systems (FUSE) wait
  // within the submission, whatever io_uring asks of them. Costs a change of threads for each transfer.
  bool may_hang = false;
  // Transfers in the disk's idle class: what others transfer goes first, where the disk's scheduler heeds that.
  bool idle = false;
};

// Thread-safe. The destructor finishes what was submitted.
class IoEngine {
 public:
  virtual ~IoEngine() = default;
  // Never lost, never refused: blocks while the queue is full, except on a thread of the engine itself, where the
  // transfer takes the place of the one that just ended.
  virtual void Submit(IoTransfer transfer) = 0;
  // As Disk::Pin.
  virtual std::shared_ptr<void> Pin(std::span<std::byte> /*memory*/) { return nullptr; }
  virtual std::string_view name() const = 0;  // "io_uring" or "threads"
};

std::unique_ptr<IoEngine> MakeIoEngine(const IoEngineOptions& options);

// Whether this kernel gives us an io_uring, or its reason why not.
absl::Status ProbeIoUring();

// Whether an io_uring may pin so much memory for this process, or its reason why not.
absl::Status ProbePinning(std::size_t bytes);

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_IO_ENGINE_H_
