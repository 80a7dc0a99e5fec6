// One file of a drain: copied to a work name, read back, compared. Every call says what became of it; nothing is ever
// written under a final name here. Thread-safe for different jobs; calls block.
#ifndef CAIRN_STORAGE_JOB_DRAIN_COPY_H_
#define CAIRN_STORAGE_JOB_DRAIN_COPY_H_

#include <absl/status/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/file/transfer/transfer.h"
#include "storage/io/tree.h"
#include "storage/job/drain/identity.h"
#include "storage/job/drain/report.h"
#include "storage/job/drain/scan.h"
#include "storage/job/drain/windows.h"
#include "storage/job/drain/workers.h"

namespace cairn::drain {

// Files are copied in windows of this size, which are aligned; what is larger is copied by all threads at once.
inline constexpr std::size_t kWindowBytes = 4 << 20;
// Of such a one so many windows are synced at once, and then read back while the next ones are written.
inline constexpr std::size_t kPartWindows = 64;

enum class Outcome : std::uint8_t {
  kCopied,   // lies whole under its work name
  kThere,    // the target has the same
  kWaits,    // changed meanwhile, or somebody writes to it
  kGone,     // the source is not there any more
  kFailed,   // why says
  kFull,     // the target has no room
  kDamaged,  // what was read back differs
  kStopped,
};

// What became of it, and why.
struct Verdict {
  Outcome outcome = Outcome::kCopied;
  std::string why = {};
};

struct CopyJob {
  enum class Mode : std::uint8_t {
    kCopy,
    kCompare,  // with what is there under its name: nobody knows it, or (`replace`) ctime alone has moved since
    kLink,     // a further name of `leader`
  };
  const Item* item = nullptr;
  std::size_t at = 0;  // its place in the scan
  Mode mode = Mode::kCopy;
  bool replace = false;  // under its final name is what a drain before has made, and that is `replaced`
  Made replaced;
  std::string leader;  // kLink: the final name that it becomes another one of
  Made leader_there;   // what is under that name, as far as we know
  std::string work;

  Outcome outcome = Outcome::kStopped;
  std::string why;
  Made there;  // kCopied, kThere: what the target has, its attributes set
  std::uint32_t crc32c = 0;
  bool attributes_lost = false, through_cache = false, outward = false;
  bool leader_changed = false;  // kFailed: under the leader's name is something else
  bool link_copied = false;     // no hard link could be made; of a large file, which is not copied yet, kFailed says so
};

// A window each, aligned for direct I/O.
class Buffers {
 public:
  explicit Buffers(std::size_t count);
  std::span<std::byte> at(std::size_t worker) const { return {base_.get() + worker * kWindowBytes, kWindowBytes}; }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> base_;
};

class Copier {
 public:
  // All borrowed. `stop`: nothing more is begun.
  Copier(Tree& source, Tree& target, Throttle& throttle, const std::atomic<bool>& stop, DrainProgress& progress)
      : source_(source), target_(target), throttle_(throttle), stop_(stop), progress_(progress) {}

  // Anything but a file of more than a window. `sync`: the work file is durable, else the caller sees to it.
  void Copy(CopyJob& job, std::span<std::byte> buffer, bool sync);
  // Reads back what Copy has written, past the page cache if the target can. Changes `outcome` to kDamaged, or not.
  void Check(CopyJob& job, std::span<std::byte> buffer);
  // A file of any size, by all workers; durable, and with `check` read back, each part of it while the next ones are
  // written. The calling thread syncs.
  void CopyLarge(CopyJob& job, Workers& workers, const Buffers& buffers, bool check);
  // Has the target, under the item's own name, the same? kThere, or kFailed.
  void Compare(CopyJob& job, std::span<std::byte> buffer);

 private:
  struct Large;

  absl::Status Blame(CopyJob& job, const absl::Status& status, bool of_source);
  bool OpenSource(CopyJob& job, std::unique_ptr<FileBelow>* file);
  bool IsAsBefore(CopyJob& job, FileBelow& file, const FileInfo& info);
  bool IsStillAsBefore(CopyJob& job, FileBelow& file);
  bool Finish(CopyJob& job, FileBelow& from, FileBelow& to, bool sync);
  void CopyFile(CopyJob& job, std::span<std::byte> buffer, bool sync);
  bool OpenLarge(CopyJob& job, Large& large);
  Verdict WriteWindow(Large& large, std::size_t number, std::span<std::byte> buffer);
  Verdict ReadBackWindow(Large& large, std::size_t number, std::span<std::byte> buffer);
  bool SyncParts(CopyJob& job, Large& large, Windows& windows);
  void CopyLink(CopyJob& job);
  void MakeHardLink(CopyJob& job, std::span<std::byte> buffer, bool sync);
  bool CompareLinks(CopyJob& job);
  bool CompareFiles(CopyJob& job, std::span<std::byte> buffer);

  Tree& source_;
  Tree& target_;
  Throttle& throttle_;
  const std::atomic<bool>& stop_;
  DrainProgress& progress_;
};

// Does a symbolic link at `path` lead out of the tree?
bool LeadsOut(const std::string& path, const std::string& target);

}  // namespace cairn::drain

#endif  // CAIRN_STORAGE_JOB_DRAIN_COPY_H_
