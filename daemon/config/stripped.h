// Text without the blanks around it.
#ifndef CAIRN_DAEMON_CONFIG_STRIPPED_H_
#define CAIRN_DAEMON_CONFIG_STRIPPED_H_

#include <cstddef>
#include <string_view>

namespace cairn {

inline std::string_view Stripped(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_STRIPPED_H_
