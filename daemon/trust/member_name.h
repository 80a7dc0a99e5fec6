// How a certificate names a member of a run: one URI, of fixed length.
//   cairn://<run, 32 hex digits>/node/<node, 32 hex digits>/life/<incarnation, 16 hex digits>
// Pure; stateless, hence thread-safe.
#ifndef CAIRN_DAEMON_TRUST_MEMBER_NAME_H_
#define CAIRN_DAEMON_TRUST_MEMBER_NAME_H_

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>

#include "daemon/peers/link.h"
#include "storage/base/ids.h"

namespace cairn {

// REQUIRES: member.node is 32 lower-case hex digits.
std::string MemberName(const PeerIdentity& member);
// Exactly what MemberName writes; kInvalidArgument: anything else.
absl::StatusOr<PeerIdentity> ParseMemberName(std::string_view name);

// The name by which a daemon that dials asks for a run, before any certificate is shown (TLS' server name).
std::string RunServerName(const RunId& run);
std::optional<RunId> ParseRunServerName(std::string_view name);

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_MEMBER_NAME_H_
