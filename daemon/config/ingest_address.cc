#include "daemon/config/ingest_address.h"

#include "daemon/config/peer_address.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {

std::string IngestAddress::At(std::uint16_t port) const {
  return fmt::format("{}:{}", host, port);
}

absl::StatusOr<IngestAddress> ParseIngestAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view host = text.substr(0, colon);
  const std::string_view ports = colon == text.npos ? "" : text.substr(colon + 1);
  const absl::StatusOr<PortRange> range = ports == "0" ? PortRange() : ParsePorts(ports);
  if (host.empty() || host.find_first_of(" \t\n/") != host.npos || !range.ok()) {
    return InvalidArgument("{} is not host:port or host:first-last", Quoted(text));
  }
  return IngestAddress{.host = std::string(host), .first = range->first, .last = range->last};
}

}  // namespace cairn
