// The name of the user as whom this process works. A cache has a folder of this name for each user. Thread-safe.
#ifndef CAIRN_STORAGE_BASE_USER_NAME_H_
#define CAIRN_STORAGE_BASE_USER_NAME_H_

#include <string>

namespace cairn {

// The effective user's; "uid-<number>" if the system knows no name.
std::string UserName();

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_USER_NAME_H_
