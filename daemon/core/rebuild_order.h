// The order to make parts of a dataset anew (rebuilder.h): who is lost, and where the others of their sets are. Pure.
#ifndef CAIRN_DAEMON_CORE_REBUILD_ORDER_H_
#define CAIRN_DAEMON_CORE_REBUILD_ORDER_H_

#include <functional>
#include <map>
#include <vector>

#include "daemon/core/dataset.h"
#include "daemon/peers/member.h"
#include "proto/peer.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"

namespace cairn {

// `lost`: by rank the sets that may make it. `counts`: another member's part, as far as it is known where that is, may
// be used. `here`: this node, which has what is not elsewhere.
peer::Rebuild RebuildOrder(const Dataset& dataset, const std::map<Rank, std::vector<kept::Set>>& lost,
                           const std::function<bool(Rank)>& counts, const NodeId& here);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_REBUILD_ORDER_H_
