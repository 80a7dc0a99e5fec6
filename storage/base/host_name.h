// The name of this machine, for records and messages. Thread-safe.
#ifndef CAIRN_STORAGE_BASE_HOST_NAME_H_
#define CAIRN_STORAGE_BASE_HOST_NAME_H_

#include <string>

namespace cairn {

// As the kernel has it; "unknown" if it has none. Never empty.
std::string HostName();

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_HOST_NAME_H_
