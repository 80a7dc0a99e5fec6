// What files and folders of a prefix may be, less the umask: users share a prefix. SCR, too, leaves it to the umask
// (SCR specification, section 2).
#ifndef CAIRN_STORAGE_BASE_MODES_H_
#define CAIRN_STORAGE_BASE_MODES_H_

#include <cstdint>

namespace cairn {

inline constexpr std::uint32_t kPrefixFileMode = 0666;
inline constexpr std::uint32_t kPrefixFolderMode = 0777;

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_MODES_H_
