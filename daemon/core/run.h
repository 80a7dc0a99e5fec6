// One run: a handle to its components, and how what one of them reports reaches the others. It holds no state of its
// own but what never changes. Made when its folder in the cache or its prefix is first seen; lives until the core ends.
// Strand only.
#ifndef CAIRN_DAEMON_CORE_RUN_H_
#define CAIRN_DAEMON_CORE_RUN_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/core/announced.h"
#include "daemon/core/away.h"
#include "daemon/core/away_parts.h"
#include "daemon/core/base_files.h"
#include "daemon/core/cache_room.h"
#include "daemon/core/captures.h"
#include "daemon/core/completion.h"
#include "daemon/core/container_lists.h"
#include "daemon/core/context.h"
#include "daemon/core/dataset_entry.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/dataset_ids.h"
#include "daemon/core/flush_notes.h"
#include "daemon/core/flush_slots.h"
#include "daemon/core/flusher.h"
#include "daemon/core/followed.h"
#include "daemon/core/foretold.h"
#include "daemon/core/growing.h"
#include "daemon/core/home.h"
#include "daemon/core/image_store.h"
#include "daemon/core/index_keeper.h"
#include "daemon/core/inventory.h"
#include "daemon/core/keeping.h"
#include "daemon/core/launch_keeper.h"
#include "daemon/core/ledger.h"
#include "daemon/core/levels.h"
#include "daemon/core/node_record.h"
#include "daemon/core/nodes.h"
#include "daemon/core/other_caches.h"
#include "daemon/core/outputs.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/prefix_watch.h"
#include "daemon/core/protector.h"
#include "daemon/core/rebuilder.h"
#include "daemon/core/redundant_tier.h"
#include "daemon/core/rejections.h"
#include "daemon/core/removals.h"
#include "daemon/core/restores.h"
#include "daemon/core/routed_names.h"
#include "daemon/core/run_cache.h"
#include "daemon/core/steering.h"
#include "daemon/core/stores.h"
#include "daemon/core/views.h"
#include "daemon/core/waits.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

class Run {
 public:
  // What all runs share, and whom a run tells that something of it has changed. All borrowed.
  struct Shared {
    const Context& context;
    CacheRoom& room;
    ImageStore& images;
    FlushSlots& slots;
    Receiver& receiver;                           // that connections go to, those of ranks on other nodes, too
    std::function<void(const Run&)> others_turn;  // a slot may have become free for other runs
    std::function<void(Run&, const LaunchRecord&)> on_newer_launch;  // another daemon has made one
    // Launches that had begun without the prefix are there now.
    std::function<void(Run&, const std::vector<ConfirmedLaunch>&)> on_confirmed;
    // What another node asks of a run (Nodes::Given).
    std::function<void(Run&, const peer::Question&, const Questions::Then& then)> answer_node;
    std::function<void()> on_change;
  };
  Run(const Shared& shared, const RunId& run_id, const std::string& prefix_path,
      std::shared_ptr<CacheFolder> cache_folder);
  ~Run() { folders.Stop(); }  // its components may hold leases, and the loop may be gone
  Run(const Run&) = delete;

  // Flushes, drops and evicts what the policy says now.
  void ApplyPolicy();
  // Flushes and steps of growing outputs end at the next block.
  void Quiesce();
  void LeaveNodes();  // quiescing: as soon as nothing waits for them
  // The same, and captures, restores and fetches; nobody is answered any more.
  void Stop();
  // Is anything in the daemon's hands only?
  bool AnyCaptured() const;
  // Since when the prefix hangs, if it does: any work there (PrefixGate), or a flush that does not get on.
  std::optional<SteadyTime> HungSince() const;
  // What is in the way of a dataset that is to be on the prefix; empty: nothing that is known.
  std::string HeldUpBy(DatasetId dataset) const;

 private:
  void AfterStep();
  void LookForLost();
  void LeftCache();
  void PartsLeft(const Dataset& dataset, RunCache::Left how, const std::string& why);
  void TellWhatMayLeave();
  void FolderUnused(DatasetId dataset_id);
  void DatasetWhole(const DatasetPtr& dataset);
  void DatasetFailed(const DatasetPtr& dataset, const std::string& why);

  const Shared shared_;

 public:
  const RunId id;
  const std::string name;  // last part of the prefix
  const std::shared_ptr<CacheFolder> folder;
  const std::shared_ptr<FlushFile> flush_file;

  // Each knows only some of those before it.
  Ledger ledger;
  Waits waits;
  ContainerLists lists;
  PrefixGate gate;
  PrefixWatch watch;
  LaunchKeeper keeper;
  Nodes nodes;
  Announced announced;
  Away away;
  Home home;
  NodeRecord record;
  DatasetFolders folders;
  BaseFiles bases;
  RunCache cache;
  DatasetIds ids;
  Foretold foretold;
  Inventory inventory;
  Rebuilder rebuilder;
  OtherCaches others;
  Keeping keeping;
  RedundantTier tier;
  Protector protector;
  Views views;
  IndexKeeper index;
  Removals removals;
  Stores stores;
  RoutedNames names;
  Growing growing;
  Steering steering;
  Flusher flusher;
  FlushNotes notes;
  DatasetEntry entry;
  Completion completion;
  AwayParts away_parts;
  Followed followed;
  Restores restores;
  Rejections rejections;
  Outputs outputs;
  Captures captures;
  Levels levels;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RUN_H_
