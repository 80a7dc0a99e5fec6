#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "proto/frame.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"

namespace cairn {
namespace {

constexpr std::size_t kPartBytesMax = 255;  // NAME_MAX of Linux' file systems

// RFC 3629, section 4: no overlong forms, no surrogates, nothing above U+10FFFF. (A catalogue's names are protobuf
// strings, which are UTF-8.)
bool IsUtf8(std::string_view text) {
  const auto byte_at = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto is_tail = [&](std::size_t i) { return (byte_at(i) & 0xc0u) == 0x80u; };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned lead = byte_at(i);
    if (lead < 0x80) {
      i += 1;
    } else if (lead >= 0xc2 && lead <= 0xdf && is_tail(i + 1)) {
      i += 2;
    } else if (lead >= 0xe0 && lead <= 0xef && is_tail(i + 1) && is_tail(i + 2)) {
      const unsigned second = byte_at(i + 1);
      if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f)) return false;
      i += 3;
    } else if (lead >= 0xf0 && lead <= 0xf4 && is_tail(i + 1) && is_tail(i + 2) && is_tail(i + 3)) {
      const unsigned second = byte_at(i + 1);
      if ((lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) return false;
      i += 4;
    } else {
      return false;
    }
  }
  return true;
}

bool HasControlCharacter(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// Parts of a path without empty ones and "."; ".." takes the part before it. False: it leads above the start.
bool Resolve(std::string_view path, std::vector<std::string_view>* parts) {
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts->push_back(part);
    } else if (parts->empty()) {
      return false;
    } else {
      parts->pop_back();
    }
  }
  return true;
}

absl::Status CheckText(std::string_view file) {
  if (file.empty()) return InvalidArgument("a file name is empty");
  if (file.size() > CAIRN_NAME_BYTES_MAX) {
    return InvalidArgument("a file name has {} bytes, at most {} are possible", file.size(), CAIRN_NAME_BYTES_MAX);
  }
  if (HasControlCharacter(file)) return InvalidArgument("a file name has a control character in it");
  if (!IsUtf8(file)) return InvalidArgument("a file name is not UTF-8");
  if (file.ends_with('/')) return InvalidArgument("file name \"{}\": names a directory", file);
  return absl::OkStatus();
}

absl::Status CheckParts(std::string_view file, const std::vector<std::string_view>& parts) {
  if (parts.empty()) return InvalidArgument("file name \"{}\": names a directory", file);
  if (parts[0] == ".scr" || parts[0] == ".cairn") {
    return InvalidArgument("file name \"{}\": {} belongs to the records", file, parts[0]);
  }
  if (parts.size() == 1 && IsCatalogueName(parts[0])) {
    return InvalidArgument("file name \"{}\": such names belong to the catalogues", file);
  }
  for (const std::string_view part : parts) {
    if (part.size() > kPartBytesMax) {
      return InvalidArgument("file name \"{}\": a part has {} bytes, at most {} are possible", file, part.size(),
                             kPartBytesMax);
    }
    if (IsWorkName(part)) return InvalidArgument("file name \"{}\": is kept for files being written", file);
  }
  return absl::OkStatus();
}

}  // namespace

std::string CatalogueName(Rank rank) {
  return fmt::format("rank_{}.cat", rank);
}

bool IsCatalogueName(std::string_view name) {
  constexpr std::string_view kBefore = "rank_", kAfter = ".cat";
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter) || name.size() <= kBefore.size() + kAfter.size()) {
    return false;
  }
  const std::string_view number = name.substr(kBefore.size(), name.size() - kBefore.size() - kAfter.size());
  return number.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string CheckpointFileName(DatasetId id, Rank rank) {
  return fmt::format("Ckpt{}-Rank{}.fti", id, rank);
}

absl::StatusOr<std::string> NormalizeFileName(std::string_view prefix, std::string_view file) {
  CAIRN_RETURN_IF_ERROR(CheckText(file));
  std::vector<std::string_view> parts;
  if (!Resolve(file, &parts)) return InvalidArgument("file name \"{}\": leaves the prefix {}", file, prefix);
  if (file.starts_with('/')) {
    std::vector<std::string_view> above;
    if (!prefix.starts_with('/') || !Resolve(prefix, &above) || parts.size() < above.size() ||
        !std::equal(above.begin(), above.end(), parts.begin())) {
      return InvalidArgument("file name \"{}\": outside the prefix {}", file, prefix);
    }
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(above.size()));
  }
  CAIRN_RETURN_IF_ERROR(CheckParts(file, parts));
  return fmt::format("{}", fmt::join(parts, "/"));
}

}  // namespace cairn
