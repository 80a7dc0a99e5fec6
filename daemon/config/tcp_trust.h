// What it takes to trust a TCP connection: the files of TLS, or an address of this machine alone. Thread-safe.
#ifndef CAIRN_DAEMON_CONFIG_TCP_TRUST_H_
#define CAIRN_DAEMON_CONFIG_TCP_TRUST_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace cairn {

// Of "HOST:PORT", as it is written: no name is looked up.
bool IsLoopback(std::string_view address);

// The text of a PEM file. kInvalidArgument: it cannot be read, or is none; `what` is the setting that names it.
absl::StatusOr<std::string> ReadPem(std::string_view what, const std::string& path);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_TCP_TRUST_H_
