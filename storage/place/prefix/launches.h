// The launches of a run and what of it counts: <prefix>/.cairn/launch.<n>, launch.<n>.base. design.md, "Launches and
// commits".
//
// A launch is made by an exclusive creation of the next number, on which the run's arbiter decides: nobody acts under
// it before its record is here, too, so all others ask the prefix alone. What counts of all launches before it is
// decided once, in its base: whoever needs the base and finds none looks around and makes it, exclusively, those of
// older launches first; nobody acts under a launch before its base was read back. A commit names the launch under which
// its maker acts (its committer), and so does the mark of a removal by policy. Who has made one looks afterwards: if
// there is no newer launch, it counts, for whoever makes one later finds it; else the base of the next launch has
// decided. All looks that something rests on come from the server (storage/io/fresh_list.h).
//
// A base holds all that counts, of all launches before; so the newest one alone tells a reader, and a folder that it
// knows is not looked at again. Launches that release 0.1.0 made have no base: what was committed under them names no
// launch, and counts by existing.
//
// Calls block on disk. Thread-safe.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_LAUNCHES_H_
#define CAIRN_STORAGE_PLACE_PREFIX_LAUNCHES_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/ids.h"
#include "storage/base/number_ranges.h"
#include "storage/io/disk.h"
#include "storage/place/arbiter/arbiter.h"

namespace cairn {

// Which process makes or serves a launch.
struct Maker {
  std::string cache;  // identity of its cache (node.cairn); "": it has none
  std::string host;
  std::uint32_t pid = 0;
};

struct LaunchRecord {
  LaunchId id = 0;
  std::string key;
  std::uint32_t nranks = 0;
  std::string secret;  // 32 random bytes: session tokens and the marks of datasets are made from it
  std::int64_t created_us = 0;
  Maker maker;
  RunId run;  // that the directory was then; all zeros: made by release 0.1.0
  // It began while the prefix could not be asked, after this launch; 0: it did not.
  LaunchId predecessor = 0;
  // It had begun after one that was not the newest any more: nothing of it ever counts.
  bool abandoned = false;

  bool has_base() const { return run != RunId(); }
};

struct NewLaunch {
  std::string key;
  std::uint32_t nranks = 0;
  RunId run;
  Maker maker;
  std::string secret = {};       // "": random
  LaunchId predecessor = 0;      // of a launch that began without the prefix
  bool after_abandoned = false;  // its predecessor was abandoned
};

// What counts of all launches before one.
struct LaunchBase {
  NumberRanges counts, removed;
};

// kFailedPrecondition that says one thing: what was to be done under a launch does not count, since a newer one had
// been made.
absl::Status FencedStatus(std::string_view text);
bool IsFenced(const absl::Status& status);

class Launches {
 public:
  // `disk` and `arbiter` are borrowed. `writable`: bases that lack are made; else what has no base is read as if it was
  // not there. `merged`: datasets of which somebody has found that they count, and said so where it stays: they are not
  // looked at again when a base is made. It may know of none.
  Launches(Disk& disk, Arbiter& arbiter, std::string prefix, bool writable, std::function<NumberRanges()> merged = {});
  Launches(const Launches&) = delete;

  // The newest, if any. kDataLoss: its record is damaged.
  absl::StatusOr<std::optional<LaunchRecord>> Newest();
  // kNotFound: none of that number; kDataLoss.
  absl::StatusOr<LaunchRecord> Find(LaunchId id);
  // Of any number, by the mark that its datasets carry. kNotFound.
  absl::StatusOr<LaunchRecord> FindByMark(const std::string& mark);
  // The next one after all there are, with its base made and read back.
  //   kAborted          `after` (if given) is not the newest any more: who may begin is to be asked anew
  //   kInvalidArgument  no ranks, or a key with NUL or above 4096 bytes
  absl::StatusOr<LaunchRecord> Make(const NewLaunch& wanted, std::optional<LaunchId> after);
  // The base is there, and was read back: one may act under it. Of a launch of release 0.1.0: OK, nothing is done.
  absl::Status EnsureBase(LaunchId id);
  // The next one after `id`, by a look that comes from the server; none: `id` is the newest.
  absl::StatusOr<std::optional<LaunchId>> NextAfter(LaunchId id);

  // --- Whoever has made a commit, or marks of removals, naming `committer`, asks afterwards ---
  absl::StatusOr<bool> CommitCounts(DatasetId id, LaunchId committer);
  // Those of the marks that do not count.
  absl::StatusOr<std::set<DatasetId>> FencedRemovals(const std::set<DatasetId>& ids, LaunchId committer);

  // --- What a reader goes by: taken before and after a look at many datasets ---
  // The look holds if the newest launch is the same afterwards. Else what was read under an older launch may have been
  // fenced meanwhile, or the mark of a removal, which the new base has decided, may be gone: then anew. Who may not
  // write cannot ask the server, and may still take what was fenced a minute ago for what counts.
  struct State {
    LaunchId newest = 0;  // 0: none that has a base
    bool abandoned = false;
    std::shared_ptr<const LaunchBase> base;

    // `committer` 0: it names none.
    bool CommitCounts(DatasetId id, LaunchId committer) const;
    bool RemovalCounts(DatasetId id, LaunchId committer) const;
    bool decided(DatasetId id) const { return base->counts.Contains(id) || base->removed.Contains(id); }
  };
  absl::StatusOr<State> Now();

 private:
  using BasePtr = std::shared_ptr<const LaunchBase>;
  absl::StatusOr<std::vector<std::uint64_t>> Numbers(bool fresh);
  absl::StatusOr<BasePtr> BaseOf(LaunchId id);
  absl::StatusOr<std::vector<LaunchRecord>> WithoutBase(LaunchId id);
  absl::StatusOr<BasePtr> ReadBase(LaunchId id);
  absl::StatusOr<LaunchBase> LookAround(const LaunchBase& before, const std::optional<LaunchRecord>& last,
                                        const NumberRanges& merged);
  absl::Status WriteBase(LaunchId id, const LaunchBase& base);

  Disk& disk_;
  Arbiter& arbiter_;
  const std::string prefix_;
  const bool writable_;
  const std::function<NumberRanges()> merged_;
  absl::Mutex mutex_;
  std::map<LaunchId, LaunchRecord> records_ ABSL_GUARDED_BY(mutex_);  // as read: they never change
  std::map<LaunchId, BasePtr> bases_ ABSL_GUARDED_BY(mutex_);         // the newest two
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_LAUNCHES_H_
