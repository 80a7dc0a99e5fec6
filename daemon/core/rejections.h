// "This restart did not work for me": what an application says of a dataset that it has restored, as SCR's
// SCR_Complete_restart(0). No restart chooses it any more, from no tier and after no restart of a daemon, until someone
// adds it to the prefix' index again. Strand only.
//
//   1  now     the ledger knows (Standing::kTakenOut), ranks that restore it are told to ask again, and its flush ends
//   2  cache   the node's record: a daemon after this one knows it, also of what is only in the cache
//   3  prefix  FAILED in SCR's index: other nodes and SCR know it (Inventory::Refuse); then the record, that it was
//   told 4          the ranks that have said it are answered
//
// What the prefix could not be told is told when it is first looked at again (Inventory::AdoptRejected).
#ifndef CAIRN_DAEMON_CORE_REJECTIONS_H_
#define CAIRN_DAEMON_CORE_REJECTIONS_H_

#include <absl/status/status.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/call.h"
#include "daemon/core/flusher.h"
#include "daemon/core/inventory.h"
#include "daemon/core/ledger.h"
#include "daemon/core/node_record.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/restores.h"
#include "daemon/core/session.h"
#include "daemon/core/waits.h"
#include "storage/base/ids.h"

namespace cairn {

class Rejections {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    Ledger& ledger;
    Waits& waits;
    PrefixGate& gate;
    NodeRecord& record;
    Flusher& flusher;
    Inventory& inventory;
    Restores& restores;
  };
  explicit Rejections(const Given& given) : given_(given) {}
  Rejections(const Rejections&) = delete;

  // Answered OK when it holds over a crash; again: OK. NOT_FOUND: there is no such dataset that could be restored.
  // UNAVAILABLE: it is on the prefix, which cannot be told now; on this node it is rejected.
  void Reject(const Session& session, const std::shared_ptr<Call>& call, DatasetId id);

 private:
  bool IsKnown(DatasetId id) const;
  void Begin(const DatasetPtr& dataset);
  void Tell(const DatasetPtr& dataset);
  void End(DatasetId id, const absl::Status& status);

  const Given given_;
  std::map<DatasetId, std::vector<std::shared_ptr<Call>>> under_way_;  // whom to answer
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_REJECTIONS_H_
