// Parts that no node has any more, made anew in this cache of what the others of their redundancy sets keep, when the
// home of the run's newest launch orders it, which may be this daemon (other_caches.h). README.md, "Redundancy".
// Strand only.
#ifndef CAIRN_DAEMON_CORE_REBUILDER_H_
#define CAIRN_DAEMON_CORE_REBUILDER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/dataset_ids.h"
#include "daemon/core/ledger.h"
#include "daemon/core/node_record.h"
#include "daemon/core/nodes.h"
#include "daemon/core/rebuild.h"
#include "daemon/core/run_cache.h"
#include "proto/catalogue.pb.h"
#include "proto/peer.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"

namespace cairn {

class Rebuilder {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    Ledger& ledger;
    Nodes& nodes;
    NodeRecord& record;
    DatasetFolders& folders;
    RunCache& cache;
    DatasetIds& ids;
  };
  // `on_change`: of the run.
  Rebuilder(const Context& context, const Given& given, std::function<void()> on_change)
      : context_(context), given_(given), on_change_(std::move(on_change)) {}
  Rebuilder(const Rebuilder&) = delete;

  // Makes the lost ranks' parts, each byte verified, and notes them, durably, beside what is here of the dataset: all
  // or none. `goes_on`: it has got on since. `then` runs once, not inside the call, with the
  // set by which each was made:
  //   kInvalidArgument     the order contradicts itself, or what is here: names the field
  //   kAlreadyExists       another dataset, or something that is not whole, has its number here
  //   kUnavailable         a member's node is not reached; the dataset is in use, or being made anew already
  //   kResourceExhausted   they have no room in the cache
  //   kDataLoss            too much is lost or damaged
  //   others               of a disk
  using Then = std::function<void(const absl::StatusOr<std::map<Rank, kept::Set>>& by)>;
  void Make(const peer::Rebuild& order, std::function<void()> goes_on, Then then);
  void Stop();  // ends it at the next block
  bool at_work() const { return !under_way_.empty(); }

 private:
  struct Work {
    DatasetPtr dataset;   // null: this node knows nothing of it yet
    Dataset description;  // what it is
    LostParts parts;
    std::vector<catalogue::Catalogue> catalogues;  // of the lost ranks
    std::function<void()> goes_on;
    Then then;
    std::shared_ptr<TransferProgress> progress = std::make_shared<TransferProgress>();
    std::uint64_t seen = 0;  // TransferProgress::GotOn
    Loop::TimerId timer = 0;
  };
  using WorkPtr = std::shared_ptr<Work>;

  void LookAt(const WorkPtr& work);
  absl::Status CheckPlace(const Dataset& wanted) const;
  absl::Status TakeMembers(const peer::Rebuild& order, Work& work) const;
  absl::Status Reserve(const WorkPtr& work);
  void Rebuild(const WorkPtr& work);
  void Rebuilt(const WorkPtr& work, const absl::StatusOr<std::map<Rank, kept::Set>>& by);
  void End(const WorkPtr& work, const absl::StatusOr<std::map<Rank, kept::Set>>& by);

  const Context& context_;
  const Given given_;
  const std::function<void()> on_change_;
  std::map<DatasetId, WorkPtr> under_way_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_REBUILDER_H_
