// In which order the windows of one large file are written, synced and read back, so that a disk that can do both
// writes and gives back at once. Windows are written in order. So many of them are a part; when all of a part are
// written, one thread syncs them, and then they are read back while those of the next parts are written. Nothing is
// read back that was not synced after it was written. Thread-safe: any number of workers call Next and Done, one thread
// calls AwaitWritten and Synced.
#ifndef CAIRN_STORAGE_JOB_DRAIN_WINDOWS_H_
#define CAIRN_STORAGE_JOB_DRAIN_WINDOWS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::drain {

class Windows {
 public:
  struct Step {
    enum class What : std::uint8_t { kWrite, kReadBack };
    What what = What::kWrite;
    std::size_t window = 0;
    friend bool operator==(const Step&, const Step&) = default;
  };
  struct Shape {
    std::size_t windows = 0;   // may be 0: then there is one part, with nothing in it
    std::size_t per_part = 1;  // at least 1
    bool read_back = true;
    // While there is something to write, so many workers at most read back; at least 1. The others write.
    std::size_t readers_max = 1;
  };
  explicit Windows(const Shape& shape);

  // --- A worker: until there are no more ---
  // Waits while nothing can be done before others have done theirs. None: all is done, or begun by others, or it is
  // over.
  std::optional<Step> Next();
  void Done(const Step& step);

  // --- The thread that syncs: for each part, from 0 to parts() - 1 ---
  std::size_t parts() const { return parts_; }
  // Waits until all windows of the part are written. False: it is over.
  bool AwaitWritten(std::size_t part);
  // REQUIRES: AwaitWritten(part) was true, and what it speaks of was synced since.
  void Synced(std::size_t part);

  // Any thread: nothing more is begun, nobody waits any more.
  void End();

  // So many threads wait now, in Next or in AwaitWritten. For tests.
  std::size_t waiting() const;

 private:
  void WaitForChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::size_t EndOf(std::size_t part) const;  // the first window behind it

  const Shape shape_;
  const std::size_t parts_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<std::size_t> unwritten_ ABSL_GUARDED_BY(mutex_);  // of each part
  std::size_t next_write_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t next_read_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t synced_ ABSL_GUARDED_BY(mutex_) = 0;  // windows below this one were synced
  std::size_t readers_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace cairn::drain

#endif  // CAIRN_STORAGE_JOB_DRAIN_WINDOWS_H_
