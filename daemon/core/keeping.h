// What the ranks whose parts are in this cache keep for others of their redundancy sets: made when the home of their
// launch orders it, which may be this daemon (protector.h). README.md, "Redundancy". Strand only.
#ifndef CAIRN_DAEMON_CORE_KEEPING_H_
#define CAIRN_DAEMON_CORE_KEEPING_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/ledger.h"
#include "daemon/core/nodes.h"
#include "daemon/core/run_cache.h"
#include "proto/peer.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/io/disk.h"

namespace cairn {

class Keeping {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    Ledger& ledger;
    Nodes& nodes;
    DatasetFolders& folders;
    RunCache& cache;
  };
  // `on_change`: of the run.
  Keeping(const Context& context, const Given& given, std::function<void()> on_change)
      : context_(context), given_(given), on_change_(std::move(on_change)) {}
  Keeping(const Keeping&) = delete;

  // Makes what the ranks here are to keep, durably, in the place of what they have kept so far. One order for a dataset
  // at a time. `then` runs once, not inside the call:
  //   kNotFound            nothing of the dataset is whole here
  //   kInvalidArgument     the order contradicts itself, or what is here: names the field
  //   kUnavailable         a member's node is not reached; or an order for the dataset is under way
  //   kResourceExhausted   it has no room in the cache
  //   kDataLoss            a member's file is not what it should be: names it
  using Then = std::function<void(const absl::Status& status)>;
  void Keep(const peer::Keep& order, Then then);
  void Stop() { progress_->stop = true; }  // ends it at the next block

 private:
  absl::Status Check(const peer::Keep& order, const Dataset& dataset) const;
  absl::StatusOr<std::map<Rank, std::shared_ptr<Disk>>> DisksOf(const peer::Keep& order) const;
  void Start(const DatasetPtr& dataset, const peer::Keep& order, std::map<Rank, std::shared_ptr<Disk>> disks,
             Then then);
  void Ended(const DatasetPtr& dataset, const absl::StatusOr<kept::Record>& record, std::uint64_t kept_before,
             const Then& then);

  const Context& context_;
  const Given given_;
  const std::function<void()> on_change_;
  std::set<DatasetId> under_way_;
  const std::shared_ptr<TransferProgress> progress_ = std::make_shared<TransferProgress>();
  const std::shared_ptr<Throttle> throttle_ = std::make_shared<Throttle>(0);
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_KEEPING_H_
