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
#include "storage/job/protect/keep.h"
#include "storage/place/cache/spare_files.h"

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

  // Makes what the ranks here are to keep, durably, beside what they have kept so far for other sets: that goes when
  // all members of the new ones have noted them (AllKept). Of copies, blocks that were kept for an earlier dataset do
  // not come again. One order for a dataset at a time. `then` runs once, not inside the call:
  //   kNotFound            nothing of the dataset is whole here
  //   kInvalidArgument     the order contradicts itself, or what is here: names the field
  //   kUnavailable         a member's node is not reached; or an order for the dataset is under way
  //   kResourceExhausted   it has no room in the cache
  //   kDataLoss            a member's file is not what it should be: names it
  using Then = std::function<void(const absl::Status& status)>;
  void Keep(const peer::Keep& order, Then then);
  // All members of these sets have noted them: what ranks here keep for older ones goes, if there is any; of a dataset
  // of which something is being made here, after that.
  void AllKept(const DatasetPtr& dataset, const std::vector<kept::Set>& sets);
  void Stop() { progress_->stop = true; }  // ends it at the next block

 private:
  absl::Status Check(const peer::Keep& order, const Dataset& dataset) const;
  absl::StatusOr<std::map<Rank, std::shared_ptr<Disk>>> DisksOf(const peer::Keep& order) const;
  std::vector<SpareFile> SparesFor(std::uint64_t bytes);
  KeepWish WishFor(const Dataset& dataset) const;
  std::vector<EarlierDataset> EarlierThan(const DatasetPtr& dataset, const peer::Keep& order) const;
  void Start(const DatasetPtr& dataset, const peer::Keep& order, std::uint64_t more,
             std::map<Rank, std::shared_ptr<Disk>> disks, std::vector<SpareFile> spares, Then then);
  absl::StatusOr<kept::Record> Make(const KeepWish& wish);
  // In the pool, one at a time for a dataset; nobody lets go of it, or changes its folder, meanwhile.
  void Run(const DatasetPtr& dataset, std::function<absl::StatusOr<kept::Record>()> work,
           std::function<void(const absl::StatusOr<kept::Record>&)> then);
  void Ended(const DatasetPtr& dataset, const absl::StatusOr<kept::Record>& record, std::uint64_t kept_before,
             const Then& then);

  const Context& context_;
  const Given given_;
  const std::function<void()> on_change_;
  std::set<DatasetId> under_way_;
  std::map<DatasetId, std::vector<kept::Set>> all_kept_;  // told of these meanwhile
  const std::shared_ptr<TransferProgress> progress_ = std::make_shared<TransferProgress>();
  Throttle throttle_{0, context_.transfers->background()};
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_KEEPING_H_
