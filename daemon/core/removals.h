// What leaves one run's prefix: removed by the user or by prefix.keep_last, replaced by a newer one's files, or begun
// and never committed. Strand only.
#ifndef CAIRN_DAEMON_CORE_REMOVALS_H_
#define CAIRN_DAEMON_CORE_REMOVALS_H_

#include <absl/status/status.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/launch_keeper.h"
#include "daemon/core/ledger.h"
#include "daemon/core/node_record.h"
#include "daemon/core/prefix_gate.h"
#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

class Removals {
 public:
  // `in_use`: something is still being written to what was begun of the dataset.
  Removals(const Context& context, std::string run_name, Ledger& ledger, PrefixGate& gate, NodeRecord& record,
           std::function<bool(DatasetId)> in_use, const LaunchKeeper& keeper);
  Removals(const Removals&) = delete;

  // The user's will. `then` hears how it went, now or later. kFailedPrecondition: it is SCR's own; kUnavailable: out of
  // reach. Not there any more: OK.
  void Remove(const DatasetPtr& dataset, std::function<void(absl::Status)> then);
  // The user has removed it, and it is not on the prefix (any more): what other nodes' caches may have of it goes, too,
  // at once or when their daemons next look at the prefix, and comes back nowhere. As Remove.
  void RemoveElsewhere(const DatasetPtr& dataset, std::function<void(absl::Status)> then);
  static absl::Status IsScrs(DatasetId id);  // and hence not to be removed
  // What prefix.keep_last lets go. After a commit.
  void ApplyPolicy();
  // The application's own files keep their names: dataset `to` is about to put, or has put, others in their place.
  void GaveWay(DatasetId id, DatasetId to);
  // What has arrived of a dataset that comes too late for its names. A dataset of SCR's that has its number is not
  // touched.
  void RemoveTooLate(DatasetId id, std::vector<catalogue::Catalogue> catalogues);
  // What was begun and never committed, and is not in the cache any more, to go on with: it goes. When the prefix comes
  // into reach, and when something of that kind has come about.
  void Tidy();

 private:
  // What prefix.keep_last lets go.
  std::vector<DatasetId> ByPolicy(std::span<const Prefix::SetBack> set_backs) const;
  // By policy: under the launch that this daemon serves, and only if no newer one may have chosen it.
  void RemoveByPolicy(const DatasetPtr& dataset);
  void RemoveAs(const DatasetPtr& dataset, LaunchId committer, std::function<void(absl::Status)> then);
  void RemoveNow(const DatasetPtr& dataset, LaunchId committer, std::function<void(absl::Status)> then);

  const Context& context_;
  const std::string run_name_;
  Ledger& ledger_;
  PrefixGate& gate_;
  NodeRecord& record_;
  const std::function<bool(DatasetId)> in_use_;
  const LaunchKeeper& keeper_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_REMOVALS_H_
