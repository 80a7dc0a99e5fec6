// Cuts the byte stream of a Unix socket into frames (proto/frame.h). Pure: no I/O.
#ifndef CAIRN_DAEMON_DOOR_FRAME_PARSER_H_
#define CAIRN_DAEMON_DOOR_FRAME_PARSER_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "proto/local.pb.h"

namespace cairn {

// The frame of one message. REQUIRES: the message is at most CAIRN_FRAME_BYTES_MAX.
std::string EncodeFrame(const google::protobuf::MessageLite& message);

class FrameParser {
 public:
  // Gets each message as it is complete; borrowed for the call. False: enough, take no more.
  using OnMessage = std::function<bool(std::string_view message)>;

  explicit FrameParser(std::uint32_t message_bytes_max) : message_bytes_max_(message_bytes_max) {}

  // Takes the next bytes of the stream, however they were cut. Memory grows with the bytes that came, never with what
  // a header claims.
  //   kInvalidArgument    not a frame: wrong magic
  //   kResourceExhausted  a frame larger than the maximum
  // After an error the stream is lost: feed nothing more.
  absl::Status Feed(std::string_view bytes, const OnMessage& on_message);

 private:
  const std::uint32_t message_bytes_max_;
  std::string buffer_;  // the beginning of a frame that is not complete
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_FRAME_PARSER_H_
