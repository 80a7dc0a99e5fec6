// What the daemon before this one had only captured, taken up: images and labels that were left, and what of their
// datasets lies in the cache already, become datasets that are whole in the cache. README.md, "Taken up after a crash".
// Blocks. Thread-safe; each run by one at a time.
#ifndef CAIRN_DAEMON_CORE_SALVAGE_H_
#define CAIRN_DAEMON_CORE_SALVAGE_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/data/deposits.h"
#include "daemon/data/image_label.h"
#include "daemon/data/work_pool.h"
#include "storage/base/ids.h"
#include "storage/base/sealed_memory.h"
#include "storage/base/unique_fd.h"
#include "storage/format/scr/records.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

class Salvage {
 public:
  // So often a daemon may die while it takes a label up; then that is dropped: it must not keep a daemon from starting.
  static constexpr std::uint64_t kTriesMax = 5;
  // So long after a dataset was begun it is kept for another try, if a disk or the machine refuses this one. Until then
  // its images use memory.
  static constexpr std::chrono::hours kKeptFor{24};

  // Reads what labels are left. `deposits`: null: nothing is left, and nothing is done. `pool` is borrowed. `wall`: any
  // thread.
  Salvage(std::shared_ptr<Deposits> deposits, WorkPool& pool,
          std::function<std::chrono::system_clock::time_point()> wall);
  Salvage(const Salvage&) = delete;

  // Makes whole what it can of this run's datasets. What was not made whole, and why, is added to `warnings`.
  // REQUIRES: the folder's Load comes after it.
  // An error is the disk's or the machine's, which may pass: what is left stays so, and the next call, here or in the
  // next daemon, tries again. Load must not be called then: it would remove the parts that are in the folder. Only what
  // all ranks may have captured, and no longer than kKeptFor, is a reason for an error; one dataset's is none not to
  // try the others.
  absl::Status Into(CacheFolder& folder, std::vector<std::string>& warnings);
  // Is anything left of this run? REQUIRES: Into does not make it whole now.
  bool Has(const RunId& run) const;
  // Of none? Does not wait for those who make something whole.
  bool empty() const { return !any_left_; }
  // When the runs of the cache have had their turn: what is left for none of them is dropped. `unread`: runs whose
  // folders could not be looked at: what is theirs stays, until Into can; as does all that is left, unless all runs of
  // the cache are known. Before this call nothing is given up but by Into: a start that does not get here leaves it to
  // the next. What this and the labels that were read come to, for the log.
  std::vector<std::string> DropStrangers(const std::set<RunId>& unread, bool all_runs_known);
  // After it: of what waits for its run to be opened, what was kept for long enough is dropped. What, for the log.
  absl::StatusOr<std::vector<std::string>> DropOld();

 private:
  struct Left {
    CapturedPart part;
    SealedMemory memory;
    UniqueFd fd;
    std::uint64_t label = 0;  // its inode
    UniqueFd label_fd;
  };
  struct Found {  // one dataset
    scr::Descriptor descriptor;
    std::vector<const Left*> parts;
    bool Has(const Left& left) const { return std::ranges::find(parts, &left) != parts.end(); }
  };
  using Datasets = std::map<DatasetId, Found>;
  class OfRun;

  void ReadLabels(std::vector<UniqueFd> left) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { any_left_ = !left_.empty() || in_work_ > 0; }
  bool IsKept(std::int64_t since_us) const;
  void GiveUp(const Left& left);
  // False: its run's folder could not be looked at for too long; then it is given up.
  bool Waits(const Left& left, std::vector<std::string>& warnings);
  // OK: nothing is lost by going on without it.
  absl::Status Skip(CacheFolder& folder, DatasetId id, const absl::Status& why, std::vector<std::string>& warnings);
  absl::Status Try(CacheFolder& folder, const Found& found, std::vector<std::string>& warnings);
  absl::Status MakeWhole(CacheFolder& folder, const Found& found);
  absl::Status Store(CacheFolder& folder, const Left& left);

  const std::shared_ptr<Deposits> deposits_;
  WorkPool& pool_;
  const std::function<std::chrono::system_clock::time_point()> wall_;
  std::atomic<bool> any_left_{false};
  mutable absl::Mutex mutex_;
  std::list<Left> left_ ABSL_GUARDED_BY(mutex_);
  std::size_t in_work_ ABSL_GUARDED_BY(mutex_) = 0;                // taken out of left_ by Into
  std::vector<std::uint64_t> nothing_in_ ABSL_GUARDED_BY(mutex_);  // inodes of what holds nothing
  std::vector<std::string> unbelieved_ ABSL_GUARDED_BY(mutex_);    // labels, and why
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_SALVAGE_H_
