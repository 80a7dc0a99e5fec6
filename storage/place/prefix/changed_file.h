// A record of SCR's in <prefix>/.scr that many processes change at the same time, on any node: index.scr, flush.scr. No
// lock is relied on, since parallel file systems have none, or one for each node.
//
// Who owns the truth: the record, and after it the changes that it lacks. A change is a file of its own,
// <stem>.changes/<n>, made once (storage/io/create_once.h), and n is the next number of all that have been seen. So the
// changes are a history in which each was made of what all before it had come to: whoever is second makes his anew. The
// record names the last change that it has, CAIRN_APPLIED; whoever changes it applies all that it lacks, in order, and
// replaces it. Readers apply in memory what the record lacks.
//
// A writer may be held up for any time between reading and replacing, and then puts an old record in place of a newer
// one. Nothing is lost by that as long as the changes are there. So they stay until no writer can be at work any more
// that began before them: each shows itself by a work file beside them, which it makes before it reads, and
// which becomes the record by a rename. Changes go when all work files have gone that were there together with them,
// and the record has them afterwards. A work file that is old (kAbandonedSeconds) is removed: its writer, should it
// wake up, finds it gone and begins anew. Changes stay for kKeptSeconds besides, since SCR's tools show no work files;
// and the last one stays for ever, so that no number comes again, whatever SCR's tools keep of the record.
//
// A long record is not written anew with each change by who says so (LeaveBehind): the change is durable, and the
// record follows when CatchUp is called. What was made of its bytes is kept for as long as they are the same, which the
// file's stamp tells (file_stamp.h), so that neither a change nor a look reads or walks all of them.
//
// flock on <stem>.lock spares processes the work that only one of them can finish, and nothing else: where it fails, or
// is not of the whole cluster, all of the above holds.
//
// What SCR writes itself stays, whatever it is; a change of SCR's that falls between reading and replacing can be lost,
// as among SCR's own tools.
//
// Thread-safe. Calls block on disk, and wait for the lock at most kPatience.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_CHANGED_FILE_H_
#define CAIRN_STORAGE_PLACE_PREFIX_CHANGED_FILE_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "storage/format/kvtree/tree.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/settled.h"

namespace cairn {

// <prefix>/.scr, durably. A prefix that is gone (for now) is never made anew by a record: kNotFound.
absl::Status MakeRecordsFolder(Disk& disk, const std::string& folder);

class ChangedFile {
 public:
  static constexpr std::time_t kKeptSeconds = 10;
  static constexpr std::time_t kAbandonedSeconds = 300;
  static constexpr std::chrono::milliseconds kPatience{2000};
  static constexpr std::size_t kLongBytes = 64 << 10;  // what SCR's tools show of a shorter one is never behind
  static constexpr std::uint64_t kBehindMax = 256;     // changes

  struct Hooks {
    Pause pause;  // for settled.h, and while another has the lock
    // Is this record what it should be? kDataLoss: it counts as damaged.
    std::function<absl::Status(const kvtree::Tree&)> check;
    // Fills the empty tree that stands for a damaged record, which has been moved aside.
    std::function<absl::Status(kvtree::Tree&)> remake;
    std::function<void(std::string)> warn;                            // required
    std::function<std::chrono::steady_clock::time_point()> now = {};  // else the real one
  };

  // `disk` is borrowed. The record is <folder>/<stem>.scr. None may be called from a Change.
  ChangedFile(Disk& disk, std::string folder, std::string_view stem, Hooks hooks);

  // The record with all changes that were made. Empty: there is none. kDataLoss: damaged.
  absl::StatusOr<kvtree::Tree> Read() const;

  // `change` is run on the record, once or several times; the last run counts. It may refuse by an error, which is the
  // answer then. OK: what it has made of the record is durable. Any other error: it may have been made. The folder is
  // made if need be, but never its parent.
  //   kFailedPrecondition  a change by a later release of Cairn; or as `check` says
  //   kUnavailable         others were faster all the time
  using Change = std::function<absl::Status(kvtree::Tree&)>;
  absl::Status Make(const Change& change);
  // The same, but first a look whether there is anything to do: for changes that mostly are none, and then need not be
  // durable.
  absl::Status MakeIfNeeded(const Change& change);

  // From now on changes that this object makes are not in a long record when they are durable.
  void LeaveBehind();
  // The last change of this object's that the record lacks; 0: none.
  std::uint64_t behind() const { return behind_; }
  // The record gets all changes that there are. Others make theirs meanwhile.
  absl::Status CatchUp();

 private:
  struct State;
  class Writing;

  static State StateOf(kvtree::Tree record, std::shared_ptr<const std::string> text);
  State Kept() const;
  void Keep(State state) const;
  State Compact(State state) const;
  absl::StatusOr<bool> IsNeeded(const Change& change) const;

  std::string PathOf(std::uint64_t change) const;
  bool IsWorkOfRecord(std::string_view name) const;
  std::uint64_t NumberOf(std::string_view name) const;  // 0: no change

  absl::StatusOr<State> Load(bool mend) const;
  absl::StatusOr<State> LoadRecord(bool mend, bool* remade) const;
  absl::StatusOr<kvtree::Tree> MoveAsideAndRemake(const absl::Status& why, bool* remade) const;
  absl::StatusOr<std::uint64_t> ApplyAll(const std::vector<std::uint64_t>& numbers, const std::set<std::uint64_t>& lost,
                                         State& state) const;

  bool MayStayBehind(const State& state) const;
  std::unique_ptr<File> TakeLock() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // null: without
  absl::Status TryCatchUp();
  absl::Status Write(std::unique_ptr<Writing>& writing, State state) const;  // it is the record then
  absl::Status SyncChange(std::uint64_t number) const;
  absl::Status Finish(std::unique_ptr<Writing> writing, State state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Settle(std::unique_ptr<Writing> writing, std::uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveApplied(const std::vector<std::string>& names) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wait(int round) const;

  Disk& disk_;
  const std::string folder_, stem_, path_, changes_;
  const Hooks hooks_;

  // What RemoveApplied waits for.
  struct Draining {
    std::uint64_t newest = 0;       // changes up to this one were there
    std::set<std::string> writers;  // together with these, as far as they are still there
  };
  const std::shared_ptr<absl::Mutex> shared_mutex_;  // with all others of this record in this process
  absl::Mutex& mutex_;                               // the same
  std::optional<Draining> draining_ ABSL_GUARDED_BY(mutex_);
  bool lockless_ ABSL_GUARDED_BY(mutex_) = false;  // the file system has no locks
  bool patient_ ABSL_GUARDED_BY(mutex_) = true;    // the last one came in time

  std::atomic<bool> leaves_behind_ = false;
  std::atomic<std::uint64_t> behind_ = 0;
  mutable absl::Mutex kept_mutex_;
  // What the record was when it was read or written last, and the changes after it as far as they were there.
  mutable std::shared_ptr<const State> kept_ ABSL_GUARDED_BY(kept_mutex_);
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_CHANGED_FILE_H_
