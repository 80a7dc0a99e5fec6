// Where clients on other hosts are listened for, as the settings say it. Pure; stateless, hence thread-safe.
#ifndef CAIRN_DAEMON_CONFIG_INGEST_ADDRESS_H_
#define CAIRN_DAEMON_CONFIG_INGEST_ADDRESS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

struct IngestAddress {
  std::string host;  // as it is written: a name, an address, "[…]" around one of IPv6
  std::uint16_t first = 0, last = 0;
  bool is_range() const { return first != last; }
  std::string At(std::uint16_t port) const;  // host:port
};

// "node7:7071", "0.0.0.0:7100-7199"; port 0, alone: the kernel chooses. kInvalidArgument: anything else.
absl::StatusOr<IngestAddress> ParseIngestAddress(std::string_view text);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_INGEST_ADDRESS_H_
