// Deposits with the supervisor (proto/supervisor.h, kDepositFd): it makes the memory, and hands what this worker leaves
// to the next one.
#ifndef CAIRN_DAEMON_WORKER_DEPOSITS_H_
#define CAIRN_DAEMON_WORKER_DEPOSITS_H_

#include <functional>
#include <memory>

#include "daemon/data/deposits.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// Takes what was left, too: the sealed memory in the descriptors from `first_left` on. `gets_on`: tells the supervisor
// that this worker is at work though it is not ready yet; any thread.
std::shared_ptr<Deposits> DepositsWithSupervisor(UniqueFd socket, int first_left, std::function<void()> gets_on);

}  // namespace cairn

#endif  // CAIRN_DAEMON_WORKER_DEPOSITS_H_
