// The first message of every connection, on both doors: who speaks, and in which version of the protocol.
#ifndef CAIRN_DAEMON_DOOR_HANDSHAKE_H_
#define CAIRN_DAEMON_DOOR_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/local.pb.h"

namespace cairn {

// What the daemon says of itself in its HelloReply.
struct DaemonIdentity {
  std::string name;  // with the version, for example "cairnd 0.1.0"
  std::uint64_t incarnation = 0;
};

inline constexpr std::uint32_t kRequestBytesMax = 16u << 20;  // of one message from a client

struct Handshake {
  bool accepted = false;  // false: send the reply, then close
  local::Reply reply;
};

// Answers the first request of a connection. Accepted if it is a Hello whose range of versions meets ours; the newest
// common version is taken. Else FAILED_PRECONDITION: not a Hello, or no common version (the message names both ranges,
// and who is the older one).
Handshake AnswerFirst(const local::Request& first, const DaemonIdentity& identity);

// A reply that carries nothing but an error.
local::Reply ErrorReply(std::uint64_t call, local::Code code, std::string_view message);

// Text from a peer, fit for a log: at most `bytes_max` bytes, anything unprintable as '?'.
std::string Printable(std::string_view text, std::size_t bytes_max = 64);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_HANDSHAKE_H_
