// What of a capture is to be written next: all windows in the order of the file, in a ring each as it is complete; with
// a base to compare each as it is hashed, and of its blocks those that the base does not hold. No I/O, no locks: the
// owner guards it.
#ifndef CAIRN_DAEMON_DATA_WRITE_QUEUE_H_
#define CAIRN_DAEMON_DATA_WRITE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "daemon/data/base_file.h"
#include "daemon/data/block_digests.h"
#include "daemon/data/window_table.h"
#include "storage/base/fifo.h"
#include "storage/base/transfer_shape.h"

namespace cairn {

class WriteQueue {
 public:
  // One write: bytes of the file that lie side by side in the image, too.
  struct Run {
    std::size_t first = 0;  // windows
    std::size_t count = 0;
    bool begins = false;       // the first of these windows' runs: their gaps are not yet zeros
    std::uint64_t offset = 0;  // of the file, a multiple of kDirectAlignment; so is the size
    std::uint64_t bytes = 0;   // 0: there is nothing to write in these windows
  };

  // `table` is borrowed. The last bytes of data, which fill no block, are not its concern. `shape`: of the writes.
  WriteQueue(WindowTable& table, std::uint64_t data_bytes, const TransferShape& shape);

  // Only blocks that `base` does not hold are to be written; `digests` tells what the blocks are to be, once their
  // window is hashed (borrowed). Before the first Next.
  void Use(BaseFile base, const BlockDigests* digests);
  // The file is one that has held something else, and all is written over: what has no content, too. Before the first
  // Next.
  void UseOldFile();

  void Committed() { committed_ = true; }
  void Complete(std::size_t window);  // in a ring: nothing changes it any more
  void Hashed(std::size_t window);

  bool ready() const;
  std::optional<Run> Next();
  // Its end, if the bytes are on disk; of a window that has others under way or ahead not yet the window's.
  void Written(const Run& run);

  bool all_written() const { return unwritten_ == 0; }
  std::uint64_t bytes_written() const { return bytes_written_; }
  std::size_t in_flight_max() const { return base_.has_value() ? kRunsMax : writes_max_; }
  // With that many, more are begun again: short runs not one by one, since each begin is a change of threads.
  std::size_t in_flight_low() const { return base_.has_value() ? kRunsMax / 2 : writes_max_ - 1; }

 private:
  static constexpr std::size_t kRunsMax = 32;  // of blocks, mostly few

  Run FirstOfRuns();
  Run WindowsFrom(std::size_t first, std::size_t count);
  void SplitWindow(std::size_t window);
  void FindRuns(std::size_t window);

  WindowTable& table_;
  const std::uint64_t run_bytes_max_;
  const std::size_t windows_of_run_max_;
  const std::size_t writes_max_;  // of whole windows, or of parts of one
  const std::uint64_t whole_blocks_end_;
  bool committed_ = false;
  std::size_t unwritten_ = 0;         // windows
  std::size_t next_ = 0;              // without a ring and a base to compare: the next window
  Fifo<std::size_t> complete_;        // in a ring without a base to compare
  Fifo<std::size_t> empty_;           // of those, what comes after what a client waits for
  std::uint64_t bytes_written_ = 0;

  std::optional<BaseFile> base_;
  const BlockDigests* digests_ = nullptr;
  Fifo<std::size_t> hashed_;
  Fifo<Run> runs_;  // of one window
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_WRITE_QUEUE_H_
