// Which datasets a node has whole in its cache, such that another daemon of the run may bring them into its own: told
// to other nodes, and as another node tells. Pure.
#ifndef CAIRN_DAEMON_CORE_HOLDINGS_H_
#define CAIRN_DAEMON_CORE_HOLDINGS_H_

#include <absl/status/status.h>

#include <set>

#include "daemon/core/ledger.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"

namespace cairn {

// By id: all parts that are here stored in the cache and the record there; not SCR's own, and not set apart from the
// run's line. `rejected`: by this node's applications.
peer::Holdings HoldingsOf(const Ledger& ledger, const std::set<DatasetId>& rejected);

// What the dataset is, without where it lies: as DatasetOf takes it.
peer::Holding HoldingOf(const Dataset& dataset);

// What another node says is hostile. kInvalidArgument: names the field.
absl::Status Check(const peer::Holdings& holdings);
absl::Status Check(const peer::Holding& holding);

// What one of them is, without its parts and where it lies. REQUIRES: checked.
Dataset DatasetOf(const peer::Holding& holding);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_HOLDINGS_H_
