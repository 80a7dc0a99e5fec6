// BP5 ends names and strings with a NUL, so that none of them can have one.
#ifndef CAIRN_STORAGE_FORMAT_BP5_NUL_H_
#define CAIRN_STORAGE_FORMAT_BP5_NUL_H_

#include <string_view>

namespace cairn::bp5 {

inline bool HasNul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_NUL_H_
