#include "daemon/door/handshake.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "proto/frame.h"

namespace cairn {

local::Reply ErrorReply(std::uint64_t call, local::Code code, std::string_view message) {
  local::Reply reply;
  reply.set_call(call);
  reply.mutable_status()->set_code(code);
  reply.mutable_status()->set_message(message.data(), message.size());
  return reply;
}

namespace {

std::string NoCommonVersion(const local::Hello& hello, const DaemonIdentity& identity) {
  std::string_view who;
  if (hello.protocol_min() > CAIRN_PROTOCOL_NEWEST) who = "; the daemon is too old for this client";
  if (hello.protocol_max() < CAIRN_PROTOCOL_OLDEST) who = "; the client is too old for this daemon";
  return fmt::format("no common protocol version: the client speaks {} to {}, {} speaks {} to {}{}",
                     hello.protocol_min(), hello.protocol_max(), identity.name, CAIRN_PROTOCOL_OLDEST,
                     CAIRN_PROTOCOL_NEWEST, who);
}

}  // namespace

Handshake AnswerFirst(const local::Request& first, const DaemonIdentity& identity) {
  if (!first.has_hello()) {
    return {.reply = ErrorReply(first.call(), local::FAILED_PRECONDITION,
                                "the first message of a connection must be Hello")};
  }
  const local::Hello& hello = first.hello();
  const std::uint32_t newest = std::min(hello.protocol_max(), CAIRN_PROTOCOL_NEWEST);
  if (newest < std::max(hello.protocol_min(), CAIRN_PROTOCOL_OLDEST)) {
    return {.reply = ErrorReply(first.call(), local::FAILED_PRECONDITION, NoCommonVersion(hello, identity))};
  }
  Handshake handshake{.accepted = true, .reply = {}};
  handshake.reply.set_call(first.call());
  local::HelloReply& answer = *handshake.reply.mutable_hello();
  answer.set_protocol(newest);
  answer.set_daemon(identity.name);
  answer.set_pid(static_cast<std::uint32_t>(getpid()));
  answer.set_incarnation(identity.incarnation);
  return handshake;
}

std::string Printable(std::string_view text, std::size_t bytes_max) {
  std::string result(text.substr(0, bytes_max));
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return result;
}

}  // namespace cairn
