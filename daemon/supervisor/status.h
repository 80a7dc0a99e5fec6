// What root is told that connects to the status socket (proto/supervisor.h): numbers of each user. Stateless.
#ifndef CAIRN_DAEMON_SUPERVISOR_STATUS_H_
#define CAIRN_DAEMON_SUPERVISOR_STATUS_H_

#include <cstddef>
#include <string>

#include "daemon/supervisor/worker_table.h"

namespace cairn {

// Its bytes: the head and a row for each user, kStatusRowsMax at most. `began`: when the supervisor did.
std::string StatusOf(const Users& users, std::size_t workers, std::size_t workers_max, SteadyTime began,
                     SteadyTime now);

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_STATUS_H_
