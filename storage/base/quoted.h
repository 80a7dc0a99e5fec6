// Foreign text in an error message: bounded and on one line.
#ifndef CAIRN_STORAGE_BASE_QUOTED_H_
#define CAIRN_STORAGE_BASE_QUOTED_H_

#include <string>
#include <string_view>

namespace cairn {

// In single quotes, control characters as '?', and cut after 200 bytes with "…" behind.
inline std::string Quoted(std::string_view text) {
  constexpr std::size_t kBytesMax = 200;
  std::string quoted = "'";
  for (const char byte : text.substr(0, kBytesMax)) {
    quoted.push_back(static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f ? '?' : byte);
  }
  quoted += text.size() > kBytesMax ? "'…" : "'";
  return quoted;
}

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_QUOTED_H_
