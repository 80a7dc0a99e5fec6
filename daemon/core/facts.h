// What the policy (daemon/policy/policy.h) is told of a run's datasets. Pure.
#ifndef CAIRN_DAEMON_CORE_FACTS_H_
#define CAIRN_DAEMON_CORE_FACTS_H_

#include <vector>

#include "daemon/config/config.h"
#include "daemon/core/ledger.h"
#include "daemon/policy/policy.h"

namespace cairn {

std::vector<DatasetFacts> FactsOf(const Ledger& ledger, const Config::Flush& flush);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_FACTS_H_
