// What the policy (daemon/policy/policy.h) is told of a run's datasets. Pure.
#ifndef CAIRN_DAEMON_CORE_FACTS_H_
#define CAIRN_DAEMON_CORE_FACTS_H_

#include <vector>

#include "daemon/config/config.h"
#include "daemon/core/ledger.h"
#include "daemon/policy/policy.h"

namespace cairn {

// Of what is in play, and of what at rest is the newest to supersede it: no more is needed for what is flushed, dropped
// or evicted, however long the run's history.
std::vector<DatasetFacts> FactsOf(const Ledger& ledger, const Config::Flush& flush);
// Of all: for what is removed from the prefix.
std::vector<DatasetFacts> AllFactsOf(const Ledger& ledger, const Config::Flush& flush);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_FACTS_H_
