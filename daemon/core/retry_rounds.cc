#include "daemon/core/retry_rounds.h"

namespace cairn {

void RetryRounds::Begin(LaunchId launch, DatasetId dataset) {
  rounds_.erase(rounds_.begin(), rounds_.lower_bound({launch, 0}));
  rounds_[{launch, dataset}].clear();
}

void RetryRounds::Told(LaunchId launch, DatasetId dataset, Rank rank, const Over& over) {
  rounds_[{launch, dataset}][rank] = over;
}

bool RetryRounds::IsToBeTold(const Launch& launch, DatasetId dataset, Rank rank, const Over& over) {
  Round& round = rounds_[{launch.id, dataset}];
  const auto told = round.find(rank);
  if (told != round.end() && told->second.lock() == over) return false;
  if (round.size() == launch.nranks) round.clear();
  round[rank] = over;
  return true;
}

}  // namespace cairn
