// One run's datasets in the folder that is redundant itself (redundant.path): which of them are whole there, what this
// node brings there, what goes. README.md, "A folder that is redundant itself". Strand only.
//
// The folder may hang, vanish, fill up, be read-only. What waits for it does so in lanes of its own; each step ends,
// also for who waits for it: a copy that does not get on has failed, and is told so, though a thread still hangs in it.
#ifndef CAIRN_DAEMON_CORE_REDUNDANT_TIER_H_
#define CAIRN_DAEMON_CORE_REDUNDANT_TIER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/dataset_ids.h"
#include "daemon/core/folder_agreement.h"
#include "daemon/core/inventory.h"
#include "daemon/core/ledger.h"
#include "daemon/core/node_record.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/run_cache.h"
#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/io/disk.h"
#include "storage/place/redundant/redundant_folder.h"

namespace cairn {

class RedundantTier {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    Ledger& ledger;
    DatasetIds& ids;
    PrefixGate& gate;
    NodeRecord& record;
    DatasetFolders& folders;
    RunCache& cache;
    Inventory& inventory;
  };
  // `on_change`: of the run. `look_again`: Update is to be called; time has passed.
  RedundantTier(const Context& context, const Given& given, std::function<void()> on_change,
                std::function<void()> look_again);
  RedundantTier(const RedundantTier&) = delete;

  // redundant.path is set.
  bool configured() const { return folder_ != nullptr; }
  // Where a file of a dataset is there; which disk, and which lane has it. REQUIRES: configured.
  std::string PathOf(DatasetId id) const { return folder_->DatasetPath(id); }
  Disk& disk() const { return folder_->disk(); }
  const std::string& lane() const { return lane_; }
  // The lane of what reads there and writes to the prefix: of neither's own.
  std::string LaneTo(const std::string& prefix) const { return lane_ + " to " + prefix; }

  // After every change of the run: looks, if it has not yet, and removes what is not to be there any more.
  void Update();
  void Stop();

  // Something was not there, or did not answer.
  void LookAgain() { looked_ = false; }

  // --- What is only there ---
  // A launch is to be made here, or goes on here: looks, and takes up what is whole there. `then` comes within 10 s,
  // not inside the call. Of launches of which this daemon does not know that they count:
  //   kGoesOn         that too
  //   kLaunch         the same, but until the prefix has judged it (IsJudged) it is fenced: it is not chosen, nothing
  //                   gives way for it, and it does not go
  //   kOfflineLaunch  nothing: the prefix does not answer
  enum class For : std::uint8_t { kGoesOn, kLaunch, kOfflineLaunch };
  void TakeUp(std::function<void()> then, For whom);
  // The prefix was asked whether the dataset's launch counts; what it has said is noted next.
  void IsJudged(DatasetId id);
  // Once for a launch that goes on.
  bool MayTakeUp(LaunchId launch) { return std::exchange(took_up_for_, launch) != launch; }
  bool taking_up() const { return !waiting_.empty(); }  // what is not known yet may still be found
  // A launch was made here, or the folder is full: what was set aside, and what older launches have begun there, goes.
  void Tidy();

  // --- Into it ---
  using Then = std::function<void(const absl::Status& status)>;  // once, not inside the call
  // It is known what is there, nothing hangs, and nothing is done with this dataset.
  bool MayBring(DatasetId id) const;
  // It does not answer, or has failed to: nobody counts on it for now.
  bool IsAway() const;
  // The home of its launch orders all nodes to bring it: what has arrived goes if it is not to be there any more.
  void Begun(DatasetId id) { begun_.insert(id); }
  // It did not fit: what older ones have begun goes for it.
  void IsFull(DatasetId id);
  // This node's parts of the dataset are to be there, verified.
  //   kFailedPrecondition  there is no such folder here
  //   kNotFound            nothing of the dataset is whole here
  //   kDeadlineExceeded    it has not got on for flush.stalled
  //   others               as RedundantFolder::Bring
  void Bring(DatasetId id, Then then);
  // All nodes have done so: from now on it counts there. As RedundantFolder::Complete.
  void Complete(const DatasetPtr& dataset, Then then);

  // What is there of it was found to be bad: it goes aside.
  void FoundDamaged(const DatasetPtr& dataset, const std::string& why);

  // Is the dataset to be there?
  bool Belongs(const Dataset& dataset) const;

 private:
  struct Bringing {
    Then then;                    // null: it was told that it does not get on, and the dataset is not held any more
    std::shared_ptr<void> lease;  // of its folder in the cache, as long as it is held
    std::shared_ptr<TransferProgress> progress = std::make_shared<TransferProgress>();
    std::vector<catalogue::Catalogue> here;
    std::uint64_t seen = 0;  // TransferProgress::GotOn
    SteadyTime since;
    Loop::TimerId timer = 0;
  };
  using BringingPtr = std::shared_ptr<Bringing>;
  struct Brought {
    absl::Status status;
    std::string damaged;  // of the cache
    void FailWith(absl::Status why) { status = std::move(why); }
  };
  struct Waiting {
    std::function<void()> then;
    For whom = For::kGoesOn;
    bool in_this_look = false;
  };

  std::chrono::milliseconds stalled() const { return std::chrono::milliseconds(context_.config.flush.stalled_ms); }
  bool DecidesHere() const;
  void Look();
  enum class TakingUp : std::uint8_t { kNothing, kOfKnownLaunches, kToBeJudged, kAll };
  TakingUp WhatToTakeUp() const;
  void Looked(const absl::StatusOr<RedundantFolder::Contents>& contents, TakingUp take_up);
  void IsAnotherFolder();
  void Answer(std::uint64_t waiting);
  void Found(DatasetId id, const RedundantFolder::Found& found, TakingUp take_up);
  DatasetPtr Adopt(DatasetId id, const RedundantFolder::Found& found);
  void NotFoundAnyMore(const RedundantFolder::Contents& contents);
  bool MayGo(DatasetId id) const;
  void RemoveNext();
  void Removed(DatasetId id, const absl::Status& status);
  void Change(DatasetId id, std::function<absl::Status(RedundantFolder& folder)> work, Then then);
  void Copy(const DatasetPtr& dataset, const BringingPtr& bringing);
  void MakeRecord(const DatasetPtr& dataset, Then then);
  void LookAtBringing(const DatasetPtr& dataset);
  void BringEnded(const DatasetPtr& dataset, const BringingPtr& bringing, const Brought& brought);
  void WarnOnce(std::string text);

  const Context& context_;
  const Given given_;
  const std::function<void()> on_change_, look_again_;
  std::shared_ptr<RedundantFolder> folder_;  // null: there is none
  std::unique_ptr<FolderAgreement> agreement_;  // with the folder
  std::string lane_;
  std::string look_lane_, change_lane_;  // of this run: to remove many files takes its time, which nobody waits for
  std::map<std::uint64_t, Waiting> waiting_;  // for a look
  std::uint64_t last_waiting_ = 0;
  LaunchId took_up_for_ = 0;
  bool looking_ = false, looked_ = false;
  bool look_failed_ = false;
  SteadyTime look_began_;
  SteadyTime look_at_, remove_at_;  // not before
  std::set<DatasetId> there_;       // whole, as far as is known here
  std::set<DatasetId> since_look_;  // of these, since the look began that is under way
  std::set<DatasetId> unjudged_;    // taken up for a launch that was to be made
  std::set<DatasetId> begun_;       // by this launch's home, and not whole yet
  std::set<DatasetId> changing_;    // being completed, removed or set aside
  DatasetId needs_room_ = 0;        // of what has begun this one alone stays
  std::map<DatasetId, BringingPtr> bringing_;
  const std::shared_ptr<Throttle> throttle_ = std::make_shared<Throttle>(0, context_.transfers->background());
  std::string last_warning_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_REDUNDANT_TIER_H_
