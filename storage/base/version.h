// The version that the daemon and its tools name.
#ifndef CAIRN_STORAGE_BASE_VERSION_H_
#define CAIRN_STORAGE_BASE_VERSION_H_

namespace cairn {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_VERSION_H_
