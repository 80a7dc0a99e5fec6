// Outputs that go to the prefix while they grow (CAIRN_GROWING): which BP5 directories an open output has is looked for
// every flush.follow, and what has become complete is brought there (storage/file/bpdir/follow.h), on a pool of its
// own. README.md, "Growing outputs". Strand only.
//
// Of each dataset one thing is done at a time. Until all of it is whole in the cache its steps are followed; then it is
// flushed like any other, which completes the directories where they are (storage/job/grow/grown_directory.h). Of one
// that can never be whole the steps stay as a closed directory. This node's record says which directories are on the
// prefix. Outputs of ranks on several nodes are not followed: no node has all of a directory.
#ifndef CAIRN_DAEMON_CORE_GROWING_H_
#define CAIRN_DAEMON_CORE_GROWING_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/launch_keeper.h"
#include "daemon/core/ledger.h"
#include "daemon/core/node_record.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/removals.h"
#include "proto/admin.pb.h"
#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/file/bpdir/follow.h"
#include "storage/file/transfer/transfer.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

// Where an open output has its directories: what ranks have routed (routed_names.h).
struct OpenPlaces {
  std::map<std::string, std::string> roots;  // routed directories: by name, where they are
  std::set<std::string> index_folders;       // folders in which a file md.idx was routed, by name
};

class Growing {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    std::shared_ptr<CacheFolder> cache;
    Ledger& ledger;
    PrefixGate& gate;
    NodeRecord& record;
    DatasetFolders& folders;
    Removals& removals;
    Throttle& throttle;
    const LaunchKeeper& keeper;
  };
  struct Reports {
    std::function<OpenPlaces(DatasetId)> places;  // of an open output; empty: it has none
    std::function<void()> on_change;              // of the run: its policy is applied again
  };
  Growing(const Context& context, const Given& given, Reports reports);
  Growing(const Growing&) = delete;

  // A rank has begun a growing output.
  void Begin(const DatasetPtr& dataset);
  // What the daemon before left on the prefix, by this node's record, goes on or is closed: datasets in the cache are
  // flushed, and the rest is looked at in one of the next turns. REQUIRES: the ledger knows what is in the cache.
  void Adopt();
  // All of it is whole in the cache, or it has failed: steps that are under way end at the next block.
  void Stop(DatasetId id);
  void StopAll();
  // It is committed: its directories are whole where they are. The caller stores the record.
  void Committed(DatasetId id);
  // It has come too late for other names: its directories are closed, then `then` runs; at once if it is no growing
  // output. REQUIRES: the dataset has given way.
  void CloseThen(DatasetId id, std::function<void()> then);

  bool Has(DatasetId id) const { return growing_.contains(id); }
  bool Working(DatasetId id) const;  // steps are under way: its flush waits for their end
  // A newer dataset whose directory already has the place of one of the files; 0: none.
  DatasetId NewerOver(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) const;
  // Has a dataset files in the directory of that name?
  static bool HasFilesIn(const std::string& name, const std::vector<catalogue::Catalogue>& catalogues);
  std::vector<admin::GrowingDirectory> Describe(DatasetId id) const;
  std::vector<admin::GrowingDirectory> DescribeAll() const;

 private:
  struct Directory {
    std::shared_ptr<bpdir::Follower> follower;  // null: left by a daemon before this one
    bool given_up = false;                      // the place is someone else's by now
    bpdir::Followed followed;                   // as of the last look
    std::string error;                          // of it
  };
  struct Growth {
    std::map<std::string, Directory> directories;  // by name below the prefix
    std::shared_ptr<TransferProgress> progress = std::make_shared<TransferProgress>();
    bool working = false;
    std::string error;                             // of taking places or of closing
    std::vector<std::function<void()>> on_closed;  // given up
  };
  struct PlacesTaken {
    PrefixGate::Visited visited;
    std::vector<DatasetId> withdrawn;
    std::vector<std::string> warnings;
    std::set<std::string> names, too_late;
    void FailWith(absl::Status why) { visited.status = std::move(why); }
  };
  struct Stepped {
    PrefixGate::Visited visited;
    std::map<std::string, absl::Status> directories;
    void FailWith(absl::Status why) { visited.status = std::move(why); }
  };

  bool IsPlaced(DatasetId id, const std::string& name) const;
  // Its directories that have no place yet and may have one.
  std::set<std::string> Unplaced(DatasetId id, const Growth& growth) const;
  void LookAtAll();
  void LookAt(DatasetId id);
  void LeaveToFlush(const Dataset& dataset);
  void Find(const DatasetPtr& dataset);
  void Found(const DatasetPtr& dataset, const absl::StatusOr<std::set<std::string>>& found);
  bool IsTaken(DatasetId id, const std::string& name) const;
  std::shared_ptr<bpdir::Follower> MakeFollower(DatasetId id, const std::string& name,
                                                std::shared_ptr<TransferProgress> progress) const;
  void TakePlaces(const DatasetPtr& dataset, const std::shared_ptr<PrefixGate::Lease>& lease);
  void PlacesAreTaken(const DatasetPtr& dataset, const std::shared_ptr<PrefixGate::Lease>& lease,
                      const PlacesTaken& taken);
  void Step(const DatasetPtr& dataset);
  void StepEnded(DatasetId id, const Stepped& stepped);
  void Worked(DatasetId id);
  void Close(DatasetId id);
  void End(DatasetId id);
  void TellOnce(DatasetId id, const absl::Status& status, std::string* told) const;

  const Context& context_;
  const Given given_;
  const Reports reports_;
  std::map<DatasetId, Growth> growing_;  // from the begin of the output until all of it is committed or closed
  Loop::TimerId timer_ = 0;
  LaunchId told_ = 0;  // that its outputs are not followed, as its ranks are on several nodes
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_GROWING_H_
