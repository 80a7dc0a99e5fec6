#include "storage/io/once_frame.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "storage/base/checksum.h"
#include "storage/base/path.h"

namespace cairn {
namespace {

static_assert(std::endian::native == std::endian::little);

// As PNG's: not text, and what translates ends of lines destroys it.
constexpr std::string_view kMagic =
    "\x89"
    "Cairn once 1\r\n\x1a";
static_assert(kMagic.size() == 16);
constexpr std::uint32_t kUnsynced = 0;
constexpr std::uint32_t kSynced = 0x636e7973;  // "sync": no single bit of it makes the other

struct Header {
  char magic[16];
  std::uint64_t content_bytes;
  std::uint32_t kind;
  std::uint32_t crc32c;
};
static_assert(sizeof(Header) == kFrameBytes);

constexpr std::string_view kOnce = ".once";
constexpr std::size_t kDigits = 16;  // that a work name ends with

std::uint32_t CrcOf(const Header& header, std::string_view content) {
  const auto head = std::as_bytes(std::span(&header, 1)).first(offsetof(Header, crc32c));
  return Crc32c(std::as_bytes(std::span(content)), Crc32c(head));
}

}  // namespace

std::string Frame(std::string_view content, bool synced) {
  Header header{.magic = {}, .content_bytes = content.size(), .kind = synced ? kSynced : kUnsynced, .crc32c = 0};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.crc32c = CrcOf(header, content);
  std::string file(kFrameBytes, '\0');
  std::memcpy(file.data(), &header, kFrameBytes);
  return file.append(content);
}

FrameState StateOfFrame(std::string_view file) {
  if (!file.empty() && file.size() < kMagic.size() && kMagic.starts_with(file)) return FrameState::kIncomplete;
  if (!file.starts_with(kMagic)) return FrameState::kPlain;
  if (file.size() < kFrameBytes) return FrameState::kIncomplete;
  Header header;
  std::memcpy(&header, file.data(), kFrameBytes);
  const std::string_view content = file.substr(kFrameBytes);
  const bool known = header.kind == kSynced || header.kind == kUnsynced;
  if (known && header.content_bytes == content.size() && header.crc32c == CrcOf(header, content)) {
    return FrameState::kWhole;
  }
  return header.kind == kUnsynced ? FrameState::kIncomplete : FrameState::kDamaged;
}

bool IsLeftover(std::string_view head) {
  return head.substr(0, kFrameBytes).find_first_not_of('\0') == std::string_view::npos;
}

bool MayBePlain(std::string_view content) {
  return !IsLeftover(content) && StateOfFrame(content) == FrameState::kPlain;
}

std::string OnceWorkName(const std::string& path) {
  return WorkName(path + std::string(kOnce));
}

std::string OnceWorkStem(const std::string& path) {
  const std::string name = BaseOf(OnceWorkName(path));  // cut, if the name is a long one
  return name.substr(0, name.size() - kDigits);
}

}  // namespace cairn
