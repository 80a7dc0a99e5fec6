// Datasets of launches that have their home on another node, at a daemon that has parts of them: what the home orders
// is done with these parts, and what it says of the datasets is noted. README.md, "A launch over nodes". Strand only.
#ifndef CAIRN_DAEMON_CORE_FOLLOWED_H_
#define CAIRN_DAEMON_CORE_FOLLOWED_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/call.h"
#include "daemon/core/completion.h"
#include "daemon/core/container_lists.h"
#include "daemon/core/context.h"
#include "daemon/core/dataset_ids.h"
#include "daemon/core/home.h"
#include "daemon/core/image_store.h"
#include "daemon/core/inventory.h"
#include "daemon/core/ledger.h"
#include "daemon/core/node_record.h"
#include "daemon/core/nodes.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/redundant_tier.h"
#include "daemon/core/restore_transfer.h"
#include "daemon/core/run_cache.h"
#include "daemon/core/session.h"
#include "daemon/core/waits.h"
#include "proto/local.pb.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"

namespace cairn {

class Followed {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    ImageStore& images;
    Throttle& throttle;
    Ledger& ledger;
    Waits& waits;
    ContainerLists& lists;
    PrefixGate& gate;
    Nodes& nodes;
    NodeRecord& record;
    RunCache& cache;
    DatasetIds& ids;
    Inventory& inventory;
    Completion& completion;
    Home& home;
    RedundantTier& tier;
    // A dataset that was foretold has begun, and is what ranks here have taken it for.
    std::function<void(const DatasetPtr& dataset)> on_begun;
  };
  Followed(const Context& context, const Given& given) : context_(context), given_(given) {}
  Followed(const Followed&) = delete;

  // For Home.
  Home::Orders MakeOrders();

  // --- What ranks do ---
  // The restore, or read, of a rank: asked at the home, which says step by step what is done here.
  void Restore(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request);
  void Copied(const Session& session, const local::Request& request);
  bool IsRestoring(const Session& session) const { return moving_.contains(session.id); }
  void SessionEnded(const Session& session);

  void StopCopying();
  void Stop();

 private:
  // A rank's restore.
  struct Moving {
    std::shared_ptr<Call> call;
    bool read = false;
    std::shared_ptr<LocalTransfer> transfer;  // null: the home has not said what to find
  };
  // A dataset's parts on their way to the prefix, once, for all orders that have come meanwhile.
  struct Copying {
    std::shared_ptr<TransferProgress> progress = std::make_shared<TransferProgress>();
    std::vector<std::function<void()>> goes_on;
    std::vector<std::function<void(const Home::Orders::Copied&)>> then;
    std::uint64_t seen = 0;  // TransferProgress::GotOn
    Loop::TimerId timer = 0;
  };

  DatasetPtr Get(DatasetId id) const;  // null: no such one, or all of it is here
  void OnBegun(const peer::DatasetBegun& begun);
  void ForetoldBegun(const DatasetPtr& dataset, const Ledger::FollowSpec& begun);
  void OnFailed(DatasetId id, const std::string& why);
  void Complete(DatasetId id, Home::Orders::Then then);
  void OnWhole(DatasetId id);
  void Copy(DatasetId id, LaunchId committer, std::function<void()> goes_on,
            std::function<void(const Home::Orders::Copied&)> then);
  void BeginCopy(const DatasetPtr& dataset, LaunchId committer);
  void LookAtCopy(DatasetId id);
  void CopyEnded(DatasetId id, const Home::Orders::Copied& how);
  void OnPrefix(DatasetId id);
  void OnAllKept(DatasetId id);
  void MayLeave(const peer::MayLeave& datasets);
  void LetGo(const Dataset& dataset);
  void Find(const SessionPtr& session, const std::shared_ptr<Call>& call, const peer::Find& find,
            const Home::Orders::Moved& moved);
  absl::StatusOr<ChosenCopies> CopiesOf(const peer::Find& find, std::size_t* bad) const;
  void Start(const SessionPtr& session, const std::shared_ptr<Call>& call, const Home::Orders::Moved& moved);
  void Abandon(const SessionPtr& session, const std::shared_ptr<Call>& call);
  void FoundBad(const ChosenCopies& copies, DatasetId dataset, std::size_t copy, const absl::Status& why);
  RestoreTransfer::Then Report(const SessionPtr& session, const std::shared_ptr<RestoreTransfer>& transfer,
                               DatasetId dataset, const Home::Orders::Moved& moved);

  const Context& context_;
  const Given given_;
  std::map<SessionId, Moving> moving_;
  std::set<DatasetId> may_leave_, will_leave_;  // as the home has said last, of all
  std::map<DatasetId, Copying> copying_;        // to the prefix
  bool stopped_ = false;                        // none begins any more
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_FOLLOWED_H_
