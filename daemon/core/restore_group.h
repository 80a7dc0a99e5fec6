// A restore under way: the ranks that have come to it, how far each is, and which copies could not be used.
#ifndef CAIRN_DAEMON_CORE_RESTORE_GROUP_H_
#define CAIRN_DAEMON_CORE_RESTORE_GROUP_H_

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "daemon/core/call.h"
#include "daemon/core/dataset.h"
#include "daemon/core/environment.h"
#include "daemon/core/restore_plan.h"
#include "daemon/core/restore_transfer.h"
#include "daemon/core/session.h"
#include "storage/base/ids.h"

namespace cairn {

// One rank's restore within its launch's restore.
struct RestorePart {
  SessionPtr session;
  std::shared_ptr<Call> call;
  std::vector<Wanted> wanted;                 // of which ranks' files
  bool own_file = false;                      // its next checkpoint goes on with the containers of its own file
  std::shared_ptr<RestoreTransfer> transfer;  // null: of the application's own files
  bool matched = false;                       // what it asks for is there, and where is known
  bool done = false;
  Tier tier = Tier::kNone;  // the weakest that has served it
};
using RestorePartPtr = std::shared_ptr<RestorePart>;

// All ranks restore the same dataset, or none does. Or one session reads a part of one, for itself.
struct RestoreGroup {
  DatasetPtr dataset;
  LaunchId launch = 0;
  bool read = false;
  bool alone = false;  // of one rank that did not hear that all had ended
  std::map<Rank, RestorePartPtr> parts;
  std::set<std::pair<Rank, Tier>> bad;      // copies that could not be used
  std::set<std::pair<Rank, Tier>> damaged;  // those of them that never will be
  std::set<std::pair<Rank, Tier>> away;     // those of them whose node, or the prefix, did not answer, and may again
  std::optional<SteadyTime> waits_until;    // for these
  bool started = false;                     // all ranks have matched
  bool fetched = false;                     // noted in the prefix' index
  bool ended = false;

  bool all_matched() const {
    return std::all_of(parts.begin(), parts.end(), [](const auto& item) { return item.second->matched; });
  }
  bool all_done() const {
    return std::all_of(parts.begin(), parts.end(), [](const auto& item) { return item.second->done; });
  }
};
using RestoreGroupPtr = std::shared_ptr<RestoreGroup>;

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RESTORE_GROUP_H_
