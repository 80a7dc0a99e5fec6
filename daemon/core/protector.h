// Which datasets of a launch that has its home here are to be `redundant`, and in which order: what is whole in the
// caches of several nodes is given to redundancy sets over them, by the scheme that its application has asked for or
// else by redundancy.scheme, and each node is told what its ranks are to keep (keeping.h). Or it is brought to the
// folder that is redundant itself (redundant_tier.h). README.md, "Redundancy". Strand only.
#ifndef CAIRN_DAEMON_CORE_PROTECTOR_H_
#define CAIRN_DAEMON_CORE_PROTECTOR_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/away.h"
#include "daemon/core/context.h"
#include "daemon/core/keeping.h"
#include "daemon/core/ledger.h"
#include "daemon/core/nodes.h"
#include "daemon/core/redundant_tier.h"
#include "daemon/core/waits.h"
#include "proto/peer.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/format/catalogue/scheme.h"

namespace cairn {

class Protector {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    Ledger& ledger;
    Waits& waits;
    Nodes& nodes;
    Away& away;
    Keeping& keeping;
    RedundantTier& tier;
  };
  // `look_again`: Update is to be called; time has passed.
  Protector(const Context& context, const Given& given, std::function<void()> look_again)
      : context_(context), given_(given), look_again_(std::move(look_again)) {}
  Protector(const Protector&) = delete;

  // After every change of the run: one dataset at a time, the newest first.
  void Update();
  // What could not be protected may be now. Update is called next.
  void ConfigurationChanged() { refused_.clear(); }
  // It is being brought to the folder that is redundant itself, or is next, and no try has failed.
  bool Brings(const Dataset& dataset) const;
  // It is being made redundant, or is to be, now or by a later try.
  bool IsToCome(const Dataset& dataset) const;
  // Why the dataset does not become `redundant`, now or later; "": it will, or it is not known yet.
  std::string WhyNot(const Dataset& dataset) const;

 private:
  struct Plan {
    std::vector<kept::Set> sets;
    std::map<NodeId, peer::Keep> orders;  // by the node that is to keep; this one's under this cache's id
  };

  AskedScheme AskedFor(const Dataset& dataset) const;
  std::string_view SchemeOf(const Dataset& dataset) const;  // "single", "partner", "xor", "rs" or "folder"
  absl::Status CheckSize(const Dataset& dataset, const std::vector<std::string>& groups) const;
  bool Wants(const Dataset& dataset) const;
  bool MayStart(const Dataset& dataset) const;
  void Begin(const DatasetPtr& dataset);
  absl::StatusOr<std::vector<std::string>> GroupsOf(const Dataset& dataset) const;
  absl::StatusOr<Plan> MakePlan(const Dataset& dataset) const;
  Plan PlanForFolder(const Dataset& dataset) const;
  void Start(const DatasetPtr& dataset, Plan plan);
  void AllBrought(const DatasetPtr& dataset, const absl::Status& status);
  void Ended(const DatasetPtr& dataset, const std::vector<kept::Set>& sets, const absl::Status& status);

  struct Refused {
    std::string why;
    bool for_good = false;  // these nodes cannot protect it
    SteadyTime until = {};  // else it is tried again then
    std::uint32_t times = 0;
  };

  const Context& context_;
  const Given given_;
  const std::function<void()> look_again_;
  // One to sets, one to the folder that is redundant itself: what hangs there holds up no other scheme.
  DatasetId under_way_ = 0, under_way_in_folder_ = 0;
  std::map<DatasetId, Refused> refused_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_PROTECTOR_H_
