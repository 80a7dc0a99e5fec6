#include "storage/format/framed/framed.h"

#include <bit>
#include <cstring>
#include <span>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

constexpr std::size_t kMagicBytes = 8;
constexpr std::size_t kVersionOffset = 8;
constexpr std::size_t kReservedOffset = 12;
constexpr std::size_t kLengthOffset = 16;
constexpr std::size_t kCrcBytes = 4;

template <typename T>
T NumberAt(std::string_view file, std::size_t offset) {
  T value;
  CAIRN_CHECK(offset + sizeof value <= file.size());
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

template <typename T>
void Append(T value, std::string* file) {
  file->append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::uint32_t CrcOf(std::string_view bytes) {
  return Crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

}  // namespace

std::uint64_t FramedBytes(const google::protobuf::MessageLite& message) {
  return kFramedMessageOffset + message.ByteSizeLong() + kCrcBytes;
}

std::string EncodeFramed(const FramedKind& kind, const google::protobuf::MessageLite& message) {
  CAIRN_CHECK(kind.magic.size() == kMagicBytes);
  std::string file(kind.magic);
  Append(kind.version, &file);
  Append(std::uint32_t{0}, &file);
  Append(std::uint64_t{message.ByteSizeLong()}, &file);
  CAIRN_CHECK(message.AppendToString(&file));
  CAIRN_CHECK(file.size() + kCrcBytes <= kind.bytes_max);
  Append(CrcOf(file), &file);
  return file;
}

absl::StatusOr<std::string_view> FramedMessage(const FramedKind& kind, std::string_view name, std::string_view file) {
  constexpr std::size_t kBytesMin = kFramedMessageOffset + kCrcBytes;
  if (file.size() < kBytesMin || file.size() > kind.bytes_max) {
    return DataLoss("{}: {} bytes, expected {} to {}", name, file.size(), kBytesMin, kind.bytes_max);
  }
  if (!file.starts_with(kind.magic)) return DataLoss("{}: offset 0: not the magic of {}", name, kind.what);
  const std::size_t crc_offset = file.size() - kCrcBytes;
  const std::uint32_t found = NumberAt<std::uint32_t>(file, crc_offset);
  const std::uint32_t expected = CrcOf(file.substr(0, crc_offset));
  if (found != expected) {
    return DataLoss("{}: offset {}: CRC32C is {:08x}, expected {:08x}", name, crc_offset, found, expected);
  }
  const std::uint32_t version = NumberAt<std::uint32_t>(file, kVersionOffset);
  if (version > kind.version) {
    return FailedPrecondition("{}: offset {}: version {} is newer than {}, the newest that is known here", name,
                              kVersionOffset, version, kind.version);
  }
  if (version != kind.version) {
    return DataLoss("{}: offset {}: version is {}, expected {}", name, kVersionOffset, version, kind.version);
  }
  if (const auto reserved = NumberAt<std::uint32_t>(file, kReservedOffset); reserved != 0) {
    return DataLoss("{}: offset {}: reserved is {}, expected 0", name, kReservedOffset, reserved);
  }
  const std::uint64_t bytes = NumberAt<std::uint64_t>(file, kLengthOffset);
  if (bytes != crc_offset - kFramedMessageOffset) {
    return DataLoss("{}: offset {}: message of {} bytes, expected {}", name, kLengthOffset, bytes,
                    crc_offset - kFramedMessageOffset);
  }
  return file.substr(kFramedMessageOffset, bytes);
}

}  // namespace cairn
