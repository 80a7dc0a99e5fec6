// A protobuf message as a file: header, message, CRC32C over both.
//
//   0   8   magic
//   8   4   version (little-endian, as all numbers here)
//   12  4   reserved, zero
//   16  8   bytes of the message
//   24  n   message
//   24+n 4  CRC32C of all bytes before
//
// Every version begins with magic and version and ends with that CRC32C, so that damage is told from the future. Pure.
#ifndef CAIRN_STORAGE_FORMAT_FRAMED_FRAMED_H_
#define CAIRN_STORAGE_FORMAT_FRAMED_FRAMED_H_

#include <absl/status/statusor.h>
#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

struct FramedKind {
  std::string_view magic;  // 8 bytes
  std::string_view what;   // "a catalogue", for errors
  std::uint32_t version = 1;
  std::uint64_t bytes_max = 0;  // of the file
};

inline constexpr std::size_t kFramedMessageOffset = 24;

std::uint64_t FramedBytes(const google::protobuf::MessageLite& message);  // of its file
// REQUIRES: FramedBytes(message) <= kind.bytes_max.
std::string EncodeFramed(const FramedKind& kind, const google::protobuf::MessageLite& message);

// The message's place in the file.
//   kDataLoss            damaged, or no such file: names `name`, field and offset
//   kFailedPrecondition  a newer version
absl::StatusOr<std::string_view> FramedMessage(const FramedKind& kind, std::string_view name, std::string_view file);

}  // namespace cairn

#endif  // CAIRN_STORAGE_FORMAT_FRAMED_FRAMED_H_
