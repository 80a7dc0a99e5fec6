// What a run keeps in a service that others read and write, too: bytes sealed by the run's secret, for the one key that
// they lie under (AES-256-GCM). Whoever does not know the secret can neither read them nor make others, nor bring them
// under another key; he can remove them, and put back what once was there. Stateless, hence thread-safe.
#ifndef CAIRN_DAEMON_ARBITER_SEALED_H_
#define CAIRN_DAEMON_ARBITER_SEALED_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

inline constexpr std::size_t kSealBytes = 12 + 16;  // nonce and tag: that much more than what is sealed

// Different each time, for the same bytes, too: so its maker knows it again.
std::string Seal(std::string_view secret, std::string_view key, std::string_view bytes);
// None: it was not sealed with this secret for this key.
std::optional<std::string> Unseal(std::string_view secret, std::string_view key, std::string_view sealed);

}  // namespace cairn

#endif  // CAIRN_DAEMON_ARBITER_SEALED_H_
