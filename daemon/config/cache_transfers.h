// What the settings say of the transfers of the cache's disk. Pure.
#ifndef CAIRN_DAEMON_CONFIG_CACHE_TRANSFERS_H_
#define CAIRN_DAEMON_CONFIG_CACHE_TRANSFERS_H_

#include <string>

#include "daemon/config/config.h"
#include "storage/base/transfer_shape.h"

namespace cairn {

// `shapes`, with what is set in place of what was measured.
TransferShapes WithSettings(const Config::Cache& cache, TransferShapes shapes);

// Why nothing is measured, and nothing is used that was measured before. Empty: it is.
std::string WhyNotMeasured(const Config::Cache& cache);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_CACHE_TRANSFERS_H_
