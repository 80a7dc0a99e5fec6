// One run's datasets to the prefix. Which ones is decided in daemon/policy/policy.h; here it is done, in the two steps
// of storage/job/flush/flush_work.h. At most flush.parallel datasets are copied at once by all runs together, and as
// many of a run are in flight. Commits of a run keep the order of its datasets where that costs nothing: a copied one
// waits, here and in no thread, while an older one is still copied; not for one that pauses after a failure, nor for
// one whose copy hangs (flush.stalled), as when its source does. The index needs no order: CURRENT never goes back, and
// of the application's files that have the same names the higher id stays. Only where a copy completes grown
// directories in place, what has files in them waits for its end. Strand only.
#ifndef CAIRN_DAEMON_CORE_FLUSHER_H_
#define CAIRN_DAEMON_CORE_FLUSHER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/away.h"
#include "daemon/core/context.h"
#include "daemon/core/flush_slots.h"
#include "daemon/core/growing.h"
#include "daemon/core/inventory.h"
#include "daemon/core/launch_keeper.h"
#include "daemon/core/ledger.h"
#include "daemon/core/node_record.h"
#include "daemon/core/nodes.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/prefix_watch.h"
#include "daemon/core/redundant_tier.h"
#include "daemon/core/removals.h"
#include "daemon/core/run_cache.h"
#include "proto/admin.pb.h"
#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/job/flush/flush_work.h"
#include "storage/place/prefix/flush_file.h"
#include "storage/place/publish/protocol.h"

namespace cairn {

class Flusher {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    std::shared_ptr<CacheFolder> folder;
    std::shared_ptr<FlushFile> flush_file;
    FlushSlots& slots;
    Ledger& ledger;
    PrefixGate& gate;
    PrefixWatch& watch;
    NodeRecord& record;
    Removals& removals;
    Growing& growing;
    RunCache& cache;
    Inventory& inventory;
    LaunchKeeper& keeper;
    Nodes& nodes;
    Away& away;
    RedundantTier& tier;
  };
  struct Reports {
    std::function<void()> on_step;     // one has ended: others may have their turn
    std::function<void()> look_again;  // the policy is to be applied again: a pause has ended
  };
  Flusher(const Context& context, const Given& given, Reports reports);
  Flusher(const Flusher&) = delete;

  // Starts, and drops, what the policy says. After every change of the run.
  void Plan();
  // Commits the oldest of those that are copied, when its turn has come.
  void CommitNext();
  // By name: also one that was dropped or left out, and at once, whatever pause a failed try has left.
  void Order(DatasetId id);
  // A wait for `prefix` keeps a flush from being dropped, and asks for one that the rhythm would have left out.
  void Want(DatasetId id);
  // The dataset is to be removed. False: it is being flushed just now; that is stopped, and does not begin again.
  bool Cancel(const DatasetPtr& dataset);
  void StopAll();
  // Those that do not run just now are no more: the prefix is lost. Plan begins them anew when it is found.
  void EndWaiting();
  bool Has(DatasetId id) const { return jobs_.contains(id); }
  bool InFlight(DatasetId id) const;

  std::vector<admin::FlushStatus> Describe() const;
  // Of the last try, if it has failed and the dataset is still to be flushed; else empty.
  std::string ErrorOf(DatasetId id) const;
  // Since when a copy has not got on (flush.stalled).
  std::optional<SteadyTime> StalledSince() const;

 private:
  // What another node's cache has, whose daemon serves no rank of this one's launch; or the folder that is redundant
  // itself, of what no cache has any more.
  struct Elsewhere {
    std::shared_ptr<Disk> disk;
    std::string folder;  // of the dataset there
    bool redundant = false;
    std::vector<catalogue::Catalogue> catalogues;
  };
  struct Job {
    // kCopied: it waits for older ones to be copied and committed. kNotNoted: it is copied, and pauses, since this node
    // could not note what it would replace.
    enum class State : std::uint8_t { kWaiting, kCopying, kCopied, kCommitting, kBackingOff, kNotNoted };
    State state = State::kWaiting;
    DatasetPtr dataset;
    scr::Descriptor descriptor;  // with the catalogues what a try works with
    std::vector<catalogue::Catalogue> catalogues;
    std::vector<catalogue::Catalogue> here;  // of these, of the ranks whose parts are in this cache
    std::set<Rank> there;                    // the others
    std::vector<Elsewhere> elsewhere;        // of `there`, what is brought from here
    std::shared_ptr<TransferProgress> progress = std::make_shared<TransferProgress>();
    std::vector<CopiedFile> copied;
    LaunchId committer = 0;  // of the last try
    Withdrawn gave_way;      // in all tries so far: the commit removes them
    std::uint32_t tries = 0;
    std::string error;
    Loop::TimerId timer = 0;
    SteadyTime started, retry_at;
    bool running() const { return state == State::kCopying || state == State::kCommitting; }
    bool in_flight() const { return running() || state == State::kCopied; }
  };
  using JobPtr = std::shared_ptr<Job>;
  struct StepResult {
    PrefixGate::Visited visited;
    FlushOutcome outcome;
    std::string damaged_there;  // a file of another node's cache,
    bool in_folder = false;     // or of the folder that is redundant itself
    void FailWith(absl::Status why) { visited.status = std::move(why); }
  };

  static bool IsHere(const Dataset& dataset, Rank rank);
  void DropWithoutCopy();
  std::uint32_t FreeSlots();
  bool Hangs(const Job& job) const;
  bool HasStalled(const Job& job) const;
  bool MustWaitFor(const Job& older, const Job& newer) const;
  void LookAgain();
  std::chrono::milliseconds stalled() const { return std::chrono::milliseconds(context_.config.flush.stalled_ms); }
  void Copy(const JobPtr& job);
  void CopyHere(const JobPtr& job, std::function<void(StepResult)> then);
  void CopyOverNodes(const JobPtr& job);
  void FindBrought(const JobPtr& job, StepResult result);
  absl::Status FindElsewhere(Job& job) const;
  void CopyEnded(const JobPtr& job, StepResult result);
  void Commit(const JobPtr& job, const std::shared_ptr<PrefixGate::Lease>& lease);
  std::set<DatasetId> WhomItMayReplace(const Job& job) const;
  void NotNoted(const JobPtr& job, const absl::Status& why);
  void CommitEnded(const JobPtr& job, StepResult result);
  void TakeFindings(Job& job, const StepResult& result);
  void Failed(const JobPtr& job, const FlushOutcome& outcome);
  void PartIsBad(const JobPtr& job, const std::string& file, const absl::Status& why);
  void GiveUp(const JobPtr& job, const std::string& why);
  void WasFenced(const JobPtr& job, const FlushOutcome& outcome);
  void BackOff(const JobPtr& job, const absl::Status& why);
  void Pause(const JobPtr& job, const absl::Status& why, std::function<void()> then);
  void EndWaiting(const Job& job);
  void End(const Job& job);
  std::string TextOf(const Dataset& dataset) const;

  const Context& context_;
  const Given given_;
  const Reports reports_;
  std::map<DatasetId, JobPtr> jobs_;
  bool looking_again_ = false;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_FLUSHER_H_
