#include "daemon/bulk/frame.h"

#include <algorithm>
#include <limits>

#include "storage/base/check.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kPartBytesMax = 255;
constexpr std::uint32_t kNanosecondsMax = 999'999'999;
constexpr std::uint64_t kOffsetMax = std::numeric_limits<std::int64_t>::max();

void PutNumber(std::uint32_t number, std::string& out) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(number >> shift & 0xff));
}
std::uint32_t NumberAt(std::span<const std::byte> bytes) {
  std::uint32_t number = 0;
  for (int i = 3; i >= 0; --i)
    number = number << 8 | std::to_integer<std::uint32_t>(bytes[static_cast<std::size_t>(i)]);
  return number;
}

std::string Head(const google::protobuf::MessageLite& header, std::size_t payload_bytes) {
  const std::size_t header_bytes = header.ByteSizeLong();
  CAIRN_CHECK(header_bytes <= kHeaderBytesMax);
  CAIRN_CHECK(payload_bytes <= kWindowBytesMax);
  std::string head;
  head.reserve(BulkPrefix::kBytes + header_bytes);
  PutNumber(static_cast<std::uint32_t>(header_bytes), head);
  PutNumber(static_cast<std::uint32_t>(payload_bytes), head);
  header.AppendToString(&head);
  return head;
}

absl::Status CheckPart(std::string_view part) {
  if (part.empty()) return InvalidArgument("a part of the name is empty");
  if (part == "." || part == "..") return InvalidArgument("a part of the name is '{}'", part);
  if (part.size() > kPartBytesMax) return InvalidArgument("a part of the name has {} bytes", part.size());
  if (part.find('\0') != part.npos) return InvalidArgument("the name has a zero byte in it");
  return absl::OkStatus();
}

bulk::Time ToMessage(const timespec& time) {
  bulk::Time message;
  message.set_seconds(time.tv_sec);
  message.set_nanoseconds(static_cast<std::uint32_t>(time.tv_nsec));
  return message;
}
absl::StatusOr<timespec> TimeFromMessage(const bulk::Time& message) {
  if (message.nanoseconds() > kNanosecondsMax) {
    return InvalidArgument("info: a time has {} nanoseconds", message.nanoseconds());
  }
  return timespec{.tv_sec = message.seconds(), .tv_nsec = static_cast<long>(message.nanoseconds())};
}

}  // namespace

absl::StatusOr<BulkPrefix> ParsePrefix(std::span<const std::byte, BulkPrefix::kBytes> bytes) {
  const BulkPrefix prefix{.header_bytes = NumberAt(bytes.first(4)), .payload_bytes = NumberAt(bytes.last(4))};
  if (prefix.header_bytes > kHeaderBytesMax) return InvalidArgument("header: {} bytes", prefix.header_bytes);
  if (prefix.payload_bytes > kWindowBytesMax) return InvalidArgument("payload: {} bytes", prefix.payload_bytes);
  return prefix;
}

std::string FrameHead(const bulk::Request& request) {
  return Head(request, 0);
}
std::string FrameHead(const bulk::Answer& answer, std::size_t payload_bytes) {
  return Head(answer, payload_bytes);
}

absl::Status CheckName(std::string_view name) {
  if (name.empty()) return absl::OkStatus();
  if (name.size() > kBulkNameBytesMax) return InvalidArgument("name: {} bytes", name.size());
  std::size_t parts = 0;
  for (;;) {
    const std::size_t end = std::min(name.find('/'), name.size());
    CAIRN_RETURN_IF_ERROR(CheckPart(name.substr(0, end)));
    if (++parts > kNamePartsMax) return InvalidArgument("name: more than {} parts", kNamePartsMax);
    if (end == name.size()) return absl::OkStatus();
    name.remove_prefix(end + 1);
  }
}

absl::Status CheckRequest(const bulk::Request& request) {
  CAIRN_RETURN_IF_ERROR(CheckName(request.name()));
  switch (request.op()) {
    case bulk::Request::OPEN:
    case bulk::Request::INFO:
      return absl::OkStatus();
    case bulk::Request::READ:
      if (request.bytes() == 0 || request.bytes() > kWindowBytesMax) {
        return InvalidArgument("bytes: {}, not 1 to {}", request.bytes(), kWindowBytesMax);
      }
      if (request.offset() > kOffsetMax - request.bytes()) return InvalidArgument("offset: {}", request.offset());
      return absl::OkStatus();
    case bulk::Request::LIST:
      if (request.after().size() > kPartBytesMax) return InvalidArgument("after: {} bytes", request.after().size());
      return absl::OkStatus();
    default:
      return InvalidArgument("op: {} is unknown", static_cast<int>(request.op()));
  }
}

bulk::FileInfo ToMessage(const FileInfo& info) {
  bulk::FileInfo message;
  message.set_bytes(info.bytes);
  message.set_allocated_bytes(info.allocated_bytes);
  message.set_inode(info.inode);
  message.set_device(info.device);
  message.set_mode(info.mode);
  message.set_uid(info.uid);
  message.set_gid(info.gid);
  message.set_links(info.links);
  *message.mutable_atime() = ToMessage(info.atime);
  *message.mutable_mtime() = ToMessage(info.mtime);
  *message.mutable_ctime() = ToMessage(info.ctime);
  if (info.birth) *message.mutable_birth() = ToMessage(*info.birth);
  return message;
}

absl::StatusOr<FileInfo> FromMessage(const bulk::FileInfo& message) {
  FileInfo info{.bytes = message.bytes(),
                .allocated_bytes = message.allocated_bytes(),
                .inode = message.inode(),
                .device = message.device(),
                .mode = message.mode(),
                .uid = message.uid(),
                .gid = message.gid(),
                .links = message.links()};
  if (info.bytes > kOffsetMax) return InvalidArgument("info: a file of {} bytes", info.bytes);
  if (!info.is_regular() && !info.is_directory()) return InvalidArgument("info: neither a file nor a directory");
  CAIRN_ASSIGN_OR_RETURN(info.atime, TimeFromMessage(message.atime()));
  CAIRN_ASSIGN_OR_RETURN(info.mtime, TimeFromMessage(message.mtime()));
  CAIRN_ASSIGN_OR_RETURN(info.ctime, TimeFromMessage(message.ctime()));
  if (message.has_birth()) {
    CAIRN_ASSIGN_OR_RETURN(info.birth, TimeFromMessage(message.birth()));
  }
  return info;
}

void SetStatus(const absl::Status& status, bulk::Answer& answer) {
  answer.set_code(static_cast<std::uint32_t>(status.code()));
  // A string of proto3 is UTF-8; a name on disk need not be.
  std::string text(MessageOf(status).substr(0, kAnswerTextBytesMax));
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  answer.set_text(std::move(text));
}

absl::Status StatusOf(const bulk::Answer& answer) {
  constexpr std::array kKnown = {absl::StatusCode::kNotFound,          absl::StatusCode::kAlreadyExists,
                                 absl::StatusCode::kResourceExhausted, absl::StatusCode::kPermissionDenied,
                                 absl::StatusCode::kUnavailable,       absl::StatusCode::kInvalidArgument,
                                 absl::StatusCode::kDataLoss,          absl::StatusCode::kInternal};
  if (answer.code() == 0) return absl::OkStatus();
  for (const absl::StatusCode code : kKnown) {
    if (answer.code() == static_cast<std::uint32_t>(code)) return MakeError(code, "{}", Quoted(answer.text()));
  }
  return Unavailable("code {}: {}", answer.code(), Quoted(answer.text()));
}

absl::StatusOr<std::vector<std::string>> ParseNames(std::string_view payload, std::string_view after) {
  std::vector<std::string> names;
  while (!payload.empty()) {
    const std::size_t end = payload.find('\0');
    if (end == payload.npos) return InvalidArgument("names: the last has no end");
    const std::string_view name = payload.substr(0, end);
    CAIRN_RETURN_IF_ERROR(CheckPart(name));
    if (name.find('/') != name.npos) return InvalidArgument("names: {} is a path", Quoted(name));
    if (name <= (names.empty() ? after : names.back())) return InvalidArgument("names: not in order");
    names.emplace_back(name);
    payload.remove_prefix(end + 1);
  }
  return names;
}

}  // namespace cairn
