// Which datasets a node has whole in its cache, such that another daemon of the run may restore them from there: told
// to other nodes, and as another node tells. Pure.
#ifndef CAIRN_DAEMON_CORE_HOLDINGS_H_
#define CAIRN_DAEMON_CORE_HOLDINGS_H_

#include <absl/status/status.h>

#include "daemon/core/ledger.h"
#include "proto/peer.pb.h"

namespace cairn {

// By id: all parts stored in the cache and the record there; not SCR's own, and not set apart from the run's line.
peer::Holdings HoldingsOf(const Ledger& ledger);

// What another node says is hostile. kInvalidArgument: names the field.
absl::Status Check(const peer::Holdings& holdings);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_HOLDINGS_H_
