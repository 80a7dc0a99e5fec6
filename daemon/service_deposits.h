// Deposits with the service manager itself, for a daemon that has no supervisor (sd_notify(3), FDSTORE=1).
#ifndef CAIRN_DAEMON_SERVICE_DEPOSITS_H_
#define CAIRN_DAEMON_SERVICE_DEPOSITS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "daemon/data/deposits.h"

namespace cairn {

// `socket`: $NOTIFY_SOCKET. `max`: so many descriptors, as $FDSTORE says; null if either is not there or it is 0.
// Takes what was left, too (TakeGivenDeposits): call it before there are other threads.
std::shared_ptr<Deposits> DepositsWithService(const std::optional<std::string>& socket,
                                              const std::optional<std::string>& max);

// How many descriptors the service manager says that it holds.
std::size_t HeldByService(const std::optional<std::string>& max);

}  // namespace cairn

#endif  // CAIRN_DAEMON_SERVICE_DEPOSITS_H_
