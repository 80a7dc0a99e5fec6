// Which copy of each file one run's restores read, and what becomes of copies that they find to be bad. Strand only.
#ifndef CAIRN_DAEMON_CORE_RESTORE_COPIES_H_
#define CAIRN_DAEMON_CORE_RESTORE_COPIES_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <vector>

#include "daemon/core/base_files.h"
#include "daemon/core/context.h"
#include "daemon/core/image_store.h"
#include "daemon/core/inventory.h"
#include "daemon/core/ledger.h"
#include "daemon/core/nodes.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/redundant_tier.h"
#include "daemon/core/restore_group.h"
#include "daemon/core/restore_plan.h"
#include "daemon/core/restore_transfer.h"
#include "daemon/core/run_cache.h"
#include "storage/base/ids.h"

namespace cairn {

// Of a file of the dataset in another node's cache, as that node's disk has it (Nodes::FilesOf).
std::string PathOnOtherNode(DatasetId dataset, const std::string& file);

class RestoreCopies {
 public:
  struct Given {  // all borrowed
    const RunId& run;
    const std::string& run_name;
    ImageStore& images;
    Ledger& ledger;
    PrefixGate& gate;
    BaseFiles& bases;
    RunCache& cache;
    Inventory& inventory;
    Nodes& nodes;
    RedundantTier& tier;
  };
  RestoreCopies(const Context& context, const Given& given) : context_(context), given_(given) {}
  RestoreCopies(const RestoreCopies&) = delete;

  // The nearest copy that is left of each file that holds something of what is wanted. kDataLoss: of a file none is
  // left. `reader`: the node whose daemon reads them; empty: this one. REQUIRES: the dataset is described.
  absl::StatusOr<ChosenCopies> Choose(RestoreGroup& group, const std::vector<Wanted>& wanted,
                                      const NodeId& reader) const;
  // kRebuilt if a copy in a cache was made anew, since its node was lost; else kNone.
  static Tier HowFound(const Dataset& dataset, const ChosenCopies& copies);
  // No copy is left. Some may be on nodes that did not answer: a daemon that was started again does so soon. Or on the
  // prefix, which is no reason to go on from something older while it is out of reach. `then` learns once, now or
  // later, whether the copies may be chosen once more, after a pause: for some seconds in all, not counting those in
  // which the prefix was out of reach.
  void AskForAway(const RestoreGroupPtr& group, std::function<void(bool again)> then);
  // The restore reads from the prefix: noted in its index, once.
  void NoteFetch(RestoreGroup& group);
  // A copy cannot be used in this restore. If it is damaged or missing it never will be: reported, kept for a look,
  // noted to be fetched anew. A copy that a disk could not read just now may still be whole.
  void FoundBad(RestoreGroup& group, Rank rank, Tier tier, const absl::Status& why);
  // What was found damaged does not count any more, now that the restore has ended: a level holds while a copy is
  // readable.
  void WithdrawDamaged(const RestoreGroup& group);
  // The same, where they are to be made anew of what others keep: these parts are lost. False: they cannot be.
  bool LoseDamaged(const RestoreGroup& group);

 private:
  bool WaitForAway(RestoreGroup& group) const;
  absl::Status ChooseOne(const RestoreGroup& group, Rank from, const NodeId& reader, ChosenCopies* chosen) const;

  const Context& context_;
  const Given given_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RESTORE_COPIES_H_
