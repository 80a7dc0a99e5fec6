// Brings what any program has left in a folder (a burst buffer) to another folder (the parallel file system): the same
// names, the same bytes, verified, each file whole or not at all. Resumable: killed at any instant, the next drain goes
// on, loses nothing and brings nothing twice.
//
// How a file gets there: copied to a work name in the target's .cairn-drain-<user>, synced, read back past the page
// cache and compared, noted in the journal, renamed; then the names are synced. Many small files share one sync. A file
// that changes meanwhile waits for the next pass. A name in the target that no drain of this folder has made is never
// touched. The source is only deleted if that was asked for, after the commit, and if it is still what was copied.
//
// The order (Wave, scan.h): checkpoints and outputs that are complete, the newest first; other files, the oldest first;
// what records of sets tell; indexes; markers. Each wave is durable before the next begins.
#ifndef CAIRN_STORAGE_JOB_DRAIN_DRAIN_H_
#define CAIRN_STORAGE_JOB_DRAIN_DRAIN_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "storage/file/transfer/throttle.h"
#include "storage/io/disk.h"
#include "storage/io/tree.h"
#include "storage/job/drain/report.h"

namespace cairn {

struct DrainOptions {
  std::string from;          // absolute, without links
  std::string to;            // the same; neither lies below the other
  bool make_target = false;  // its folder is made if that is missing; not the one above it
  // A file is complete when its writer was seen closing it, or ...
  std::optional<std::uint64_t> settle_ms = 10'000;  // ... when it has stayed as it is for so long; none: that does not
                                                    // count
  // ... or by a file of this name: "DONE" stands for all in and below its folder, "*.done" for the file whose name is
  // the star. Where one is given and settle_ms is none, nothing else counts (but what sets say, sets.h).
  std::string marker = {};
  bool delete_source = false;
  bool check = true;  // what was written is read back
  bool dry_run = false;
  std::size_t parallel = 4;              // files, or windows of a large one, in flight
  std::uint64_t bytes_per_s = 0;         // 0: no limit
  std::shared_ptr<BackgroundBudget> background = {};  // what is copied counts there, too; null: nowhere
  std::function<void()> on_thread = {};  // called at the beginning of each thread of the drain
  DrainProgress* progress = nullptr;     // where it tells how far it is; outlives the drain. Null: in one of its own
  // For tests: what stands between the drain and the two trees.
  std::function<std::unique_ptr<Tree>(std::unique_ptr<Tree>)> wrap_source = {}, wrap_target = {};
};

// One drain of one folder. At the target it removes, of what it has brought, FTI's former checkpoints (README.md), and
// nothing else. Calls from one thread at a time; they block on both file systems.
class Drain {
 public:
  // Takes the target's lock for this folder, and removes what one before has left unfinished. `disk` is borrowed: sets'
  // own records are read through it.
  //   kNotFound            one of the folders is not there
  //   kInvalidArgument     one is below the other, or no folder
  //   kFailedPrecondition  another drain of this folder to this target is at work: the message names it
  //   kUnavailable         the target has no locks
  //   kPermissionDenied    the name of the drain's own folder is taken by another user
  static absl::StatusOr<std::unique_ptr<Drain>> Open(Disk& disk, const DrainOptions& options);
  virtual ~Drain() = default;

  // Looks once, and brings all that is complete. What happened to single files stands in the report. What this Drain
  // has brought, or has found, it does not look at again at the target, unless it is to delete the source's: of what
  // others have done to it there, a new Drain tells.
  //   kNotFound  the source or the target is gone, or another folder is in its place: make a new Drain
  //   others     the target cannot be written to; what was committed before stays, and a new Drain goes on
  virtual absl::StatusOr<DrainReport> Pass(const std::atomic<bool>& stop) = 0;
  // After a pass: when the first of those that only have to settle will have; none: no such file.
  virtual std::optional<std::chrono::steady_clock::time_point> settles_at() const = 0;
  // The writer of `path` (relative) has closed it just now; it has got another name. Counts only where the kernel tells
  // whether there are other writers: not of files of other users, nor where there are no leases.
  virtual void Closed(const std::string& path) = 0;
  virtual void Moved(const std::string& from, const std::string& to) = 0;
  virtual DrainProgress& progress() = 0;
};

// A drain that ends by itself: passes until nothing is waiting that time alone would make complete, or `wait_ms` are
// over since the end of the first one. The report is of all of them together.
absl::StatusOr<DrainReport> DrainOnce(Drain& drain, std::uint64_t wait_ms, const std::atomic<bool>& stop);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_DRAIN_DRAIN_H_
