// Parts of this daemon's datasets that other nodes' daemons have: begun and handed over here by name, stored there.
// Files are routed there, but whose a name is, is decided here, for the ranks of all nodes. What those daemons say of
// them is checked, and becomes what the ledger knows. README.md, "A launch over nodes". Strand only.
#ifndef CAIRN_DAEMON_CORE_AWAY_PARTS_H_
#define CAIRN_DAEMON_CORE_AWAY_PARTS_H_

#include <absl/status/status.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/core/away.h"
#include "daemon/core/call.h"
#include "daemon/core/completion.h"
#include "daemon/core/context.h"
#include "daemon/core/dataset_entry.h"
#include "daemon/core/growing.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/routed_names.h"
#include "daemon/core/run_cache.h"
#include "daemon/core/session.h"
#include "daemon/core/steering.h"
#include "daemon/core/waits.h"
#include "proto/catalogue.pb.h"
#include "proto/local.pb.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"
#include "storage/place/run_identity.h"

namespace cairn {

class AwayParts {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    CacheFolder& folder;
    Ledger& ledger;
    Waits& waits;
    const PrefixGate& gate;
    RunCache& cache;
    Away& away;
    RoutedNames& names;
    Growing& growing;
    DatasetEntry& entry;
    Completion& completion;
    Steering& steering;
    // All ranks have handed over their parts of an output of files, the last one from there.
    std::function<void(const DatasetPtr&)> on_all_ended;
    std::function<void()> on_parts_lost;  // of what was whole
  };
  AwayParts(const Context& context, const Given& given) : context_(context), given_(given) {}
  AwayParts(const AwayParts&) = delete;

  // --- What ranks there ask. REQUIRES: the session's connection leads to another node ---
  void Begin(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Begin& begin);
  void BeginOutput(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::OutputBegin& begin);
  // May it have the file's or directory's name? Where that is, the rank's daemon knows: the answer does not say it.
  void RouteFile(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::RouteFile& route);
  void Commit(const SessionPtr& session, const std::shared_ptr<Call>& call);  // of memory or files
  void Abort(const Session& session, const std::string& reason);
  bool IsOpen(const Session& session) const;  // has begun one, and not handed it over
  void SessionEnded(const Session& session) { begun_.erase(session.id); }

  // --- What their daemons say ---
  void There(const NodeId& node, const peer::PartsThere& there);
  void LaunchEntered();           // it may be the one that some have spoken of
  void Lost(const NodeId& node);  // with all that is not stored there
  void Stored(const NodeId& node, const catalogue::Catalogue& catalogue);
  void Failed(const NodeId& node, const peer::PartFailed& failed);
  void Left(const NodeId& node, const peer::PartsLeft& left);

 private:
  struct Begun {
    DatasetPtr dataset;
    std::size_t files = 0;  // that it has routed
  };
  using Parts = std::map<Rank, peer::PartThere>;
  using Listed = std::map<DatasetId, std::map<Rank, const peer::PartThere*>>;
  bool MayBegin(const SessionPtr& session, Call& call);
  DatasetPtr Enter(const SessionPtr& session, Call& call, DatasetEntry::Wish wish, const VariableList& variables);
  DatasetPtr EnterMemory(const SessionPtr& session, Call& call, const local::Begin& begin);
  static bool HasHeardOf(const NodeId& node, const Dataset& dataset,
                         const std::map<Rank, const peer::PartThere*>& listed);
  void NotAsForetold(const Session& session, DatasetId id);
  bool IsBegun(const Dataset& dataset, Rank rank) const;  // and not handed over
  void HandedOver(const DatasetPtr& dataset, Rank rank);
  absl::Status CheckCatalogue(const Dataset& dataset, const catalogue::Catalogue& catalogue) const;
  void TakeListed(const NodeId& node, const DatasetPtr& dataset, const std::map<Rank, const peer::PartThere*>& listed);
  void TellGone(const NodeId& node, DatasetId id, const std::map<Rank, const peer::PartThere*>& listed);
  void FindParts(const NodeId& node, const DatasetPtr& dataset, const std::map<Rank, const peer::PartThere*>& listed);
  void LoseParts(const NodeId& node, const Dataset& dataset, const std::string& ranks);
  void TakeKept(const Dataset& dataset, const peer::PartThere& part);
  void PartFound(const NodeId& node, const Dataset& dataset, const peer::PartThere& part);
  void TakeStored(const NodeId& node, const DatasetPtr& dataset, const catalogue::Catalogue& catalogue);

  const Context& context_;
  const Given given_;
  std::map<SessionId, Begun> begun_;          // until it is handed over
  std::map<NodeId, peer::PartsThere> early_;  // of a launch that this daemon, just started, does not know yet
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_AWAY_PARTS_H_
