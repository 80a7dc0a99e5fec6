#include "client/cli/arbiters.h"

#include <grpc/support/log.h>

#include "daemon/arbiter/arbiters.h"
#include "daemon/config/command_line.h"
#include "storage/base/status.h"

namespace cairn::cli {

absl::StatusOr<std::shared_ptr<const Arbiters>> ConfiguredArbiters(std::optional<ArbiterKind> kind) {
  gpr_set_log_verbosity(static_cast<gpr_log_severity>(GPR_LOG_SEVERITY_ERROR + 1));  // errors come as statuses
  CAIRN_ASSIGN_OR_RETURN(const Config config, MakeConfig({}, Surroundings::OfThisProcess()));
  return kind ? MakeArbiters(*kind, config.arbiter) : MakeArbiters(config.arbiter);
}

}  // namespace cairn::cli
