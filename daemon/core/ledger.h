// The ledger of one run: launches, ranks, datasets and the levels that they have reached. The rules of design.md,
// "Identity" and "The ladder", and nothing else: no I/O, no threads, no clock. Its owner tells it what happened; it
// answers what that means. Strand only.
#ifndef CAIRN_DAEMON_CORE_LEDGER_H_
#define CAIRN_DAEMON_CORE_LEDGER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/variables.h"
#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"

namespace cairn {

// One rank's part of a dataset.
struct Part {
  enum class State : std::uint8_t { kAbsent, kBegun, kCaptured, kLocal };
  State state = State::kAbsent;
  std::uint64_t bytes = 0;         // of its files, as planned, then as written
  catalogue::Catalogue catalogue;  // from kLocal on
};

struct Dataset {
  DatasetId id = 0;
  LaunchId launch = 0;
  std::uint64_t step = 0;
  std::uint32_t attempt = 0;
  std::uint32_t nranks = 0;
  bool files = false;  // the application's own
  bool checkpoint = true;
  bool output = false;
  std::uint64_t ordinal = 0;  // of a checkpoint: its number in its launch, from 1
  std::int64_t created_us = 0;
  std::string user, job;    // as SCR's records have them: whose, and of which job (the cache folder's scr.<job>)
  std::vector<Part> parts;  // by rank
  Agreement agreement;
  std::uint32_t captured = 0;  // parts at kCaptured or beyond
  std::uint32_t local = 0;
  bool in_cache = false;      // whole, with its record
  bool in_prefix = false;     // committed
  bool described = true;      // the parts' catalogues are here; else the prefix has them
  bool damaged = false;       // no tier could give it back: never chosen again
  bool outdated = false;      // has a higher id than newer ones: chosen only by name, and supersedes nothing
  bool dropped = false;       // taken out of the prefix' index by someone: as if outdated
  bool foreign = false;       // SCR's own on the prefix: nothing of it there is ever changed
  std::string name;           // in SCR's records, of what SCR has written; empty: Cairn's own, ckpt.<id>
  bool pinned = false;        // by the user
  bool bypass = false;        // written straight to the prefix, never in the cache
  bool gave_way = false;      // never goes to the prefix again: removed there, or a newer one's files have its names
  bool id_taken = false;      // SCR has given its id to another dataset, which the prefix has: it stays in the cache
  bool doubted = false;       // a newer one's files were about to replace its own on the prefix when a daemon ended
  std::string why_damaged;    // if it is known
  std::uint32_t readers = 0;  // restores under way

  std::uint64_t bytes() const;
  bool all_captured() const { return captured == nranks; }
  Level level() const;
  bool restorable() const { return checkpoint && !damaged && (in_cache || in_prefix); }
  bool superseding() const { return checkpoint && !outdated && !dropped; }  // counts when the newest is looked for
};

// Why a dataset is no more: what test and wait answer.
struct Gone {
  enum class Why : std::uint8_t { kFailed, kSuperseded, kRemoved };
  Why why = Why::kFailed;
  std::string message;
  DatasetId successor = 0;
  std::uint64_t step = 0;
};

struct RankSlot {
  enum class State : std::uint8_t { kUnknown, kLive, kLost, kClosed };  // kUnknown: not here (yet), or a daemon ago
  State state = State::kUnknown;
};

struct Launch {
  LaunchId id = 0;
  std::string key;
  std::uint32_t nranks = 0;
  std::string secret;
  std::vector<RankSlot> ranks;
  std::uint32_t live = 0;
  bool lost_any = false;  // some session was lost: nobody joins any more
  bool fenced = false;
  bool from_record = false;  // made by a daemon before this one: who has not come back may never do
  std::map<std::pair<std::uint64_t, std::uint32_t>, DatasetId>
      attempts;                // (step, attempt) of datasets not begun by all
  std::deque<DatasetId> open;  // datasets that some rank has not begun, oldest first
  // cairn_latest: nullopt: no pin; 0: nothing to restart from.
  std::optional<DatasetId> pin;
  bool pin_ended = false;
  std::set<DatasetId> passed_over;  // could not be restored in this launch, damaged or not
  // Someone has set the prefix' CURRENT back to this dataset: what others have made since is not chosen, until this
  // launch has committed a checkpoint. 0: no bound.
  DatasetId bound = 0;
  std::int64_t bound_set_us = 0;  // what was made after this is not bound; 0: not known
  std::uint64_t checkpoints = 0;  // begun

  bool over() const { return live == 0; }
  bool all_closed() const {
    return std::all_of(ranks.begin(), ranks.end(),
                       [](const RankSlot& slot) { return slot.state == RankSlot::State::kClosed; });
  }
};

class Ledger {
 public:
  // Called once for each dataset that failed, after it was taken out of the ledger's lists.
  using OnFailed = std::function<void(std::shared_ptr<Dataset> dataset, const std::string& why)>;
  explicit Ledger(OnFailed on_failed) : on_failed_(std::move(on_failed)) {}

  // --- Launches ---
  Launch* newest() { return launches_.empty() ? nullptr : &launches_.rbegin()->second; }
  Launch* Find(LaunchId id);
  const std::map<LaunchId, Launch>& launches() const { return launches_; }
  // Enters a launch read from its record or just made; older ones are fenced and forgotten once they are over.
  Launch& Enter(LaunchId id, std::string key, std::uint32_t nranks, std::string secret);

  enum class Joining : std::uint8_t { kJoin, kMakeNew, kBusy };
  // May a rank with this key join the newest launch, or is a new one needed? kInvalidArgument: another nranks.
  absl::StatusOr<Joining> Decide(const std::string& key, Rank rank, std::uint32_t nranks, bool takeover);
  void SessionLive(Launch& launch, Rank rank);
  // The session ended. `closed`: by cairn_close. Fails datasets that can never be whole any more.
  void SessionEnded(Launch& launch, Rank rank, bool closed);

  // --- Datasets ---
  struct BeginSpec {
    std::uint64_t step = 0;
    std::uint32_t attempt = 1;
    bool files = false, checkpoint = true, output = false;
    std::uint64_t bytes = 0;  // this rank's, as planned
    std::int64_t now_us = 0;
  };
  // The dataset that this begin joins, if it is there; null: a new one must be made (Create). An error: the dataset has
  // failed, or the rank has begun this attempt before.
  absl::StatusOr<std::shared_ptr<Dataset>> FindForBegin(Launch& launch, Rank rank, const BeginSpec& spec);
  std::shared_ptr<Dataset> Create(Launch& launch, DatasetId id, const BeginSpec& spec);
  // The rank has begun it; earlier ones that it has not begun fail. kAborted: the dataset itself has just failed
  // (kinds differ, variables disagree, a rank is gone), with why.
  absl::Status Begin(Launch& launch, const std::shared_ptr<Dataset>& dataset, Rank rank, const BeginSpec& spec,
                     const VariableList& variables);
  void Captured(Dataset& dataset, Rank rank);
  void Local(Dataset& dataset, Rank rank, catalogue::Catalogue catalogue);
  void Fail(DatasetId id, const std::string& why);
  // Known from disk. One that no launch has made, and that is older than a launch's with a lower id, is outdated.
  void Adopt(std::shared_ptr<Dataset> dataset);
  // Taken out of cache and prefix, or dropped.
  void Forget(DatasetId id, Gone gone);

  std::shared_ptr<Dataset> Get(DatasetId id) const;
  const Gone* FindGone(DatasetId id) const;
  const std::map<DatasetId, std::shared_ptr<Dataset>>& datasets() const { return datasets_; }
  const std::map<DatasetId, Gone>& gone() const { return gone_; }

  // --- Choices ---
  // The newest restorable checkpoint below `below` (0: any); null: none.
  std::shared_ptr<Dataset> NewestRestorable(DatasetId below = 0) const;
  // The same for a launch: without what it has been told to pass over, and within its bound.
  std::shared_ptr<Dataset> NewestRestorableFor(const Launch& launch, DatasetId below = 0) const;
  bool PinnedByLaunch(DatasetId id) const;
  // The launch's bound, if it still holds.
  DatasetId BoundOf(const Launch& launch) const;

 private:
  static constexpr std::size_t kGoneMax = 4096;
  void FailOpenWithout(Launch& launch, Rank rank, DatasetId before, const std::string& why);
  void DropFromOpen(Launch& launch, const Dataset& dataset);
  void FailWithoutReturned(Launch& launch);

  OnFailed on_failed_;
  std::map<LaunchId, Launch> launches_;
  std::map<DatasetId, std::shared_ptr<Dataset>> datasets_;
  std::map<DatasetId, Gone> gone_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_LEDGER_H_
