// Bulk frames (proto/bulk.proto) between bytes and messages, and what is allowed in them. Pure; stateless, hence
// thread-safe. All that is parsed may come from anybody.
#ifndef CAIRN_DAEMON_BULK_FRAME_H_
#define CAIRN_DAEMON_BULK_FRAME_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/bulk.pb.h"
#include "storage/io/disk.h"

namespace cairn {

inline constexpr std::size_t kWindowBytesMax = 1 << 20;  // a payload has no more
inline constexpr std::size_t kHeaderBytesMax = 8 << 10;
inline constexpr std::size_t kBulkNameBytesMax = 2048;
inline constexpr std::size_t kNamePartsMax = 64;
inline constexpr std::size_t kAnswerTextBytesMax = 1024;

struct BulkPrefix {
  static constexpr std::size_t kBytes = 8;
  std::uint32_t header_bytes = 0;
  std::uint32_t payload_bytes = 0;
};
// kInvalidArgument: a header or a payload beyond its bound; the message names which.
absl::StatusOr<BulkPrefix> ParsePrefix(std::span<const std::byte, BulkPrefix::kBytes> bytes);

// Prefix and header of a frame that goes on with so many bytes of payload.
std::string FrameHead(const bulk::Request& request);
std::string FrameHead(const bulk::Answer& answer, std::size_t payload_bytes);

// A name below a folder: "" is the folder itself; no part is empty, "." or "..", none holds a zero byte.
// kInvalidArgument.
absl::Status CheckName(std::string_view name);
// kInvalidArgument: names the field.
absl::Status CheckRequest(const bulk::Request& request);

bulk::FileInfo ToMessage(const FileInfo& info);
absl::StatusOr<FileInfo> FromMessage(const bulk::FileInfo& message);  // kInvalidArgument: names the field

void SetStatus(const absl::Status& status, bulk::Answer& answer);  // the text is cut
// What an answer with a code says; a code that no disk answers with is kUnavailable.
absl::Status StatusOf(const bulk::Answer& answer);

// The names in a payload: in order, all behind `after`, each one part of a path. kInvalidArgument: anything else.
absl::StatusOr<std::vector<std::string>> ParseNames(std::string_view payload, std::string_view after);

}  // namespace cairn

#endif  // CAIRN_DAEMON_BULK_FRAME_H_
