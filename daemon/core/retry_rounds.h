// Who has been told RETRY of a dataset that its launch has passed over. It may still be restored by its number, if it
// is whole or has become so. But a rank that comes to it late, since it was the latest, would wait for others that have
// gone on to an older one. So in one round each rank is told RETRY once, and after that the dataset is as any other.
// An answer may be lost with its connection: over another one a rank is told again, and so are all. Strand only.
#ifndef CAIRN_DAEMON_CORE_RETRY_ROUNDS_H_
#define CAIRN_DAEMON_CORE_RETRY_ROUNDS_H_

#include <map>
#include <memory>
#include <utility>

#include "daemon/core/door.h"
#include "daemon/core/ledger.h"
#include "storage/base/ids.h"

namespace cairn {

class RetryRounds {
 public:
  using Over = std::shared_ptr<Connection>;

  // Nobody has been told yet. Rounds of older launches are forgotten.
  void Begin(LaunchId launch, DatasetId dataset);
  // The rank is told now, or is told of another dataset as the latest, which is as good.
  void Told(LaunchId launch, DatasetId dataset, Rank rank, const Over& over);
  // A rank comes to restore it. True: it is to be told, and counts as told from now on.
  bool IsToBeTold(const Launch& launch, DatasetId dataset, Rank rank, const Over& over);

 private:
  using Round = std::map<Rank, std::weak_ptr<Connection>>;
  std::map<std::pair<LaunchId, DatasetId>, Round> rounds_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RETRY_ROUNDS_H_
