// What the users of a node divide among each other (daemon/config/shares.h).
#ifndef CAIRN_DAEMON_PROCESS_MACHINE_H_
#define CAIRN_DAEMON_PROCESS_MACHINE_H_

#include <absl/status/statusor.h>

#include <string>

#include "daemon/config/shares.h"

namespace cairn {

// Of this machine, and of the file system on which `cache` lies. kUnavailable: that cannot be asked.
absl::StatusOr<Machine> MachineOf(const std::string& cache);

}  // namespace cairn

#endif  // CAIRN_DAEMON_PROCESS_MACHINE_H_
