// MUNGE, where it runs: its daemon says, for all nodes that share its key, which user made a credential. Its library is
// opened at run time, so that nothing is asked of nodes without it. Thread-safe; Encode and Decode block: they ask the
// daemon, and give up after some seconds.
#ifndef CAIRN_DAEMON_TRUST_MUNGE_H_
#define CAIRN_DAEMON_TRUST_MUNGE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace cairn {

class Munge {
 public:
  // `socket`: of munged; empty: the library's own. Asks nothing of the daemon yet. kUnavailable: no library here.
  static absl::StatusOr<std::shared_ptr<const Munge>> Load(const std::string& socket = "");
  virtual ~Munge() = default;

  // A credential that only this user, on any node of the realm, can decode. kUnavailable: the daemon does not answer.
  virtual absl::StatusOr<std::string> Encode(std::string_view payload) const = 0;

  struct Decoded {
    std::uint32_t uid = 0;  // of its maker
    std::string payload;
  };
  // kPermissionDenied: it is no credential of this realm, was decoded on this node before (replayed), is too old or
  // too new, or not meant for this user. kUnavailable: the daemon does not answer.
  virtual absl::StatusOr<Decoded> Decode(const std::string& credential) const = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_MUNGE_H_
