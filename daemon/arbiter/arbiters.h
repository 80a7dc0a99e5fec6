// The arbiters that the settings name (arbiter.*): for the daemon, and for commands that make launches or take ids.
#ifndef CAIRN_DAEMON_ARBITER_ARBITERS_H_
#define CAIRN_DAEMON_ARBITER_ARBITERS_H_

#include <absl/status/statusor.h>

#include <memory>

#include "daemon/config/config.h"
#include "storage/place/arbiter/arbiter_record.h"

namespace cairn {

// Nothing goes over the network yet. kInvalidArgument: endpoints or certificates are wrong.
absl::StatusOr<std::shared_ptr<const Arbiters>> MakeArbiters(const Config::Arbiter& settings);
// Of this kind, also if another one is set.
absl::StatusOr<std::shared_ptr<const Arbiters>> MakeArbiters(ArbiterKind kind, const Config::Arbiter& settings);

}  // namespace cairn

#endif  // CAIRN_DAEMON_ARBITER_ARBITERS_H_
