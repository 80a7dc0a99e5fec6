// What the nodes of a run say of it, put together for `cairn`. What another node says is hostile: it is checked here.
// Pure.
#ifndef CAIRN_DAEMON_CORE_OVER_NODES_H_
#define CAIRN_DAEMON_CORE_OVER_NODES_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "daemon/core/nodes.h"
#include "proto/admin.pb.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"

namespace cairn {

// One node: who it is, whether it has answered, and what.
struct NodeVoice {
  admin::NodeAnswer node;
  peer::Answer answer;  // empty: it has nothing to say, or is this one
};

class OverNodes {
 public:
  // `own`: this node. `said`: the others' answers to `question`. What is no answer to it counts as none, with the name
  // of the field. kNotFound is an answer: the node has nothing.
  OverNodes(const RunId& run, const peer::Question& question, const admin::NodeAnswer& own,
            std::vector<Nodes::Said> said);

  // This one first, then by name. Each has a name of its own.
  const std::vector<NodeVoice>& voices() const { return voices_; }
  std::vector<admin::NodeAnswer> nodes() const;

  // `own`: as this daemon has them. One row for each dataset, of the node that has brought it furthest, this one before
  // others; in whose caches it is.
  using Rows = std::map<DatasetId, admin::DatasetRow>;
  Rows List(Rows own, const std::string& prefix) const;
  // The same of one dataset and its ranks. kNotFound: no node has it; who did not answer is named.
  absl::StatusOr<admin::ShowReply> Show(absl::StatusOr<admin::ShowReply> own, const std::string& prefix) const;

 private:
  std::vector<NodeVoice> voices_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_OVER_NODES_H_
