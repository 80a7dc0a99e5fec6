// The arbiters that the daemon of this user is configured for, for commands that change a run themselves.
#ifndef CAIRN_CLIENT_CLI_ARBITERS_H_
#define CAIRN_CLIENT_CLI_ARBITERS_H_

#include <absl/status/statusor.h>

#include <memory>
#include <optional>

#include "storage/place/arbiter/arbiter_record.h"

namespace cairn::cli {

// By $CAIRN_CONFIG, else /etc/cairn/cairnd.toml if it is there. `kind`: of this one, else of the one that is set.
//   kInvalidArgument  the settings are wrong
absl::StatusOr<std::shared_ptr<const Arbiters>> ConfiguredArbiters(std::optional<ArbiterKind> kind = {});

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_ARBITERS_H_
