#include "daemon/door/frame_parser.h"

#include <bit>
#include <cstring>

#include "proto/frame.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

static_assert(std::endian::native == std::endian::little && sizeof(cairn_frame_header) == 8);

}  // namespace

std::string EncodeFrame(const google::protobuf::MessageLite& message) {
  const std::size_t bytes = message.ByteSizeLong();
  CAIRN_CHECK(bytes <= CAIRN_FRAME_BYTES_MAX);
  const cairn_frame_header header{.magic = CAIRN_FRAME_MAGIC, .bytes = static_cast<std::uint32_t>(bytes)};
  std::string frame(sizeof(header) + bytes, '\0');
  std::memcpy(frame.data(), &header, sizeof(header));
  message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(frame.data() + sizeof(header)));
  return frame;
}

absl::Status FrameParser::Feed(std::string_view bytes, const OnMessage& on_message) {
  const bool buffered = !buffer_.empty();
  if (buffered) buffer_.append(bytes);
  std::string_view rest = buffered ? std::string_view(buffer_) : bytes;
  while (rest.size() >= sizeof(cairn_frame_header)) {
    cairn_frame_header header;
    std::memcpy(&header, rest.data(), sizeof(header));
    if (header.magic != CAIRN_FRAME_MAGIC) {
      return InvalidArgument("not a frame: magic is {:#010x}, expected {:#010x}", header.magic, CAIRN_FRAME_MAGIC);
    }
    if (header.bytes > message_bytes_max_) {
      return ResourceExhausted("a frame of {} bytes; at most {} are taken", header.bytes, message_bytes_max_);
    }
    if (rest.size() - sizeof(header) < header.bytes) break;
    const bool more = on_message(rest.substr(sizeof(header), header.bytes));
    rest.remove_prefix(sizeof(header) + header.bytes);
    if (!more) break;
  }
  if (!buffered) {
    buffer_.assign(rest);
  } else if (rest.size() != buffer_.size()) {  // else the frame is still incomplete: nothing to move
    buffer_ = std::string(rest);               // a new one: the room of a large message is not kept
  }
  return absl::OkStatus();
}

}  // namespace cairn
